"""The models that a study gives, folders of snapshots spread out: which are snapshots of a course, and at which step.

Steps and tokens come from the study or from `adaptation.json`, never from names. No weights are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from floatlens.core.errors import FloatlensError
from floatlens.core.validation import validate
from floatlens.models import names
from floatlens.models.config import Placement
from floatlens.models.course import Course, trained
from floatlens.runs.study import StudyModel, StudySnapshots

if TYPE_CHECKING:
    from floatlens.models.facts import Facts
    from floatlens.runs.study_file import Source

__all__ = ["Given", "check_course", "given_models"]


@dataclass(frozen=True)
class Given:
    """A model as a study gives it. `number` is the place of its entry, `ref` its reference from the working directory;
    `course` is None for a model that is no snapshot."""

    number: int
    model: StudyModel
    ref: str
    course: Course | None = None

    @property
    def name(self) -> str:
        """What the model is called in records, tables and figures."""
        return self.ref if self.course is None else self.course.label


def given_models(source: Source) -> list[Given]:
    """Every model of the study in its order; duplicates, steps that are not known and origins that are not there are
    refused."""
    found: list[Given] = []
    for number, entry in enumerate(source.study.models):
        with source.at("models", number):
            for one in _read(source, number, entry):
                _check_new(one, found)
                found.append(one)
    return _with_origins(source, found)


def _read(source: Source, number: int, entry: StudyModel | StudySnapshots) -> Iterator[Given]:
    if isinstance(entry, StudySnapshots):
        yield from _spread(source, number, entry)
        return
    ref = source.model_ref(entry.ref)
    yield Given(number, entry, ref, None if entry.course is None else _course(entry, ref))


def _course(entry: StudyModel, ref: str) -> Course:
    """The course of a single snapshot: what the study says, else what its adaptation.json says."""
    assert entry.course is not None
    said = trained(Path(names.resolve(ref)).expanduser()) if None in (entry.step, entry.tokens) else None
    if entry.step is None and said is None:
        raise FloatlensError(
            f"{ref}: no training step is known (no adaptation.json beside its weights states one); give step: N"
        )
    step = entry.step if said is None or entry.step is not None else said.step
    tokens = entry.tokens if said is None or entry.tokens is not None or step != said.step else said.tokens
    assert step is not None
    return Course(entry.course, step, tokens)


# -- folders of snapshots -----------------------------------------------------------------------------------------


def _spread(source: Source, number: int, entry: StudySnapshots) -> Iterator[Given]:
    """A snapshot of a folder after the other, by step."""
    folder = _folder(Path(source.path(entry.snapshots)).expanduser().resolve())
    name = entry.course or (folder.parent.name if folder.name == "snapshots" else folder.name)
    held = {path: trained(path) for path in sorted(folder.iterdir())}
    steps = {path: said for path, said in held.items() if said is not None}
    if not steps:
        raise FloatlensError(
            f"{folder}: no snapshots in it; a snapshot is a folder with an adaptation.json that states its step"
        )
    if entry.steps is not None:
        have = sorted({said.step for said in steps.values()})
        for step in entry.steps:
            if step not in have:
                raise FloatlensError(f"{folder}: no snapshot of step {step}; there are {', '.join(map(str, have))}")
        steps = {path: said for path, said in steps.items() if said.step in entry.steps}
    placed: dict[str, Any] = entry.model_dump(include=set(Placement.model_fields))
    for path, said in sorted(steps.items(), key=lambda one: one[1].step):
        model = validate(StudyModel, {"ref": str(path), **placed, "decoding": entry.decoding, "course": name})
        model = model.model_copy(update={"origin": entry.origin})
        tokens = None if entry.after else said.tokens  # those of the stages before are not known here
        yield Given(number, model, str(path), Course(name, entry.after + said.step, tokens))


def _folder(given: Path) -> Path:
    if not given.is_dir():
        raise FloatlensError(f"{given}: no such folder; give a folder that floatlens adapt wrote, or its snapshots")
    return given / "snapshots" if (given / "snapshots").is_dir() else given


# -- checks -------------------------------------------------------------------------------------------------------


def _check_new(one: Given, others: Sequence[Given]) -> None:
    for other in others:
        if (one.ref, one.model.revision) == (other.ref, other.model.revision):
            raise FloatlensError(f"{one.ref} is given twice; give every model once")
        if one.name == other.name:
            raise FloatlensError(
                f"{one.name} is given twice, as {other.ref} and as {one.ref}; give every step of a course once"
            )


def _with_origins(source: Source, found: Sequence[Given]) -> list[Given]:
    """The same models; each snapshot names the origin of its course, which one of its entries may give."""
    plain = [one.ref for one in found if one.course is None]
    origins: dict[str, str] = {}
    for one in found:
        if one.course is None or one.model.origin is None:
            continue
        with source.at("models", one.number, "origin"):
            origin = source.model_ref(one.model.origin)
            if origin not in plain:
                raise FloatlensError(f"{origin} is not among the models; list it too, without a course")
            if origins.setdefault(one.course.name, origin) != origin:
                raise FloatlensError(
                    f"the course {one.course.name} has another origin already: {origins[one.course.name]}"
                )
    return [
        one if one.course is None else replace(one, course=replace(one.course, origin=origins.get(one.course.name)))
        for one in found
    ]


def check_course(facts: Facts, others: Sequence[Facts]) -> None:
    """Refuse a snapshot that cannot be of the same model as those of its course before it."""
    for other in others:
        if facts.course is None or other.course is None or facts.course.name != other.course.name:
            continue
        for what in ("layers", "heads", "kind"):
            mine, theirs = getattr(facts, what), getattr(other, what)
            if mine != theirs:
                raise FloatlensError(
                    f"{facts.ref} has {what} {mine} and {other.ref} {theirs}; a course is one model over training"
                )
