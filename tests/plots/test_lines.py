"""Figures over depth: what is plotted is what was measured, one line per model, whatever the number of models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex

from floatlens.analysis import Result
from floatlens.analysis.intervals import estimate
from floatlens.plots import (
    plot_absorption,
    plot_drift,
    plot_extremes,
    plot_gold_lift,
    plot_qk,
    plot_summary,
)


def _line(axes: Any, label: str) -> Any:
    return next(line for line in axes.lines if line.get_label() == label)


def _legend(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts() if text.get_text().strip()]


def test_absorption_shows_both_views_with_bands_and_null(result: Callable[..., Result]) -> None:
    found = result("absorption")
    figure = plot_absorption(found)
    assert len(figure.axes) == 2
    for view, axes in enumerate(figure.axes):
        for group in found:
            expected = group.estimate("absorbed")
            line = _line(axes, group.model)
            assert np.array_equal(line.get_ydata(), expected.mean[view])
            assert np.array_equal(line.get_xdata(), range(4))
            colour = line.get_color()
            nulls = [one for one in axes.lines if one.get_color() == colour and one is not line]
            assert len(nulls) == 1
            assert np.array_equal(nulls[0].get_ydata(), group.estimate("uniform").mean[view])
            assert nulls[0].get_linestyle() != "-"
        assert len(axes.collections) == 2
        band = axes.collections[0].get_paths()[0].vertices[:, 1]
        assert np.isclose(band.min(), found.groups[0].estimate("absorbed").low[view].min())
        assert np.isclose(band.max(), found.groups[0].estimate("absorbed").high[view].max())
        assert axes.get_title("left")
        assert axes.get_xlabel() == "layer"
    assert "%" in figure.axes[0].get_ylabel()
    assert _legend(figure)[:2] == ["scale:llada", "scale:qwen"]


def test_kinds_of_models_are_told_apart_without_colour(result: Callable[..., Result]) -> None:
    figure = plot_absorption(result("absorption"))
    mdm, arm = (_line(figure.axes[0], name) for name in ("scale:llada", "scale:qwen"))
    assert mdm.get_linestyle() != arm.get_linestyle()
    assert mdm.get_markerfacecolor() != "white"
    assert arm.get_markerfacecolor() == "white"
    assert {"masked diffusion", "autoregressive"} <= set(_legend(figure))
    one_kind = plot_absorption(result("absorption", {"scale:llada": "mdm"}))
    assert "autoregressive" not in _legend(one_kind)


@pytest.mark.parametrize(
    ("plot", "analysis", "variables"),
    [
        (plot_extremes, "extremes", [("value_ratio", ...), ("residual_ratio", ...), ("dormant", ...)]),
        (
            plot_drift,
            "drift",
            [*(("lag_jaccard", at) for at in range(3))]
            + [(f"{name}_by_layer", 1) for name in ("strongest", "effective_anchors", "speed")],
        ),
    ],
)
def test_a_panel_per_variable(plot: Any, analysis: str, variables: list[tuple[str, Any]], result: Any) -> None:
    found = result(analysis)
    figure = plot(found)
    for axes, (variable, at) in zip(figure.axes, variables, strict=True):
        for group in found:
            if variable == "speed_by_layer" and group.facts["kind"] == "arm":
                assert group.model not in [line.get_label() for line in axes.lines]
                continue
            line, expected = _line(axes, group.model), group.estimate(variable).mean[at]
            if variable == "lag_jaccard":
                expected = expected[np.isfinite(expected)]
            assert np.array_equal(line.get_ydata(), expected)
        assert axes.get_ylabel()


def test_drift_says_where_a_query_group_has_no_anchors(result: Callable[..., Result]) -> None:
    found = result("drift")
    for group in found:
        group.samples["lag_jaccard"][:, 2] = np.nan
    figure = plot_drift(found)
    assert [text.get_text() for text in figure.axes[2].texts] == ["no anchors, or no masked rows"]
    assert [len(axes.texts) for axes in figure.axes[:2]] == [0, 0]


def test_qk_profile_averages_heads_within_samples(result: Callable[..., Result]) -> None:
    found = result("qk")
    figure = plot_qk(found)
    for axes, part in zip(figure.axes, ("norm_part", "angle_part"), strict=True):
        for group in found:
            expected = estimate(group.values(part).mean(axis=-1))
            assert np.allclose(_line(axes, group.model).get_ydata(), expected.mean)
        band = axes.collections[0].get_paths()[0].vertices[:, 1]
        expected = estimate(found.groups[0].values(part).mean(axis=-1))
        assert np.isclose(band.max(), expected.high.max())


def test_gold_lift_by_place_with_bars_and_one_dashed(result: Callable[..., Result]) -> None:
    """Attention and rollout side by side; the drawn mean is that of the logarithms, as in the claims."""
    found = result("flow")
    figure = plot_gold_lift(found)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["Attention", "Rollout over tokens"]
    for axes, how in zip(figure.axes, ("direct", "rollout"), strict=True):
        assert len(axes.containers) == 2
        for model, bars in zip(found.models, axes.containers, strict=True):
            groups = [found.group(model, gold=gold) for gold in (1, 2, 3)]
            expected = [estimate(group.values(f"{how}_log_lift")) for group in groups]
            line = bars[0]
            assert np.allclose(line.get_ydata(), [np.exp(one.mean) for one in expected])
            assert np.allclose(line.get_xdata(), (1, 2, 3), atol=0.1)
            ends = np.array(bars[2][0].get_segments())[:, :, 1]
            assert np.allclose(ends[:, 0], [np.exp(one.low) for one in expected])
            assert np.allclose(ends[:, 1], [np.exp(one.high) for one in expected])
        one = [line for line in axes.lines if np.array_equal(line.get_ydata(), [1, 1])]
        assert len(one) == 1
        assert one[0].get_linestyle() != "-"
        assert axes.get_yscale() == "log"


def test_summary_has_four_panels(every_result: Callable[..., dict[str, Result]]) -> None:
    found = every_result()
    figure = plot_summary(found)
    assert len(figure.axes) == 4
    expected = (
        ("drift", "quarter_jaccard_by_layer", 1),
        ("absorption", "excess", 1),
        ("token_classes", "lexical", ...),
    )
    for axes, (analysis, variable, at) in zip(figure.axes, expected, strict=False):
        group = found[analysis].groups[0]
        assert np.array_equal(_line(axes, group.model).get_ydata(), group.estimate(variable).mean[at])
    copied = found["retrieval_heads"].groups[0].values("copy").mean(axis=-1).mean(axis=0)
    assert np.allclose(_line(figure.axes[3], "scale:llada").get_ydata(), copied)
    assert "top1 in absorption" in figure.texts[0].get_text()


def test_summary_without_retrieval_shows_lift_over_all_places_and_says_what_is_absent(every_result: Any) -> None:
    found = every_result()
    flow = found["flow"]
    figure = plot_summary({"flow": flow, "drift": found["drift"]})
    pooled = np.concatenate([g.values("lift_by_layer") for g in flow if g.model == "scale:llada"]).mean(axis=0)
    assert np.allclose(_line(figure.axes[3], "scale:llada").get_ydata(), pooled)
    assert [text.get_text() for text in figure.axes[1].texts] == ["no result of absorption"]
    assert len(plot_summary({}).axes) == 4


def test_colours_of_the_scale_models_do_not_depend_on_who_else_is_there(result: Callable[..., Result]) -> None:
    for models in ({"scale:llada": "mdm"}, {"x": "arm", "scale:dream": "mdm", "scale:llada": "mdm"}):
        figure = plot_extremes(result("extremes", models))
        assert to_hex(_line(figure.axes[0], "scale:llada").get_color()) == "#d55e00"
