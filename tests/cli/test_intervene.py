"""`floatlens intervene`: a small run from questions to tables, figures and claims."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd

Run = Callable[..., tuple[int, str, str]]


def test_a_small_run(floatlens: Run, tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = (
        *("intervene", "scale:qwen", "--data", "scale:rag:documents=2", "--limit", "3", "--out", out),
        *("--edit", "drop_anchors:k=1", "--edit", "freeze_layers:layers=0-3", "--traces", "1"),
        *("--set", "gen_length=4", "--workers", "1"),
    )
    code, shown, err = floatlens(*command)
    assert code == 0, err
    assert "freeze_layers layers=0-3 (random)" in shown
    effects = pd.read_csv(out / "tables" / "effects.csv")
    assert set(effects["metric"]) == {"accuracy", "f1", "kl"}
    assert set(effects["n"]) == {3}
    found = pd.read_csv(out / "tables" / "measured.csv")
    shares = {f"{name}{than}" for name in ("first position", "strongest key") for than in ("", ", above uniform")}
    assert {"overlap", "speed", "moved", *shares} == set(found["quantity"])
    places = pd.read_csv(out / "tables" / "moved.csv")
    frozen = places[(places["edit"] == "freeze_layers") & ~places["control"]]
    assert set(frozen["layer"]) == {0, 1, 2, 3}
    assert (frozen["mass"] > 0).all()
    moved = found[(found["quantity"] == "moved") & (found["edit"] == "freeze_layers")]
    assert (moved["mean"] > 0.05).all()
    assert {path.name for path in (out / "figures").glob("*.png")} == {
        "edits-accuracy.png",
        "edits-kl.png",
    }
    code, shown, _ = floatlens("claims", out)
    assert code == 0
    assert "removing its anchor" in " ".join(shown.split())
    code, _, err = floatlens(*command)
    assert "15 of 15 answers on record already" in err


def test_mistakes_are_one_line(floatlens: Run, tmp_path: Path) -> None:
    common = ("intervene", "scale:qwen", "--data", "scale:rag", "--limit", "2", "--out", tmp_path / "run")
    code, _, err = floatlens(*common, "--edit", "drop")
    assert (code, 'no edit "drop"' in err) == (2, True)
    code, _, err = floatlens(*common, "--edit", "ablate_heads:top=2")
    assert (code, "--heads-from" in err.splitlines()[-1]) == (2, True)


def test_the_traces_that_heads_come_from_are_on_record(tmp_path: Path) -> None:
    """A digest beside the folder's name: other traces in the same place are another choice of heads."""
    from floatlens.cli.intervene import _digests

    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "a.zarr.zip").write_bytes(b"one")
    first = _digests([tmp_path])
    assert list(first) == [str(tmp_path)]
    assert _digests([tmp_path]) == first
    (tmp_path / "traces" / "a.zarr.zip").write_bytes(b"two")
    assert _digests([tmp_path]) != first


def test_a_dose_given_twice_is_one(floatlens: Run, tmp_path: Path) -> None:
    common = ("intervene", "scale:qwen", "--data", "scale:rag:documents=2", "--limit", "1", "--out", tmp_path / "run")
    more = ("--traces", "0", "--set", "gen_length=4", "--workers", "1")
    code, _, err = floatlens(*common, *more, "--edit", "sink_token:logit=2,2", "--edit", "sink_token:logit=2.0")
    assert code == 0, err
    assert "2 of 2 answers" in err


def test_a_run_of_which_every_edit_fails_says_so_once(floatlens: Run, tmp_path: Path) -> None:
    common = ("intervene", "scale:qwen", "--data", "scale:rag:documents=2", "--limit", "1", "--out", tmp_path / "run")
    more = ("--traces", "0", "--set", "gen_length=4", "--workers", "1")
    code, _, err = floatlens(*common, *more, "--edit", "drop_anchors:k=9999")
    assert code == 1
    assert "would leave none" in err
    assert "bug" not in err


def test_models_may_have_been_asked_different_data() -> None:
    from floatlens.cli.intervene import effects_view

    numbers = {"edited": 0.5, "difference": -0.5, "low": -1.0, "high": 0.0, "n": 2, "plain": 1.0}
    same = {"edit": "drop_anchors", "settings": "k=1", "control": False, "metric": "accuracy", **numbers}
    rows = pd.DataFrame([{"model": "a", "data": "x", **same}, {"model": "b", "data": "y", **same}])
    table = effects_view(rows)
    cells = [list(column.cells) for column in table.columns[1:]]
    assert [cell == "–" for cell in cells[0]] == [False, False, True, True]
    assert [cell == "–" for cell in cells[1]] == [True, True, False, False]
