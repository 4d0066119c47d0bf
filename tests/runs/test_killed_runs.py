"""A run of questions that is killed again and again ends with the records of one that was left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from floatlens.runs import AnswerRecord
from floatlens.runs.records import read_records
from shared.killing import finish, kill_again_and_again, zygote

pytestmark = pytest.mark.slow
ITEMS = 2 * 2 * 100


def args(out: Path) -> list[str]:
    asked = ("--data", "scale:rag:documents=3", "--data", "scale:known:documents=2", "--limit", "100", "--batch", "4")
    return ["qa", "scale:llada", *asked, "--set", "gen_length=4", "--out", str(out)]


def bare(out: Path) -> list[AnswerRecord]:
    found = read_records(out / "records.jsonl", AnswerRecord)
    return sorted((r.model_copy(update={"seconds": None}) for r in found), key=lambda record: record.item)


def test_killed_twenty_times(tmp_path: Path) -> None:
    whole, torn = tmp_path / "whole", tmp_path / "torn"
    with zygote() as forks:
        finish(args(whole), whole, forks)
        wanted = bare(whole)
        assert len(wanted) == len({record.item for record in wanted}) == ITEMS
        kill_again_and_again(args(torn), torn, forks, kills=20, real=4, records=12)
        assert f"{ITEMS} of {ITEMS} answers" in finish(args(torn), torn, forks)
    assert bare(torn) == wanted
