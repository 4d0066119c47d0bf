"""Runs of answers (`floatlens qa`, `stress`, `intervene`) as the report needs them: opened, judged, summed up.

Scores, curves, effects and verdicts come from their own rooms; here they are only collected.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from floatlens.errors import FloatlensError
from floatlens.study.records import AnswerRecord

if TYPE_CHECKING:
    import pandas as pd

    from floatlens.qa.conditions import Point
    from floatlens.qa.curves import Curve
    from floatlens.qa.edited import EditSpec
    from floatlens.verdicts import Claim

__all__ = ["Answered", "is_answered", "open_answered", "read_manifest"]


def read_manifest(run: Path) -> dict[str, Any] | None:
    """What a run folder says of itself; None where it says nothing."""
    path = run / "manifest.json"
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_bytes())
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise FloatlensError(f"{path}: not valid JSON ({error}); was the file changed?") from None
    return found if isinstance(found, dict) else {"manifest": found}


def is_answered(run: Path) -> bool:
    """Whether a folder is a run of answers rather than of traces."""
    return (read_manifest(run) or {}).get("kind") in AnswerRecord.runs


@dataclass(frozen=True, eq=False)
class Answered:
    """A run of answers. `suffix` sets its sections and figures apart from those of other runs of its kind."""

    run: Path
    answers: pd.DataFrame
    manifest: dict[str, Any]
    suffix: str

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
        from floatlens.qa.conditions import TESTS, StressSettings, points

        settings: StressSettings = StressSettings.model_validate(self.manifest.get("stress", {}))
        return [point for test in TESTS for point in points(test, settings)]

    @cached_property
    def curves(self) -> list[Curve]:
        from floatlens.qa.curves import curves

        return curves(self.answers, self.points)

    @cached_property
    def edits(self) -> list[EditSpec]:
        from floatlens.study.interventions import specs_of

        return specs_of(self.answers)

    @cached_property
    def effects(self) -> pd.DataFrame:
        from floatlens.study.intervening import effects

        return effects(self.answers, self.edits)

    @cached_property
    def claims(self) -> list[Claim]:
        """What the run says of the claims about answers and edits."""
        from floatlens.verdicts import answer_claims, edit_claims

        if self.kind == "intervene":
            return edit_claims(self.answers, self.edits)
        return answer_claims(self.answers, self.points)


def open_answered(runs: Sequence[Path], skipped: dict[str, str]) -> list[Answered]:
    """Every run of answers among these; one without an answer goes to `skipped`."""
    return list(_open(runs, skipped))


def _open(runs: Sequence[Path], skipped: dict[str, str]) -> Iterator[Answered]:
    from floatlens.study.answers import open_answers

    counts: dict[str, int] = {}
    for run in runs:
        answers, manifest = open_answers(run)
        if answers.empty:
            skipped[run.resolve().name] = "no answer on record yet"
            continue
        count = counts[manifest["kind"]] = counts.get(manifest["kind"], 0) + 1
        yield Answered(run, answers, manifest, "" if count == 1 else f"-{count}")
