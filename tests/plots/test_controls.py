"""Controls in figures: thin grey lines in drift and absorption, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from floatlens.analysis import Group, Result
from floatlens.plots.description import legend_entries
from floatlens.plots.drawing import draw
from floatlens.plots.flow import plot_gold_lift
from floatlens.plots.layers import plot_absorption, plot_drift, plot_qk, plot_summary
from floatlens.plots.registry import describe_figures
from floatlens.plots.retrieval import plot_retrieval_heads
from floatlens.plots.style import looks
from floatlens.plots.token_classes import plot_token_classes

Make = Callable[..., Result]
CONTROL = "a/llada, weights shuffled (seed 0)"
MODELS = {"a/llada": "mdm", "b/qwen": "arm", CONTROL: "mdm"}


def _with_control(result: Result) -> Result:
    """The same; the model that is called so is a control of the first."""
    control = {"of": "a/llada", "kind": "shuffled_weights", "seed": 0}
    groups = [
        Group(one.keys, {**one.facts, "control": control}, one.samples) if one.model == CONTROL else one
        for one in result
    ]
    return replace(result, groups=tuple(groups))


@pytest.fixture
def made(result: Make) -> Callable[[str], Result]:
    return lambda name: _with_control(result(name, MODELS))


@pytest.mark.parametrize(("name", "plot"), [("drift", plot_drift), ("absorption", plot_absorption)])
def test_controls_are_thin_grey_lines_beside_their_models(name, plot, made) -> None:
    figure = plot.describe(made(name))
    for panel in figure.panels:
        (line,) = [one for one in panel.series if one.role == "shuffled"]
        assert (line.look.label, line.look.stroke) == ("llada, weights shuffled (seed 0)", "dashed")
        assert sum(one.role == "" for one in panel.series) == (1 if panel.name == "speed" else 2)  # of diffusion models
        assert sum(one.role == "null" for one in panel.series) in (0, 2)
    labels = [one.look.label for one in legend_entries(figure)]
    assert labels.count("weights shuffled") == 1
    assert "llada, weights shuffled (seed 0)" not in labels
    drawn = draw(figure).axes[0]
    grey = [line for line in drawn.lines if line.get_color() == "#8C8C8C"]
    models = [line for line in drawn.lines if line.get_label() in ("llada", "qwen")]
    assert len(grey) == 1
    assert len(models) == 2
    assert all(grey[0].get_linewidth() < line.get_linewidth() for line in models)
    assert len(drawn.collections) == 2  # bands of the models alone


@pytest.mark.parametrize(
    ("name", "plot"),
    [
        ("qk", plot_qk),
        ("flow", plot_gold_lift),
        ("retrieval_heads", plot_retrieval_heads),
        ("token_classes", plot_token_classes),
    ],
)
def test_other_figures_leave_controls_out(name, plot, made) -> None:
    with_one, without = plot.describe(made(name)), plot.describe(made(name).without_controls())
    assert [panel.name for panel in with_one.panels] == [panel.name for panel in without.panels]
    assert [len(panel.series) for panel in with_one.panels] == [len(panel.series) for panel in without.panels]
    assert with_one.note == without.note


def test_rollouts_and_the_summary_are_of_models(made) -> None:
    data = {name: made(name) for name in ("drift", "absorption", "token_classes", "retrieval_heads", "flow")}
    found = describe_figures(data).figures
    assert [name for name in found if name.startswith("rollout")] == ["rollout-llada", "rollout-qwen"]
    assert not any(one.role == "shuffled" for panel in plot_summary.describe(data).panels for one in panel.series)


def test_where_there_are_controls_alone_they_are_drawn(made) -> None:
    alone = made("retrieval_heads")
    alone = replace(alone, groups=tuple(one for one in alone if one.control is not None))
    assert plot_retrieval_heads.describe(alone).panels


def test_a_control_takes_no_colour_of_a_model(made) -> None:
    found = looks(made("drift"))
    assert {name: look.colour for name, look in found.items() if name != CONTROL} == {
        name: look.colour for name, look in looks(made("drift").without_controls()).items()
    }
    assert found[CONTROL].colour == "#8C8C8C"
    assert found[CONTROL].marker == ""
