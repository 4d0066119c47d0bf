"""Runs of answers (`floatlens qa`, `stress`, `intervene`) as the report needs them: opened, judged, summed up.

A study (`floatlens run`) holds the answers of all three beside its traces, and is taken for as many runs.
Scores, curves, effects and verdicts come from their own rooms; here they are only collected.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from floatlens.runs import answers

if TYPE_CHECKING:
    import pandas as pd

    from floatlens.analysis.curves import Curve
    from floatlens.claims import Claim
    from floatlens.data.stress import Point
    from floatlens.edits.spec import EditSpec

_KINDS = ("qa", "stress", "intervene")

__all__ = ["Answered", "open_answered", "read_manifest", "told_apart"]


def read_manifest(run: Path) -> dict[str, Any] | None:
    """What a run folder says of itself; None where it says nothing."""
    return answers.read_manifest(run) if (run / "manifest.json").is_file() else None


@dataclass(frozen=True, eq=False)
class Answered:
    """A run of answers. `suffix` sets its sections and figures apart from those of other runs of its kind."""

    run: Path
    answers: pd.DataFrame
    manifest: dict[str, Any]
    suffix: str
    of_study: bool = False

    @property
    def own(self) -> pd.DataFrame:
        """The answers that no other part of the same study holds: its plain ones are those of `rag`."""
        from floatlens.runs.intervening import PLAIN

        shared = self.of_study and self.kind == "intervene"
        return self.answers[self.answers["condition"] != PLAIN] if shared else self.answers

    @property
    def name(self) -> str:
        return self.run.resolve().name

    @property
    def kind(self) -> str:
        return str(self.manifest["kind"])

    @property
    def models(self) -> dict[str, dict[str, Any]]:
        """Facts of every model that answered, in the manifest's order."""
        there = set(self.answers["model"])
        return {ref: facts for ref, facts in self.manifest["models"].items() if ref in there}

    @cached_property
    def points(self) -> list[Point]:
        """The points of the stress tests."""
        return answers.asked_points(self.manifest)

    @cached_property
    def curves(self) -> list[Curve]:
        from floatlens.analysis.curves import curves

        return curves(self.answers, self.points)

    @cached_property
    def edits(self) -> list[EditSpec]:
        from floatlens.runs.interventions import specs_of

        return specs_of(self.answers)

    @cached_property
    def effects(self) -> pd.DataFrame:
        from floatlens.runs.intervening import effects

        return effects(self.answers, self.edits)

    @cached_property
    def claims(self) -> list[Claim]:
        """What the run says of the claims about answers and edits."""
        from floatlens.claims import answer_claims, edit_claims

        if self.kind == "intervene":
            return edit_claims(self.answers, self.edits)
        return answer_claims(self.answers, self.points)


def told_apart(runs: Sequence[Answered]) -> list[str | None]:
    """What each run is called where there are several of its kind: its name, or its path where two have one name."""
    alike = [[other for other in runs if other.kind == run.kind] for run in runs]
    return [
        None if len(same) == 1 else str(run.run) if sum(one.name == run.name for one in same) > 1 else run.name
        for run, same in zip(runs, alike, strict=True)
    ]


def open_answered(runs: Sequence[Path], skipped: dict[str, str]) -> list[Answered]:
    """Every run of answers among these, those of a kind together; one without an answer goes to `skipped`."""
    return sorted(_open(runs, skipped), key=lambda one: _KINDS.index(one.kind))


def _open(runs: Sequence[Path], skipped: dict[str, str]) -> Iterator[Answered]:
    counts: dict[str, int] = {}
    for run in runs:
        found, manifest = answers.open_answers(run)
        if found.empty:
            skipped[run.resolve().name] = "no answer on record yet"
        for kind, own in answers.by_command(found, manifest).items():
            count = counts[kind] = counts.get(kind, 0) + 1
            yield Answered(run, own, {**manifest, "kind": kind}, "" if count == 1 else f"-{count}", of_study=True)
