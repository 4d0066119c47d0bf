"""A run of questions that is killed again and again ends with the records of one that was left alone."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from floatlens.study import AnswerRecord
from floatlens.study.records import read_records

pytestmark = pytest.mark.slow
KILLS = 20


def command(out: Path, workers: int) -> list[str]:
    asked = ("--data", "scale:rag:documents=3", "--data", "scale:known:documents=2", "--limit", "160", "--batch", "4")
    options = ("--set", "gen_length=4", "--workers", str(workers), "--out", str(out))
    return [sys.executable, "-m", "floatlens", "qa", "scale:llada", *asked, *options]


def lines(out: Path) -> int:
    path = out / "records.jsonl"
    return path.read_bytes().count(b"\n") if path.is_file() else 0


def bare(out: Path) -> list[AnswerRecord]:
    found = read_records(out / "records.jsonl", AnswerRecord)
    return sorted((r.model_copy(update={"seconds": None}) for r in found), key=lambda record: record.item)


def test_killed_twenty_times(tmp_path: Path) -> None:
    whole, torn = tmp_path / "whole", tmp_path / "torn"
    subprocess.run(command(whole, 1), check=True, capture_output=True)
    wanted = bare(whole)
    assert len(wanted) == len({record.item for record in wanted}) == 640
    moments = random.Random(0)
    for kill in range(KILLS):
        process = subprocess.Popen(command(torn, 1 + kill % 2), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if kill % 5:  # most while it writes, some while it starts
            goal = lines(torn) + moments.randint(1, 24)
            while lines(torn) < goal and process.poll() is None:
                time.sleep(0.002)
            time.sleep(moments.random() * 0.2)
        else:
            time.sleep(moments.random() * 8)
        assert process.poll() is None, "the run was over before it could be killed; ask more questions"
        process.kill()
        process.wait()
    last = subprocess.run(command(torn, 2), check=True, capture_output=True, text=True)
    assert "640 of 640 answers" in last.stderr
    assert bare(torn) == wanted
