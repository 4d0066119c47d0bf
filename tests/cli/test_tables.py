"""Tables in narrow terminals: every model and every row label is there, and no line is longer than the terminal."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from floatlens.cli.tables import INTERVAL, Row, by_model, in_blocks, interval, number

NAN = float("nan")
MODELS = ["scale:llama", "scale:qwen", "scale:llada", "scale:dream"]
LABELS = ["anchor strength (× uniform)", "anchor stability (Jaccard, step to step)", "drop_anchors k=1 (mass control)"]


def drawn(shown: RenderableType, width: int) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, markup=False, highlight=False).print(shown)
    return out.getvalue().splitlines()


def rows(models: list[str]) -> list[Row]:
    return [Row(label, {model: ["0.988", "[0.976, 0.999]"] for model in models}) for label in LABELS]


@pytest.mark.parametrize("width", [40, 60, 72, 80, 100, 120, 200])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_nothing_is_lost_at_any_width(width: int, count: int) -> None:
    models = MODELS[:count]
    lines = drawn(by_model("", ["mean", INTERVAL], models, models, rows(models), width), width)
    assert max(map(len, lines)) <= width
    words = re.split(r"\s+", " ".join(lines))
    for label in LABELS:
        for word in label.split():
            assert word in words
    for model in models:
        assert words.count(model) == 1
    assert words.count("0.988") == len(LABELS) * count
    assert not any("…" in line for line in lines)


def test_intervals_stay_beside_below_or_are_left_out_with_a_note() -> None:
    def text(width: int) -> str:
        return "\n".join(drawn(by_model("", ["mean", INTERVAL], MODELS, MODELS, rows(MODELS), width), width))

    assert "0.988  [0.976, 0.999]  0.988" in text(120)
    assert re.search(r"0\.988 +0\.988", text(100))
    assert text(100).count("[0.976, 0.999]") == 12
    assert "[0.976" not in text(80)
    assert "95 % intervals: in the run's tables, or here with 88 columns" in text(80)
    assert "[0.976" in text(88)
    assert text(50).count("[0.976, 0.999]") == 12  # a block for each model


def test_a_model_without_a_value_has_a_dash() -> None:
    shown = [Row("x", {"a": ["1"]}), Row("y", {"b": ["2"]}), Row("heading")]
    lines = drawn(by_model("", ["n"], ["a", "b"], ["a", "b"], shown, 80), 80)
    assert [line.split() for line in lines] == [["a", "b"], ["x", "1", "–"], ["y", "–", "2"], ["heading"]]


@pytest.mark.parametrize("width", [40, 50, 80, 120])
def test_columns_are_divided_and_labels_repeated(width: int) -> None:
    sets = ["known", "rag", "two-hop", "a-longer-name"]
    groups = [("", 1), *((name, 2) for name in sets), ("Gain", 1)]
    columns = ["model", *(["Acc", "F1"] * 4), ""]
    table = [[f"{model} w/ RAG", *(["100.0"] * 8), "+29.6 [14.5, 45.8]"] for model in MODELS]
    lines = drawn(in_blocks(groups, columns, table, width), width)
    text = "\n".join(lines)
    assert max(map(len, lines)) <= width
    assert all(text.count(name) == 1 for name in [*sets, "Gain"])
    assert text.count("100.0") == 4 * 8
    assert text.count("+29.6 [14.5, 45.8]") == 4
    blocks = text.count("model")
    assert all(text.count(f"{model} w/ RAG") == blocks for model in MODELS)
    assert blocks == {40: 5, 50: 4, 80: 2, 120: 1}[width]


def test_a_bracket_goes_below_the_name_of_a_single_column() -> None:
    lines = drawn(in_blocks([("", 1), ("Avg. (known)", 1)], ["model", ""], [["a", "70.4"]], 80), 80)
    assert [line.split() for line in lines] == [["Avg."], ["model", "(known)"], ["a", "70.4"]]


def test_what_is_not_defined_is_no_number() -> None:
    assert (number(NAN), number(0.12345), number(-2.5, "+.1f")) == ("–", "0.123", "-2.5")
    assert (interval(NAN, NAN), interval(0.0, NAN), interval(0.0, 1.0)) == ("", "", "[0, 1]")


def test_a_demo_like_summary_fits_80_columns(
    floatlens: Callable[..., tuple[int, str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All four tables of a study of the four bundled models."""
    import yaml

    study = {
        "models": MODELS,
        "data": [
            {"ref": "scale:known:documents=2", "limit": 2, "conditions": ["closed", "rag"], "traces": 0},
            {"ref": "scale:rag:documents=2", "limit": 2, "conditions": ["noise", "drop_anchors:k=1"]},
        ],
        "stress": {"noise": {"ratios": [0, 0.4]}},
        "decoding": {"settings": {"gen_length": 4, "steps": 2}},
        "traces": {"questions": 2, "edited": 0},
        "analyses": ["drift", "absorption", "flow"],
        "output": {"figures": ["png"], "report": False},
    }
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study))
    monkeypatch.setenv("COLUMNS", "80")
    code, shown, err = floatlens("run", tmp_path / "study.yaml", "--out", tmp_path / "run", "--workers", "1")
    assert code == 0, err
    assert max(map(len, shown.splitlines())) <= 80
    assert "nan" not in shown
    for title in ("study ", "Answers", "Stress tests", "Edits", "Attention"):
        part = shown.partition(f"\n{title}" if title != "study " else title)[2].partition("\n\n")[0]
        found = [part.index(model) for model in MODELS]
        assert found == sorted(found), title  # in the order of the study
    plain = " ".join(shown.split())
    for label in (
        "noise · scale:rag:documents=2",
        "unedited · scale:rag:documents=2",
        "drop_anchors k=1 (mass control)",
    ):
        assert all(word in plain for word in label.split()), label
