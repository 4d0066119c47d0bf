"""The parts on caches, steering and over-smoothing: which documents their questions show, and the tables they fill."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from floatlens.data import Example, open_data

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def parts() -> Any:
    sys.path.insert(0, str(DOCS))
    try:
        return importlib.import_module("findings_serving")
    finally:
        sys.path.remove(str(DOCS))


@pytest.fixture
def tables(parts: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    sys.path.insert(0, str(DOCS))
    try:
        found = importlib.import_module("findings_tables")
    finally:
        sys.path.remove(str(DOCS))
    monkeypatch.setattr(found, "KEPT", tmp_path)
    return found


def golds(one: Example) -> list[bool]:
    return [document.is_gold for document in one.documents]


def test_the_same_questions_in_every_context(parts: Any) -> None:
    examples = list(open_data("scale:rag:seed=7", limit=40).examples())
    wanted = {
        "alone": ("noise", {"noise": {"ratios": [0]}}, 0),
        "noise": ("noise", {"noise": {"ratios": [0.8]}}, 0.8),
        "last": ("position", {"documents": 3, "position": {"places": [2]}}, 2),
    }
    sets = parts.at_points(examples, wanted, 5)
    ids = [one.id for one in sets["alone"]]
    assert len(ids) == 5
    assert all([one.id for one in found] == ids for found in sets.values())
    assert all(golds(one) == [True] for one in sets["alone"])
    assert all(sorted(golds(one)) == [False] * 4 + [True] for one in sets["noise"])
    assert all(golds(one) == [False, False, True] for one in sets["last"])


def test_every_part_says_what_it_costs(parts: Any) -> None:
    for name, part in parts.PARTS.items():
        assert "core-minutes" in part.__doc__, name


def effects(**numbers: float) -> dict[str, Any]:
    return {"metric": "accuracy", "edit": "boost", **numbers}


def test_a_boost_is_shown_beside_its_control(tables: Any, tmp_path: Path) -> None:
    own = {"model": "scale:llada", "data": "topic", "settings": "span=gold gain=4", "dose": 4}
    rows = [
        effects(**own, difference=0.125, low=-0.005, high=0.25),
        effects(**own, control="mass", difference=-0.02, low=-0.1, high=0.1),
        effects(**own | {"metric": "kl"}, difference=9, low=9, high=9),
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "steering-effects.csv")
    head, _, *body = tables.steering()
    found = {row[0]: row for row in body}
    assert list(head) == ["context", "gain", "llama", "qwen", "llada", "dream"]
    assert found["topic"][1:] == ["4", "–", "–", "+12.5 [−0.5, 25.0] (−2.0)", "–"]
    assert found["alone"][4] == "–"
    assert tables.ready() == ["steering"]


def test_schedules_are_shown_beside_random_ones(tables: Any, tmp_path: Path) -> None:
    own = {"model": "scale:llada", "full": 0.95, "recommended": False, "saved": 0.5, "saved_passes": 4.0}
    rows = [
        own
        | {"settings": "least=0.99", "accuracy": 0.94, "change": -0.01, "low": -0.03, "high": 0.01}
        | {"recommended": True},
        own
        | {"settings": "least=0.99", "control": "count", "accuracy": 0.75, "change": -0.2, "low": -0.3}
        | {"high": -0.1},
        own | {"settings": "refresh=8", "accuracy": 0.95, "change": 0.0, "low": -0.02, "high": 0.02},
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "cache-cache_schedules.csv")
    _, _, full, mild, all_layers = tables.cache()
    assert full == ["llada", "full recomputation", "0", "0", "95.0", "", ""]
    assert mild[1:] == ["**least=0.99**", "50.0", "4.0", "94.0", "−1.0 [−3.0, 1.0]", "−20.0 [−30.0, −10.0]"]
    assert all_layers[-2:] == ["+0.0 [−2.0, 2.0]", "–"]


def test_layers_of_every_model(tables: Any, tmp_path: Path) -> None:
    rows = [
        {"variable": name, "model": "natural:smollm2", "layer": layer, "mean": layer / 100, "low": 0.0, "high": 1.0}
        for name in ("cosine", "rank_share", "row_distance")
        for layer in range(30)
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "smoothing-smoothing.csv")
    _, _, *body = tables.smoothing()
    assert [row[:2] for row in body] == [["natural:smollm2", "0"], ["", "15"], ["", "29"]]
    assert body[1][2:4] == ["0.15 [0.00, 1.00]", "–"]
