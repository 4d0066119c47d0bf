"""The answers of runs as the report shows them: by part (questions, stress tests, edits), judged and summed up.

Scores, curves, effects and verdicts come from their own rooms; here they are only collected.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from floatlens.analysis.conditions import edited, edits_of
from floatlens.analysis.sources import has_traces
from floatlens.records import store
from floatlens.records.store import open_answers

if TYPE_CHECKING:
    import pandas as pd

    from floatlens.analysis.stress import Curve
    from floatlens.claims import Claim
    from floatlens.records.condition import Edited

_KINDS = ("qa", "stress", "intervene")

__all__ = ["Answered", "open_answered", "read_manifest", "told_apart"]


def read_manifest(run: Path) -> dict[str, Any] | None:
    """The manifest of a run folder; None where there is none."""
    return store.read_manifest(run) if store.is_run(run) else None


@dataclass(frozen=True, eq=False)
class Answered:
    """The answers of one part of a run. `suffix` sets its sections and figures apart from those of other runs."""

    run: Path
    kind: str
    answers: pd.DataFrame
    manifest: dict[str, Any]
    suffix: str

    @property
    def own(self) -> pd.DataFrame:
        """The answers that no other part of the same run holds: unedited ones are those of `rag`."""
        return self.answers[self.answers["kind"] == "edit"] if self.kind == "intervene" else self.answers

    @property
    def name(self) -> str:
        return self.run.resolve().name

    @property
    def models(self) -> dict[str, dict[str, Any]]:
        """Facts of every model that answered, in the manifest's order."""
        there = set(self.answers["model"])
        return {ref: facts for ref, facts in self.manifest["models"].items() if ref in there}

    @cached_property
    def curves(self) -> list[Curve]:
        from floatlens.analysis.stress import curves

        return curves(self.answers)

    @cached_property
    def edits(self) -> list[Edited]:
        return edits_of(self.answers)

    @cached_property
    def effects(self) -> pd.DataFrame:
        """One row per model, data set, edit and metric, as `edit_effects` gives them without the condition objects."""
        from floatlens.analysis.effects import edit_effects

        return edit_effects(self.answers).drop(columns="condition")

    @cached_property
    def claims(self) -> list[Claim]:
        """Verdicts on the claims about these answers."""
        from floatlens.claims import answer_claims

        return answer_claims(self.answers)


def told_apart(runs: Sequence[Answered]) -> list[str | None]:
    """What each run is called where there are several of its kind: its name, or its path where two have one name."""
    alike = [[other for other in runs if other.kind == run.kind] for run in runs]
    return [
        None if len(same) == 1 else str(run.run) if sum(one.name == run.name for one in same) > 1 else run.name
        for run, same in zip(runs, alike, strict=True)
    ]


def open_answered(runs: Sequence[Path], skipped: dict[str, str]) -> list[Answered]:
    """Every part of the answers of runs, those of a kind together; a run without an answer goes to `skipped`."""
    return sorted(_open(runs, skipped), key=lambda one: _KINDS.index(one.kind))


def _open(runs: Sequence[Path], skipped: dict[str, str]) -> Iterator[Answered]:
    counts: dict[str, int] = {}
    for run in runs:
        answers, manifest = open_answers(run)
        if answers.empty and not has_traces(run):
            skipped[run.resolve().name] = "no answer on record yet"
        for kind, own in _parts(answers).items():
            count = counts[kind] = counts.get(kind, 0) + 1
            yield Answered(run, kind, own, manifest, "" if count == 1 else f"-{count}")


def _parts(answers: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The answers by section of the report; `rag` belongs to the edits too, and to them alone without `closed`."""
    kinds = set(answers["kind"])
    parts = {"stress": answers[answers["kind"] == "stress"], "intervene": edited(answers)}
    if "closed" in kinds or "edit" not in kinds:
        parts["qa"] = answers[answers["kind"].isin(["closed", "rag"])]
    return {kind: part for kind, part in parts.items() if not part.empty}
