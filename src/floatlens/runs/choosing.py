"""From the names of conditions in a study to the conditions themselves: closed, rag, stress tests and edits.

An edit is compared with the same question unedited, which is `rag`; so `rag` is asked wherever there is an edit.
Ablations of retrieval heads come last: which heads these are is read from the traces of the same study.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.data.stress import TESTS, StressSettings
from floatlens.edits import EDITS
from floatlens.edits.spec import EditSpec, parse_edit
from floatlens.runs.asking import Condition, Conditions, Subject
from floatlens.runs.intervening import heads_for
from floatlens.runs.stressing import stress_conditions

if TYPE_CHECKING:
    import xarray as xr

    from floatlens.data import Data, Example
    from floatlens.data.examples import Need

__all__ = ["MODES", "Chosen", "Makers", "ablations", "choose", "conditions"]

MODES = ("closed", "rag")


@dataclass(frozen=True)
class Chosen:
    """What is asked about a data set: modes, stress tests and edits, each once and in the order given."""

    modes: tuple[str, ...]
    tests: tuple[str, ...]
    edits: tuple[EditSpec, ...]

    @property
    def ablated(self) -> tuple[EditSpec, ...]:
        """Edits that wait for the traces."""
        return tuple(spec for spec in self.edits if spec.waits_for_traces)

    def need(self, *, corpus: bool) -> tuple[Need, ...]:
        """What every question must have."""
        if not (self.modes or self.tests or self.edits):
            return ()
        return ("answers", "documents") if "rag" in self.modes and not corpus else ("answers",)


def choose(names: Sequence[str], where: str) -> Chosen:
    """The conditions of these names; `where` they stand goes into errors."""
    tests = [name for name in TESTS if name != "clean"]
    found: dict[str, list[Any]] = {"modes": [], "tests": [], "edits": []}
    for name in dict.fromkeys(names):
        if name in MODES:
            found["modes"].append(name)
        elif name in tests:
            found["tests"].append(name)
        elif name.partition(":")[0] in EDITS:
            found["edits"] += [spec for spec in parse_edit(name, where) if spec not in found["edits"]]
        else:
            known = did_you_mean(name.partition(":")[0], [*MODES, *tests, *EDITS])
            raise FloatlensError(f'{where}: no condition "{name}"{known}')
    if found["edits"] and "rag" not in found["modes"]:
        found["modes"].append("rag")
    return Chosen(*(tuple(found[part]) for part in ("modes", "tests", "edits")))


@dataclass(frozen=True)
class Makers:
    """How a question is put: what `rag` shows, the stress tests' settings, and the seed of random controls."""

    rag: Callable[[Example], Example]
    stress: StressSettings
    controls: int
    measured: int
    say: Callable[[str], Any] = lambda message: None


def conditions(chosen: Chosen, makers: Makers) -> Conditions:
    """All conditions but the ablations that wait for traces."""
    modes = {"closed": Condition("closed", _without_documents)}
    modes["rag"] = Condition("rag", makers.rag, traced=makers.measured if chosen.edits else 0)
    edits = [spec for spec in chosen.edits if not spec.waits_for_traces]
    plain = [modes[name] for name in chosen.modes] + [one for spec in edits for one in _edited(spec, spec, makers)]
    stressed = stress_conditions(chosen.tests, makers.stress, makers.say) if chosen.tests else None

    def give(data: Data, subject: Subject) -> Sequence[Condition]:
        return [*plain, *(stressed(data, subject) if stressed is not None else ())]

    return give


def ablations(chosen: Chosen, makers: Makers, scores: Mapping[str, xr.DataArray] | None) -> Conditions:
    """The conditions that wait for traces; with `scores` None they can be counted, but not asked."""

    def give(data: Data, subject: Subject) -> Sequence[Condition]:
        found = []
        for spec in chosen.ablated:
            fixed = spec if scores is None else heads_for(spec, subject.ref, scores)
            found += _edited(spec, fixed, makers)
        return found

    return give


def _edited(spec: EditSpec, fixed: EditSpec, makers: Makers) -> list[Condition]:
    """An edit and its control, under the names that the study gave them."""
    one = Condition(spec.label, makers.rag, edit=fixed, traced=makers.measured)
    if not EDITS[spec.name].has_control:
        return [one]
    control = fixed.with_control(makers.controls)
    return [one, replace(one, name=spec.with_control(makers.controls).label, edit=control)]


def _without_documents(example: Example) -> Example:
    return example.model_copy(update={"documents": []})
