"""`floatlens cache`: what it prints, and the whole command on a scale model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

from floatlens.analysis.cache_schedule import cache_schedules
from floatlens.cli.cache_view import cache_view
from floatlens.records import read_records
from shared.cached import make_cached

Run = Callable[..., tuple[int, str, str]]


def shown(width: int, **tables: pd.DataFrame) -> str:
    console = Console(width=width, force_terminal=False)
    with console.capture() as captured:
        console.print(cache_view(tables, ["m", "absent"], width))
    return captured.get()


def test_schedules_layers_and_the_recommendation() -> None:
    found = cache_schedules(make_cached(), choose="all")
    columns = {"model": "m", "refresh": [4.0, float("nan")], "keys_90": [3.0, 4.0]}
    layers = pd.DataFrame({**columns, "keys_95": [5.0, 6.0], "keys_99": [7.0, 80.0], "layer": [0, 1]})
    text = shown(100, cache_schedules=found, cache_layers=layers)
    assert "full recomputation" in text
    assert "50.0  75.0  +0.0" in text
    assert "m: recommended is stale least=0.99 (schedule=0-1/4+2/2): saves 50%" in text
    rows = [line.split() for line in text.splitlines() if line.startswith("layer ")]
    assert [row[2:] for row in rows] == [["4", "3", "5", "7"], ["–", "4", "6", "80"]]
    none = shown(60, cache_schedules=found.assign(recommended=False))
    assert "no schedule is within the margin (--within)" in " ".join(none.split())
    assert max(map(len, none.splitlines())) <= 60
    assert "n = 4 questions, the same as chosen on" in text
    halves = shown(100, cache_schedules=cache_schedules(make_cached()))
    assert "n = 2 questions, others than the 2 chosen on" in halves


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--choose", "some"), "--choose some: wants a whole number, at least 1, half or all"),
        (("--choose", "0"), "--choose 0: wants a whole number, at least 1, half or all"),
        (("--choose", "4"), "--choose 4: leaves none of 4 questions to report on; raise --limit"),
        (("--least", "a"), '--least a: wants numbers, such as 0.99,0.95, got "a"'),
    ],
)
def test_what_is_wrong_is_one_line(given: tuple[str, str], message: str, floatlens: Run, tmp_path: Path) -> None:
    code, _, err = floatlens("cache", "scale:llada", "--data", "scale:rag", "--limit", "4", *given, "--out", tmp_path)
    assert code == 2
    assert err.strip().startswith(f"floatlens: {message}")
    assert len(err.strip().splitlines()) == 1


@pytest.mark.slow
def test_the_whole_command(floatlens: Run, tmp_path: Path) -> None:
    """Traces first, then schedules made of them: every answer under one says which, and the tables follow."""
    run = tmp_path / "run"
    command = ("cache", "scale:llada", "--data", "scale:rag:documents=2", "--limit", "3", "--traces", "2")
    command += ("--set", "gen_length=8", "--least", "0.999,0.9", "--also", "stale:refresh=2", "--workers", "1")
    code, out, err = floatlens(*command, "--out", run)
    assert code == 0, err
    records = read_records(run)
    assert len(records) == 2 + 3 * (1 + 2 * 2 + 1)  # all layers every 2 steps have no control
    by_least: dict[object, set[object]] = {}
    for one in records:
        if one.condition.kind == "edit":
            assert one.saved_share is not None
            assert one.saved_passes == pytest.approx(8 * one.saved_share, abs=1e-5)  # 8 tokens, one per pass
            by_least.setdefault(dict(one.condition.settings).get("least"), set()).add(one.schedule)
    assert set(by_least) == {0.999, 0.9, None}
    assert all(len(schedules) == 1 for schedules in by_least.values())
    assert by_least[None] == {"0-7/2"}  # refresh=2
    tried = pd.read_csv(run / "tables" / "cache_schedules.csv", keep_default_na=False)
    half = tried[(tried["settings"] == "refresh=2") & (tried["control"] == "")].iloc[0]
    assert 0.3 < float(half["saved"]) < 0.5  # all but masks, in every second of 8 steps
    assert tried["recommended"].sum() <= 1
    layers = pd.read_csv(run / "tables" / "cache_layers.csv")
    assert layers["layer"].tolist() == list(range(8))
    assert (layers["keys_90"] <= layers["keys_95"]).all()
    assert (layers["keys_95"] <= layers["keys_99"]).all()
    assert "recommended is" in out or "no schedule is within" in out
    assert set(tried["n"]) == {1}
    assert set(tried["choice_n"]) == {2}
    assert '<section id="cache"' in (run / "report.html").read_text(encoding="utf-8")
    code, out, _ = floatlens(*command, "--out", run)
    assert "finished: 20 items on record, nothing left to do" in out
