"""The speed-up with two workers is computed from neighbouring measurements. No test looks at a clock."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from floatlens_lab.bench.throughput import Throughput, as_markdown, measure, save

FOUND = Throughput("m", 100, {"ray 2": [5.0, 6.0, 4.0], "ray 1": [10.0, 9.0, 8.0]})


def test_gains_pair_neighbouring_measurements(tmp_path: Path) -> None:
    assert FOUND.gain("ray") == (2.0, 1.5, 2.0)
    assert "| ray | 11.1 | 20.0 | 2.00 (1.50–2.00) |" in as_markdown(FOUND)
    table, numbers = save(FOUND, tmp_path / "new")
    assert as_markdown(FOUND) in table.read_text()
    assert json.loads(numbers.read_text())["items"] == 100


@pytest.mark.slow
def test_the_same_items_by_one_and_by_two() -> None:
    said: list[str] = []
    found = measure(questions=4, traces=1, rounds=1, executors=("local",), say=said.append)
    assert {name: len(seconds) for name, seconds in found.seconds.items()} == {"local 2": 1, "local 1": 1}
    assert said[-1].startswith("round 1 of 1")
