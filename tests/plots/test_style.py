"""The style: colours, names, small print, text that stays as it is."""

from __future__ import annotations

import subprocess
import sys
from io import BytesIO
from typing import Any

import pytest

from floatlens.analysis import Result
from floatlens.plots import plot_absorption
from floatlens.plots.description import Axis, Figure, Look, Panel, Series
from floatlens.plots.matplotlib_renderer import render
from floatlens.plots.style import colours, label_of, note, piece


def test_scale_models_have_their_colours_and_others_the_rest() -> None:
    names = ["scale:llama", "scale:qwen", "scale:llada", "scale:dream", "a/b", "c/d"]
    found = colours(names)
    assert list(found.values())[:4] == ["#0072B2", "#56B4E9", "#D55E00", "#E69F00"]
    assert len(set(found.values())) == 6
    assert colours(["my/llada"])["my/llada"] == "#D55E00"
    both = colours(["my/llada", "scale:llada"])
    assert both["scale:llada"] == "#D55E00" != both["my/llada"]
    assert len(set(colours([f"m{i}" for i in range(8)]).values())) == 8
    assert len(colours([f"m{i}" for i in range(20)])) == 20


@pytest.mark.parametrize(
    ("model", "short"),
    [("GSAI-ML/LLaDA-8B", "LLaDA-8B"), ("/tmp/pilot/llada/", "llada"), ("scale:llada", "scale:llada"), ("/", "/")],
)
def test_a_label_is_the_last_part_of_a_name(model: str, short: str) -> None:
    assert label_of(model) == short


def test_labels_of_two_models_differ() -> None:
    names = ["a/llada", "b/llada", "a/qwen"]
    assert [label_of(name, names) for name in names] == ["a/llada", "b/llada", "qwen"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Ġcat", "cat"),
        ("▁cat", "cat"),
        (" ", "␣"),
        ("", "␣"),
        ("\n\n", "↵↵"),
        ("ĊĊ", "↵↵"),
        ("$x$", "$x$"),
        ("a\x00b", "a�b"),
        ("extraordinarily", "extraordinari…"),
    ],
)
def test_pieces_are_printable(text: str, shown: str) -> None:
    assert piece(text) == shown


def test_small_print_names_rule_queries_and_n(result: Any) -> None:
    found: Result = result("absorption", n=5)
    assert "anchors: top1" in note(found)
    assert "n = 5 questions per model" in note(found)
    assert "95 %" in note(found)
    assert "no interval" in note(result("absorption", n=1))
    assert "robust(ε=3.5)" in note(result("drift"))
    masked = Result("drift", {"rule": "gu", "group": "masked"}, found.groups)
    assert "masked queries" in note(masked)
    assert "gu(ε=0.3)" in note(masked)
    assert "gold position" in note(result("flow"))


@pytest.mark.parametrize("text", ["short", "a long line of small print that needs more than one row " * 4])
def test_the_small_print_covers_nothing(text: str, shown: Any) -> None:
    panel = Panel("one", x=Axis("x"), series=(Series(Look("a", "#000000"), (0.0,), (1.0,), (1.0,), (1.0,), (1,)),))
    figure = shown(render(Figure("Title", (panel,), text, size=(4, 3))))
    words = figure.texts[0].get_window_extent()
    assert not words.overlaps(figure.axes[0].get_tightbbox())
    assert words.x0 >= 0
    assert words.y0 >= 0


def test_dollars_in_names_are_no_mathematics_and_stay_text_in_files(result: Any) -> None:
    figure = plot_absorption(result("absorption", {"hub/a$_b$": "mdm", "bad\\frac$": "arm"}))
    for form in ("svg", "pdf", "png"):
        file = BytesIO()
        figure.savefig(file, format=form)
        if form == "svg":
            assert "a$_b$" in file.getvalue().decode()
            assert "attention absorbed (% of all)" in file.getvalue().decode()
        if form == "pdf":
            assert b"/Type3" not in file.getvalue()


def test_neither_pyplot_nor_torch_is_needed() -> None:
    code = (
        "import sys, floatlens.plots as f; assert 'matplotlib' not in sys.modules; f.FIGURES; f.plot_drift; "
        "assert 'matplotlib' not in sys.modules; "
        "assert not {'matplotlib.pyplot', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_names_are_exported() -> None:
    import floatlens.plots as figures

    assert all(callable(getattr(figures, name)) for name in figures.__all__ if name.startswith("plot_"))
    assert set(figures.__all__) <= set(dir(figures))
    with pytest.raises(AttributeError, match="plot_nothing"):
        _ = figures.plot_nothing
