"""The benchmark of index updates: what it measures and writes; times are reported, never asserted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from floatlens_lab.bench.index import IndexCost, as_markdown, measure, save


def test_ratios_are_of_neighbouring_rounds() -> None:
    found = IndexCost(100, 1, {"update": [1.0, 3.0, 2.0], "build": [10.0, 10.0, 40.0]})
    assert found.ratio("update", "build") == pytest.approx((0.1, 0.05, 0.3))


def test_a_small_benchmark(tmp_path: Path) -> None:
    said: list[str] = []
    found = measure(documents=60, rounds=2, say=said.append)
    assert (found.changed, len(said)) == (1, 2)
    assert {len(each) for each in found.seconds.values()} == {2}
    assert "update of 1 documents ÷ build |" in as_markdown(found)
    table, numbers = save(found, tmp_path)
    assert table.read_text().startswith("# Update of an index\n")
    assert json.loads(numbers.read_text())["documents"] == 60
