"""From the names of conditions in a study to planned conditions: closed, rag, stress tests and edits.

An edit is compared with the same question unedited, which is `rag`, so `rag` is asked wherever there is an edit. For
stress tests the gold documents alone are asked as well, once for each question that takes any of the tests: robustness
compares with that. Distractors come from the other questions of the same data.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.data.stress import STRESS_TESTS, Appended, Pool, StressSettings, StressTest, stress_names
from floatlens.edits import EDITS
from floatlens.edits.spec import EditSpec, parse_edit
from floatlens.records.condition import CLOSED, RAG, Condition, Edited, Stressed

if TYPE_CHECKING:
    from floatlens.attention.setting import ControlKind
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
        """Whether it can only be asked once there are traces, see `EditSpec.waits_for_traces`."""
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
    tests = stress_names()
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
            problems.append((place, _unknown(name, tests)))
    return Chosen(tuple(modes), tuple(asked), tuple(edits))


def _unknown(name: str, tests: Collection[str]) -> str:
    """What a name that is no condition was meant to be: an edit if it has settings or is close to one."""
    word, settings, _ = name.partition(":")
    close = difflib.get_close_matches(word, [*MODES, *tests, *EDITS], n=1)
    if settings or set(close) & set(EDITS):
        return f'no edit "{word}"{did_you_mean(word, EDITS)}'
    return f'no condition "{name}"{did_you_mean(word, [*MODES, *tests, *EDITS])}'


@dataclass(frozen=True)
class Makers:
    """How questions are put: what `rag` shows, the settings of stress tests, and the seeds of random controls."""

    rag: Callable[[Example], Example]
    stress: StressSettings
    controls: tuple[int, ...]
    """A seed for each draw of a control."""
    measured: int
    say: Say = lambda message: None
    kinds: Sequence[ControlKind] | None = None
    """The kinds of controls where an edit has one of these; None: all that it has."""

    def controls_of(self, spec: EditSpec) -> Sequence[ControlKind]:
        return [kind for kind in spec.controls if self.kinds is None or kind in self.kinds] or spec.controls


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
    """An edit and its controls: every draw of every kind."""
    own = Edited(name=spec.name, settings=spec.settings)
    one = PlannedCondition(own, makers.rag, edit=spec, measured=makers.measured)
    found = [one]
    for kind in makers.controls_of(spec):
        for seed in makers.controls:
            drawn = own.model_copy(update={"control": kind, "seed": seed})
            found.append(replace(one, condition=drawn, edit=spec.with_control(seed, kind)))
    return found


# -- stress tests -------------------------------------------------------------------------------------------------


def _stressed(names: Sequence[str], data: Data, makers: Makers) -> list[PlannedCondition]:
    pool = Pool.of(data.examples())
    tests = {name: makers.stress.of(name).prepare(data, pool) for name in names}
    fitting = {name: ids for name, test in tests.items() if (ids := _fitting(data, test, pool, makers.say))}
    references = dict.fromkeys(one for name in fitting if (one := STRESS_TESTS[name].reference) is not None)
    found = []
    for reference in references:
        ids = set().union(*(fitting[name] for name in fitting if STRESS_TESTS[name].reference == reference))
        found += _points(makers.stress.of(reference), ids, pool)
    return found + [one for name, ids in fitting.items() for one in _points(tests[name], ids, pool)]


def _fitting(data: Data, test: StressTest, pool: Pool, say: Say) -> set[str]:
    """Ids of the questions that can take a test; how many cannot, and why, is said."""
    reasons = {example.id: test.unfit(example, pool) for example in data.examples()}
    left = [f"question {id} {reason}" for id, reason in reasons.items() if reason is not None]
    if left:
        rest = "these are skipped" if len(left) < len(reasons) else "so the test is skipped"
        say(f"{test.name}: {len(left)} of {len(reasons)} questions of {data.name} do not fit, {rest} ({left[0]})")
    return {id for id, reason in reasons.items() if reason is None}


def _points(test: StressTest, fits: set[str], pool: Pool) -> list[PlannedCondition]:
    return [
        PlannedCondition(
            Stressed(test=point.test, series=point.series, x=point.x, point=point.point),
            partial(test.apply, point=point, pool=pool),
            lambda example: example.id in fits,
            test.kind,
            test.appended(point),
        )
        for point in test.points()
    ]


def plan_places(data: Data, places: Sequence[int], documents: int, seed: int, say: Say) -> list[PlannedCondition]:
    """A condition for each position of the gold document, with the same documents in all of them; for traces."""
    values = {"seed": seed, "documents": documents, "position": {"places": places}}
    test, pool = StressSettings.model_validate(values).of("position"), Pool.of(data.examples())
    return _points(test, _fitting(data, test, pool, lambda message: say(f"traces: {message}")), pool)
