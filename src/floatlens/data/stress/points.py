"""Which stress tests there are (methods §9), what can be chosen about them, and the points of their curves.

A point is one place on one curve: a noise ratio, a place of the gold document, a number of distractors. What is done to
a question at a point is said in `transform`; nothing here touches a question.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, get_args

from pydantic import BaseModel, ConfigDict, Field, ModelWrapValidatorHandler, ValidationError, model_validator

from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.core.validation import in_one_line

__all__ = [
    "DISTRACTOR_KINDS",
    "LAYOUTS",
    "TESTS",
    "DistractorKind",
    "Layout",
    "Point",
    "StressSettings",
    "Test",
    "named_test",
    "noise_count",
    "points",
]

DistractorKind: TypeAlias = Literal["random", "topic", "counterfactual"]
Layout: TypeAlias = Literal["adjacent", "scattered", "reversed", "split"]
DISTRACTOR_KINDS: tuple[DistractorKind, ...] = get_args(DistractorKind)
LAYOUTS: tuple[Layout, ...] = get_args(Layout)


@dataclass(frozen=True)
class Point:
    """One place on a stress curve. `series` is the line within the test, `label` how the axis names the place.

    Example: `Point("distractor", "topic", 4, "4").name  # "distractor-topic-4"`
    """

    test: str
    series: str
    x: float
    label: str

    @property
    def tick(self) -> str:
        """The place on an axis of numbers, as people say it: of noise the number of documents, which the ratio is not;
        of the gold document its place counted from 1, as the prompt does."""
        if self.test == "noise":
            return self.label
        return f"{self.x + 1:g}" if self.test == "position" else f"{self.x:g}"

    @property
    def name(self) -> str:
        """Unique among all points of all tests, and fit for the name of a file."""
        if self.test == "clean":
            return self.test
        place = self.label if self.test == "layout" else f"{self.x:.12g}"
        return "-".join([self.test, *([self.series] if self.series != self.test else []), place])


@dataclass(frozen=True)
class Test:
    """A stress test: `needs` is the fewest gold documents a question must have, `kind` the models it is meant for.

    `summary` says how its curve becomes one number: the `area` under it (trapezoids) over the width of the axis, or the
    plain `mean` where the axis has no scale.
    """

    name: str
    about: str
    axis: str
    needs: Literal[0, 1, 2]
    kind: Literal["any", "mdm"] = "any"
    summary: Literal["area", "mean"] = "area"

    __test__ = False  # pytest would take it for a test case


TESTS: Mapping[str, Test] = MappingProxyType(
    {
        test.name: test
        for test in (
            Test("clean", "Only the gold documents: what every robustness compares with.", "", 1, summary="mean"),
            Test(
                "noise",
                "More and more documents of noise stand beside the gold; of many gold ones they take the places.",
                "documents of noise",
                1,
            ),
            Test("position", "The gold documents stand at one place after another.", "place of the gold document", 1),
            Test("distractor", "More and more documents that mislead stand beside the gold.", "distractors", 1),
            Test("layout", "How the gold documents stand among the others.", "layout", 2, summary="mean"),
            Test("order", "The same documents in other orders.", "shuffle", 1, summary="mean"),
            Test("masks", "Masks, or dots as a control, after the prompt.", "tokens appended", 0, "mdm"),
        )
    }
)
"""By name, in the order of the documentation."""


class StressSettings(BaseModel):
    """What can be chosen; the defaults are those of methods §9. A wrong value is a FloatlensError of one line.

    `documents` is how many position, layout and order show; `places` None means every one of them.
    Example: `StressSettings(distractor_kinds=("topic",), seed=7)`
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    seed: int = Field(0, ge=0)
    noise_ratios: tuple[float, ...] = (0.0, 0.2, 0.4, 0.6, 0.8)
    noise_documents: int = Field(5, ge=1)
    documents: int = Field(10, ge=2)
    places: tuple[int, ...] | None = None
    distractor_kinds: tuple[DistractorKind, ...] = DISTRACTOR_KINDS
    distractor_counts: tuple[int, ...] = (1, 4, 9)
    layouts: tuple[Layout, ...] = LAYOUTS
    shuffles: int = Field(4, ge=1)
    mask_counts: tuple[int, ...] = (1, 2, 4, 8, 16, 32)

    @model_validator(mode="wrap")
    @classmethod
    def _in_one_line(cls, values: Any, handler: ModelWrapValidatorHandler[StressSettings]) -> StressSettings:
        try:
            made = handler(values)
        except ValidationError as error:
            raise FloatlensError(f"stress settings: {in_one_line(error, cls)}") from None
        _check(made)
        return made


