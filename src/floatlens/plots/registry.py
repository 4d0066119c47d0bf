"""Figures by name: what each needs, how it is described, and where the report shows it.

    FIGURES.add("peaks", FigureType(("peaks",), lambda data: peaks_figure(data["peaks"])))

An added figure (or one from another package's entry point) is drawn by `floatlens figures`, written to OUT/figures and
shown in the report's section of its analysis.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, count
from typing import Any, NamedTuple

from floatlens.analysis.result import Result
from floatlens.core.registry import Registry
from floatlens.plots.description import Figure

__all__ = ["FIGURES", "Described", "FigureType", "describe_figures", "file_name"]

Data = Mapping[str, Any]
"""Results by analysis; frames of `gains`, `collection`, `edits`, `patching`; curves of `stress`, `misled`; by model
`anchors` and `qk_maps`."""


@dataclass(frozen=True)
class FigureType:
    """A kind of figure: the analyses (or answer statistics) it needs, and a function from these to its description.

    The function may return several figures by what sets them apart. `section` is where the report shows it, the first
    need unless given; `on_page` says whether it does. Results have the last snapshot of each training course only, as
    one model of its own, unless the figure is for `every_step`.
    """

    needs: tuple[str, ...]
    describe: Callable[[Data], Figure | dict[str, Figure]]
    section: str | None = None
    on_page: bool = True
    every_step: bool = False

    @property
    def home(self) -> str:
        """The section of the report that shows it."""
        return self.section or self.needs[0]


class Described(NamedTuple):
    """Figures by a name fit for a file, and for each that is left out the reason."""

    figures: dict[str, Figure]
    skipped: dict[str, str]


FIGURES: Registry[FigureType] = Registry(
    "figure",
    "floatlens.figures",
    {
        "summary": "floatlens.plots.layers:SUMMARY",
        "evolution": "floatlens.plots.evolution:EVOLUTION",
        "drift": "floatlens.plots.layers:DRIFT",
        "absorption": "floatlens.plots.layers:ABSORPTION",
        "qk": "floatlens.plots.layers:QK",
        "token_classes": "floatlens.plots.token_classes:TOKEN_CLASSES",
        "retrieval_heads": "floatlens.plots.retrieval:RETRIEVAL_HEADS",
        "rollout": "floatlens.plots.flow:ROLLOUT",
        "gold_lift": "floatlens.plots.flow:GOLD_LIFT",
        "extremes": "floatlens.plots.layers:EXTREMES",
        "sinks": "floatlens.plots.sinks:SINKS",
        "sink_kinds": "floatlens.plots.sinks:SINK_KINDS",
        "order": "floatlens.plots.order:ORDER",
        "lens": "floatlens.plots.lens:LENS",
        "smoothing": "floatlens.plots.smoothing:SMOOTHING",
        "cacheability": "floatlens.plots.cacheability:CACHEABILITY",
        "anchors": "floatlens.plots.maps:ANCHORS",
        "qk_maps": "floatlens.plots.maps:QK_MAPS",
        "gains": "floatlens.plots.answers:GAINS",
        "stress": "floatlens.plots.answers:STRESS",
        "misled": "floatlens.plots.answers:MISLED",
        "collection": "floatlens.plots.collection:COLLECTION",
        "edits": "floatlens.plots.answers:EDITS",
        "patching": "floatlens.plots.patching:PATCHING",
        "cache": "floatlens.plots.cache:CACHE",
    },
)


def describe_figures(data: Data, wanted: Iterable[str] | None = None) -> Described:
    """Every figure (or those wanted) that the data allow; the others with the reason why not.

    Example: `describe_figures({"drift": fl.drift(trace)}, ["drift"]).figures["drift"]`
    """
    found = Described({}, {})
    last = {name: one.last_steps() if isinstance(one, Result) else one for name, one in data.items()}
    for name in FIGURES if wanted is None else wanted:
        kind = FIGURES[name]
        missing = [one for one in kind.needs if _empty(data.get(one))]
        if missing and kind.every_step:  # few runs have a course, and of the others nothing is said
            continue
        if missing:
            found.skipped[name] = f"no result of {', '.join(missing)}"
            continue
        made = kind.describe(data if kind.every_step else last)
        for key, figure in (made if isinstance(made, dict) else {"": made}).items():
            found.figures[file_name(name, key, found.figures)] = figure
    return found


def _empty(data: Any) -> bool:
    """Whether nothing is there: None, a result without groups, an empty frame or list."""
    return data is None or not len(getattr(data, "groups", data))


def file_name(name: str, key: str, taken: Iterable[str]) -> str:
    """The figure's name and what sets it apart, fit for a file and unlike the others."""
    bare = "-".join(part for part in (name, *re.split(r"[^\w.]+", key)) if part)
    return next(one for one in chain([bare], (f"{bare}-{i}" for i in count(2))) if one not in taken)
