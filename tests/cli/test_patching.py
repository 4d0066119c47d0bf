"""`floatlens intervene --patch`: its settings, what it prints, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from floatlens.cli.presets import _patching
from floatlens.records import Patched, read_records

Run = Callable[..., tuple[int, str, str]]


def test_settings_are_keys_of_a_study() -> None:
    assert _patching("20") == {"questions": 20}
    assert _patching("all:k=2:what=kv,residual") == {"questions": "all", "k": "2", "what": "kv,residual"}


def test_a_run_with_patching_alone(floatlens: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    run, of = tmp_path / "r", ("--data", "scale:rag:documents=2:seed=3", "--limit", "8", "--set", "gen_length=4")
    common = ("intervene", "scale:llama", *of, "--patch", "8:k=2:draws=3", "--control-seed", "7", "--out", run)
    code, out, err = floatlens(*common, "--dry-run")
    assert (code, run.exists()) == (0, False)
    assert "  patching k=2, kv and residual" in out
    code, out, err = floatlens(*common)
    assert code == 0, err
    records = read_records(run)
    assert f"{len(records)} of {len(records)} items" in err
    assert {one.condition for one in records} == {Patched(what=("kv", "residual"), k=2, draws=3, seed=7)}
    shown = out[out.index("Activation patching") :]
    means = pd.read_csv(run / "tables" / "patching_mean.csv")
    assert len(means) == 6
    for row in means.itertuples():
        assert f"{row.effect:+.3f}  [{row.low:+.3f}, {row.high:+.3f}]" in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert (run / "figures" / "patching.png").is_file()
    assert '<section id="patching"' in (run / "report.html").read_text(encoding="utf-8")
    code, out, err = floatlens(*common)
    assert f"finished: {len(records)} items on record" in out


def test_answers_that_begin_alike_have_no_effect(
    floatlens: Run, model: Path, data: Callable[..., Path], tmp_path: Path
) -> None:
    """A model with random weights says the same to both prompts."""
    short = ("--set", "gen_length=4", "--set", "steps=2")
    code, out, err = floatlens("intervene", model, "--data", data(3), *short, "--patch", "2", "--out", tmp_path / "r")
    assert code == 0, err
    records = read_records(tmp_path / "r")
    assert [one.patched.answer for one in records if one.patched is not None] == ["Ann1", "Ann0"]
    assert [one.patched.effect for one in records if one.patched is not None] == [None, None]
    assert "questions: 2 of 2 questions left out" in out
    assert "nan" not in out.replace(str(model), "")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "give --edit, such as --edit drop_anchors:k=1, or --patch 20"),
        (("--patch", "some"), 'patching.questions="some"'),
        (("--patch", "2:k"), "expected N:KEY=VALUE"),
        (("--patch", "2:k=none"), "patching.k"),
        (("--patch", "2:kk=1"), 'no key "patching.kk"; did you mean "k"'),
        (("--patch", "1:what=qk"), 'wants "kv" or "residual"'),
    ],
)
def test_mistakes_take_a_line(
    floatlens: Run, model: Path, data: Callable[..., Path], tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    code, out, err = floatlens("intervene", model, "--data", data(2), "--out", tmp_path / "r", *options)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "r").exists()
