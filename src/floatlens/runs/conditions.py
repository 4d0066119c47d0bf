"""From the names of conditions in a study to planned conditions: closed, rag, stress tests and edits.

An edit is compared with the same question unedited, which is `rag`, so `rag` is asked wherever there is an edit. For
stress tests the gold documents alone are asked as well, once for each question that takes any of the tests: robustness
compares with that. Distractors come from the other questions of the same data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.data.stress import TESTS, Point, Pool, StressSettings, apply, points, unfit
from floatlens.edits import EDITS
from floatlens.edits.spec import EditSpec, parse_edit
from floatlens.evaluation.first_mask import Appended
from floatlens.records.condition import CLOSED, RAG, Condition, Edited, Stressed

if TYPE_CHECKING:
    from floatlens.data import Data, Example
    from floatlens.data.examples import Need

__all__ = ["Chosen", "Makers", "PlannedCondition", "choose", "plan_conditions", "plan_places"]

MODES = ("closed", "rag")
Say = Callable[[str], Any]


@dataclass(frozen=True)
class PlannedCondition:
    """A condition and how it is carried out."""

    condition: Condition
    make: Callable[[Example], Example]
    """The question with the documents to be shown."""
    fits: Callable[[Example], bool] = lambda example: True
    model_kind: str = "any"
    """Only models of this kind, "arm" or "mdm"; or any."""
    appended: Appended | None = None
    edit: EditSpec | None = None
    measured: int = 0
    """The first N questions are also traced, see `measurement`."""

    @property
    def waits(self) -> bool:
        """Whether it can only be asked once traces tell which heads retrieve."""
        return self.edit is not None and self.edit.waits_for_traces


@dataclass(frozen=True)
class Chosen:
    """The conditions of a data set by sort, each once and in the order given."""

    modes: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    edits: tuple[EditSpec, ...] = ()

    def need(self, *, corpus: bool) -> tuple[Need, ...]:
        """What every question must have."""
        if not (self.modes or self.tests or self.edits):
            return ()
        return ("answers", "documents") if "rag" in self.modes and not corpus else ("answers",)


def choose(names: Sequence[str], problems: list[tuple[int, str]]) -> Chosen:
    """The conditions of these names; `problems` gets the place and the text of each that does not exist."""
    tests = [name for name in TESTS if name != "clean"]
    modes: dict[str, None] = {}
    asked: dict[str, None] = {}
    edits: dict[EditSpec, None] = {}
    for place, name in enumerate(names):
        if name in MODES:
            modes[name] = None
        elif name in tests:
            asked[name] = None
        elif name.partition(":")[0] in EDITS:
            try:
                edits |= dict.fromkeys(parse_edit(name, "edit"))
            except FloatlensError as error:
                problems.append((place, str(error)))
        else:
            known = did_you_mean(name.partition(":")[0], [*MODES, *tests, *EDITS])
            problems.append((place, f'no condition "{name}"{known}'))
    return Chosen(tuple(modes), tuple(asked), tuple(edits))


@dataclass(frozen=True)
class Makers:
    """How questions are put: what `rag` shows, the settings of stress tests, and the seed of random controls."""

    rag: Callable[[Example], Example]
    stress: StressSettings
    controls: int
    measured: int
    say: Say = lambda message: None


def plan_conditions(chosen: Chosen, data: Data, makers: Makers) -> tuple[PlannedCondition, ...]:
    """Every condition of a data set; those that wait for traces are to be given their heads later."""
    planned = [PlannedCondition(CLOSED, _without_documents)] if "closed" in chosen.modes else []
    if "rag" in chosen.modes or chosen.edits:
        planned.append(PlannedCondition(RAG, makers.rag, measured=makers.measured if chosen.edits else 0))
    for spec in chosen.edits:
        planned += _edited(spec, makers)
    if chosen.tests:
        planned += _stressed(chosen.tests, data, makers)
    return tuple(planned)


def _without_documents(example: Example) -> Example:
    return example.model_copy(update={"documents": []})


def _edited(spec: EditSpec, makers: Makers) -> list[PlannedCondition]:
    """An edit and its control."""
    own = Edited(name=spec.name, settings=spec.settings)
    one = PlannedCondition(own, makers.rag, edit=spec, measured=makers.measured)
    if not spec.has_control:
        return [one]
    drawn = own.model_copy(update={"control": "random", "seed": makers.controls})
    return [one, replace(one, condition=drawn, edit=spec.with_control(makers.controls))]


# -- stress tests -------------------------------------------------------------------------------------------------


def _stressed(tests: Sequence[str], data: Data, makers: Makers) -> list[PlannedCondition]:
    settings, pool = makers.stress, Pool.of(data.examples())
    fitting = {test: _fitting(data, test, settings, pool, makers.say) for test in tests}
    takes = [test for test, ids in fitting.items() if ids]
    documents = set().union(*(fitting[test] for test in takes if TESTS[test].needs))
    found = [_point(point, documents, pool, settings) for point in points("clean") if documents]
    for test in takes:
        found += [_point(point, fitting[test], pool, settings) for point in points(test, settings)]
    return found


def _fitting(data: Data, test: str, settings: StressSettings, pool: Pool, say: Say) -> set[str]:
    """Ids of the questions that can take a test; how many cannot, and why, is said."""
    fits: set[str] = set()
    left: list[str] = []
    for example in data.examples():
        reason = unfit(example, test, settings, pool)
        if reason is None:
            fits.add(example.id)
        else:
            left.append(f"question {example.id} {reason}")
    if left:
        rest = "skipped" if fits else "so the test is skipped"
        say(f"{test}: {len(left)} of {len(left) + len(fits)} questions of {data.name} do not fit, {rest} ({left[0]})")
        if data.gold is None and not any(document.is_gold for e in data.examples() for document in e.documents):
            say(f"no document of {data.name} is marked as gold; gold: answer (--gold answer) marks those with an answer")
    return fits


def _point(point: Point, fits: set[str], pool: Pool, settings: StressSettings) -> PlannedCondition:
    appended = Appended(int(point.x), cast("Any", point.series)) if point.test == "masks" else None
    return PlannedCondition(
        Stressed(test=point.test, series=point.series, x=point.x, point=point.label),
        partial(apply, point=point, pool=pool, settings=settings),
        lambda example: example.id in fits,
        TESTS[point.test].kind,
        appended,
    )


def plan_places(data: Data, places: Sequence[int], documents: int, seed: int, say: Say) -> list[PlannedCondition]:
    """A condition for each position of the gold document, with the same documents in all of them; for traces."""
    settings: StressSettings = StressSettings.model_validate({"seed": seed, "documents": documents, "places": places})
    pool = Pool.of(data.examples())
    fits = _fitting(data, "position", settings, pool, lambda message: say(f"traces: {message}"))
    return [_point(point, fits, pool, settings) for point in points("position", settings)]
