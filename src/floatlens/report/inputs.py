"""What a report is made from. The report analyses nothing and opens no run: everything is handed to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from floatlens.analysis import Result
    from floatlens.claims import Claim
    from floatlens.report.subjects import Seen

__all__ = ["Inputs", "RunAnswers", "run_name"]


@dataclass(frozen=True, eq=False)
class RunAnswers:
    """The answers of one run: the answers frame, the run's manifest, the verdicts on claims about the answers, and the
    patching frame of the questions that were patched."""

    name: str
    path: str
    frame: pd.DataFrame
    manifest: Mapping[str, Any]
    claims: Sequence[Claim] = ()
    patching: pd.DataFrame | None = None

    @property
    def models(self) -> dict[str, Mapping[str, Any]]:
        """Facts of every model that answered or was patched, in the manifest's order."""
        there = set(self.frame["model"]) | (set() if self.patching is None else set(self.patching["model"]))
        return {ref: facts for ref, facts in self.manifest["models"].items() if ref in there}

    def patched(self, model: str | None = None) -> int:
        """How many questions were patched, by all models or one."""
        if self.patching is None:
            return 0
        own = self.patching if model is None else self.patching[self.patching["model"] == model]
        return len(own[["model", "data", "id"]].drop_duplicates())


def run_name(run: RunAnswers, runs: Sequence[RunAnswers]) -> str:
    """What a run is called among several: its name, or its path where two have one name."""
    return run.path if sum(one.name == run.name for one in runs) > 1 else run.name


@dataclass(frozen=True, eq=False)
class Inputs:
    """Results by analysis with the verdicts on them, traces to show, answers run by run.

    `skipped` says what was left out and why, `runs` describes each run (name, path, counts, manifest), `made` says how
    to make the report again.

    Example: `report(Inputs(results=fl.analyse(traces, ["drift"])), "report.html")`
    """

    results: Mapping[str, Result] = field(default_factory=dict)
    claims: Sequence[Claim] = ()
    traces: Sequence[Seen] = ()
    answers: Sequence[RunAnswers] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    runs: Sequence[Mapping[str, Any]] = ()
    made: Mapping[str, Any] = field(default_factory=dict)