def points(test: str, settings: StressSettings | None = None) -> tuple[Point, ...]:
    """The points of a test, series by series, each from left to right. Example: `[p.name for p in points("noise")]`"""
    chosen = settings or StressSettings()
    name = named_test(test).name
    if name == "clean":
        return (Point(name, name, 0.0, name),)
    if name == "noise":  # with few gold documents the ratio is no share of what is shown, so it is no label
        return tuple(Point(name, name, float(x), f"{noise_count(x, chosen)}") for x in sorted(chosen.noise_ratios))
    if name == "position":
        places = range(chosen.documents) if chosen.places is None else sorted(chosen.places)
        return tuple(Point(name, name, float(place), f"place {place}") for place in places)
    if name == "distractor":
        counts = sorted(chosen.distractor_counts)
        return tuple(point for kind in chosen.distractor_kinds for point in _line(name, kind, counts))
    if name == "layout":
        return tuple(Point(name, name, float(i), layout) for i, layout in enumerate(chosen.layouts))
    if name == "order":
        return tuple(Point(name, name, float(i), f"shuffle {i}") for i in range(chosen.shuffles))
    return tuple(point for series in ("mask", "dot") for point in _line(name, series, sorted(chosen.mask_counts)))


def noise_count(ratio: float, settings: StressSettings) -> int:
    """How many documents of noise a ratio stands for."""
    return round(ratio * settings.noise_documents)


def named_test(name: str) -> Test:
    """The test of that name, or an error that says which there are."""
    if name not in TESTS:
        raise FloatlensError(f'no stress test "{name}"{did_you_mean(name, TESTS)}')
    return TESTS[name]


def _line(test: str, series: str, xs: list[float] | list[int]) -> tuple[Point, ...]:
    return tuple(Point(test, series, float(x), f"{x:.12g}") for x in xs)


def _check(settings: StressSettings) -> None:
    """What a field alone does not show."""
    lists = ("noise_ratios", "places", "distractor_kinds", "distractor_counts", "layouts", "mask_counts")
    for name in lists:
        given = getattr(settings, name)
        if given is not None and (not given or len(set(given)) < len(given)):
            said = "an empty list; give at least one value" if not given else f"{list(given)}: each value once, please"
            raise FloatlensError(f"stress settings, {name} is {said}")
    for ratio in settings.noise_ratios:
        if not 0 <= ratio < 1 or noise_count(ratio, settings) == settings.noise_documents:
            raise FloatlensError(
                f"stress settings, noise_ratios: {ratio:g} of {settings.noise_documents} documents; "
                "expected 0 or more, and at least one document left for the gold"
            )
    _within("places", settings.places or (), 0, settings.documents - 1)
    _within("distractor_counts", settings.distractor_counts, 0, None)
    _within("mask_counts", settings.mask_counts, 1, None)


def _within(name: str, given: tuple[int, ...], low: int, high: int | None) -> None:
    for value in given:
        if value < low or (high is not None and value > high):
            span = f"{low} to {high}" if high is not None else f"{low} or more"
            raise FloatlensError(f"stress settings, {name}: {value}; expected {span}")
