"""The figure of evolution: what its panels hold, where the origin is, what steps are called, that nothing is cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xarray as xr

import floatlens as fl
from floatlens.analysis import Group, Result
from floatlens.core.errors import FloatlensError
from floatlens.plots import describe_figures, plot_evolution
from floatlens.plots.drawing import draw
from floatlens.plots.plotly_renderer import as_data

STEPS = (0, 25, 50, 100, 200, 400, 800, 1600, 3200, 6400, 12800)
LAYERS = 30


def result(
    *names: str, steps: tuple[int, ...] = STEPS, layers: int = LAYERS, origin: str | None = "base", kind: str = "mdm"
) -> Result:
    """Absorption of a base and of courses, with numbers that say where they belong."""
    groups = [] if origin is None else [_group(origin, -1, layers, {"kind": "arm"})]
    for name in names or ("diffusion",):
        for place, step in enumerate(steps):
            course = {"name": name, "step": step, "tokens": 1000 * step, "origin": origin}
            groups.append(_group(f"{name}, step {step}", place, layers, {"kind": kind, "course": course}))
    return Result("absorption", {"rule": "top1", "group": "all"}, tuple(groups))


def _group(model: str, place: int, layers: int, facts: dict[str, Any]) -> Group:
    """(sample, view, layer): 10 × (place + 1) + the layer, ± 1; half of that for the first view."""
    mean = 10 * (place + 1) + np.arange(layers, dtype=float)
    values = np.stack([np.stack([mean / 2, mean]) + shift for shift in (-1.0, 0.0, 1.0)])
    dims, coords = ("sample", "view", "layer"), {"view": ["fixed", "floating"], "layer": range(layers)}
    data = {"absorbed": (dims, values), "uniform": (dims, np.full_like(values, 2.0))}
    made = xr.Dataset(data, {**coords, "question": ("sample", list("abc"))})
    return Group({"model": model}, facts, made)


def test_a_map_of_layers_and_steps_with_the_origin_set_apart() -> None:
    figure = plot_evolution.describe(result(steps=(0, 25, 100)))
    left, right, *lines = figure.panels
    assert [panel.title for panel in (left, right)] == [
        "Attention on the first position",
        "Attention on the strongest key",
    ]
    assert right.heat is not None
    assert left.heat is not None
    assert right.heat.values.shape == (LAYERS, 5)
    np.testing.assert_allclose(right.heat.values[:, 0], np.arange(LAYERS))
    assert np.isnan(right.heat.values[:, 1]).all()
    np.testing.assert_allclose(right.heat.values[:, 4], 30 + np.arange(LAYERS))
    np.testing.assert_allclose(left.heat.values[:, 4], (30 + np.arange(LAYERS)) / 2)
    assert left.heat.top == right.heat.top == 30 + LAYERS - 1
    expected = [(0.0, "base\n(causal)"), (2.0, "0\nnew mask,\nnot trained"), (3.0, "25"), (4.0, "100")]
    assert list(right.x.ticks or ()) == list(lines[0].x.ticks or ()) == expected
    assert figure.layout == ((0, 1), (2, 3))


def test_lines_of_the_mean_and_four_layers_with_intervals() -> None:
    lines = plot_evolution.describe(result(steps=(0, 25, 100))).panels[3]
    by_name = {one.look.label: one for one in lines.series if one.kind == "line" and not one.role}
    assert list(by_name) == ["layer 0", "layer 10", "layer 19", "layer 29", "mean over layers"]
    assert by_name["layer 19"].mean == pytest.approx((29, 39, 49))
    assert by_name["mean over layers"].mean == pytest.approx([10 * at + (LAYERS - 1) / 2 for at in (1, 2, 3)])
    assert by_name["mean over layers"].x == (2.0, 3.0, 4.0)
    half = 4.302653 / np.sqrt(3)  # Student's t for two degrees of freedom; the samples are 1 apart
    assert by_name["layer 0"].high == pytest.approx([10 * at + half for at in (1, 2, 3)], rel=1e-5)
    points = [one for one in lines.series if one.kind == "points"]
    assert [one.mean for one in points] == [(0.0,), (10.0,), (19.0,), (29.0,), (14.5,)]
    assert all(one.x == (0.0,) for one in points)
    nulls = [one for one in lines.series if one.role == "null"]
    assert [one.mean for one in nulls] == [(2.0, 2.0, 2.0), (2.0, 2.0)]


def test_without_an_origin_or_a_new_mask_nothing_is_said_of_them() -> None:
    ticks = plot_evolution.describe(result(steps=(0, 25), origin=None)).panels[0].x.ticks
    assert ticks == ((0.0, "0"), (1.0, "25"))
    same = plot_evolution.describe(result(steps=(0, 25), kind="arm")).panels[0].x.ticks
    assert same == ((0.0, "base\n(causal)"), (2.0, "0\nnot trained"), (3.0, "25"))


def test_one_of_several_courses_is_named() -> None:
    both = result("full", "block", steps=(0, 25))
    with pytest.raises(FloatlensError, match=r"which course\? plot_evolution\(…, course=\) one of full, block"):
        plot_evolution(both)
    with pytest.raises(FloatlensError, match='no course "blok"; did you mean "block"'):
        plot_evolution(both, course="blok")
    assert "block" in plot_evolution.describe(both, "block").title
    assert set(describe_figures({"absorption": both}, ["evolution"]).figures) == {"evolution-full", "evolution-block"}
    assert set(describe_figures({"absorption": result()}, ["evolution"]).figures) == {"evolution"}
    assert describe_figures({"absorption": result(steps=(5,))}, ["evolution"]).figures == {}


def test_other_figures_show_the_last_step_alone() -> None:
    found = describe_figures({"absorption": result("full", "block", steps=(0, 25))}, ["absorption"])
    labels = {one.look.label for panel in found.figures["absorption"].panels for one in panel.series}
    assert labels == {"base", "full, step 25", "block, step 25"}


def test_other_variables_are_drawn_from_their_evolution() -> None:
    given = result(steps=(0, 25))
    one = plot_evolution.describe(fl.evolution(given, "absorbed", view="floating"))
    assert [panel.name for panel in one.panels] == ["absorbed, floating map", "absorbed, floating lines"]
    two = plot_evolution.describe([fl.evolution(given, name, view="fixed") for name in ("absorbed", "uniform")])
    assert two.layout == ((0, 1), (2, 3))
    other = Result("drift", {}, given.groups)
    with pytest.raises(FloatlensError, match="which variable of drift"):
        plot_evolution(other)


@pytest.mark.parametrize("steps", [STEPS, (0,), (0, 25, 50, 100, 200, 400, 800)], ids=["many", "one", "eight"])
def test_nothing_is_cut_or_covered(steps: tuple[int, ...], shown: Any) -> None:
    figure = shown(draw(plot_evolution.describe(result(steps=steps))))
    for axes in figure.axes:
        box = axes.get_tightbbox()
        assert figure.bbox.padded(1).contains(box.x0, box.y0)
        assert figure.bbox.padded(1).contains(box.x1, box.y1)
    for axes in figure.axes[2:4]:
        first = [label.get_window_extent() for label in axes.get_xticklabels()]
        assert not any(a.overlaps(b) for place, a in enumerate(first) for b in first[place + 1 :] if _same_line(a, b))
    note = figure.texts[0].get_text()
    assert "n = 3 questions per step" in note


def _same_line(a: Any, b: Any) -> bool:
    """Labels of one line each; of a longer one only the first line is beside its neighbours."""
    return abs(a.height - b.height) < 1


def test_the_page_gets_the_same_numbers() -> None:
    data = as_data(plot_evolution.describe(result(steps=(0, 25))), "evolution")
    assert [panel["name"] for panel in data["panels"]] == [
        *("absorbed, fixed map", "absorbed, floating map"),
        *("absorbed, fixed lines", "absorbed, floating lines"),
    ]
    assert data["panels"][0]["heat"]["columns"] == ("base (causal)", "", "0 new mask, not trained", "25")
