"""Heatmaps of results: cells equal the means, marks stand where they should."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from floatlens.analysis import Result
from floatlens.analysis.qk import QKMaps
from floatlens.core.errors import FloatlensError
from floatlens.plots import plot_flow, plot_qk_maps, plot_retrieval_heads, plot_token_classes
from floatlens.prompts.words import CLASSES


def _cells(axes: Any) -> Any:
    return np.ma.filled(axes.images[0].get_array().astype(float), np.nan)


def _panels(figure: Any) -> list[Any]:
    return [axes for axes in figure.axes if axes.images]


def test_retrieval_maps_share_a_scale_and_have_a_profile(result: Callable[..., Result]) -> None:
    found = result("retrieval_heads")
    figure = plot_retrieval_heads(found, "mass")
    panels = _panels(figure)
    for axes, group in zip(panels, found, strict=True):
        assert np.array_equal(_cells(axes), group.estimate("mass").mean)
        assert axes.get_title("left") == group.model
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("head", "layer")
    assert len({axes.images[0].get_clim() for axes in panels}) == 1
    profile = next(axes for axes in figure.axes if axes.get_title("left") == "By layer")
    for group in found:
        line = next(one for one in profile.lines if one.get_label() == group.model)
        assert np.allclose(line.get_xdata(), group.values("mass").mean(axis=(0, 2)))
        assert np.array_equal(line.get_ydata(), range(4))
    assert "score: mass" in figure.texts[0].get_text()


def test_four_models_fill_a_square(result: Callable[..., Result]) -> None:
    found = result("retrieval_heads", dict.fromkeys("abcd", "mdm"))
    places = [axes.get_subplotspec() for axes in _panels(plot_retrieval_heads(found))]
    assert [(one.rowspan.start, one.colspan.start) for one in places] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_retrieval_of_an_unknown_score_is_refused(result: Callable[..., Result]) -> None:
    with pytest.raises(FloatlensError, match="no variable"):
        plot_retrieval_heads(result("retrieval_heads"), "depth")


def test_rollout_frames_gold(result: Callable[..., Result]) -> None:
    found = result("flow")
    panels = _panels(plot_flow(found, "scale:qwen"))
    assert [axes.get_title("left") for axes in panels] == [f"gold at {gold} of 3" for gold in (1, 2, 3)]
    for gold, axes in zip((1, 2, 3), panels, strict=True):
        assert np.array_equal(_cells(axes), found.group("scale:qwen", gold=gold).estimate("region_rollout").mean)
        frames = {patch.get_label(): patch for patch in axes.patches if isinstance(patch, Rectangle)}
        names = [text.get_text() for text in axes.get_xticklabels()]
        at = names.index(f"doc{gold}")
        assert frames["gold column"].get_xy() == (at - 0.5, -0.5)
        assert frames["gold row"].get_xy() == (-0.5, at - 0.5)
        assert axes.get_xticklabels()[at].get_fontweight() == "bold"
        assert [text.get_text() for text in axes.get_yticklabels()] == names


def test_rollout_of_an_unknown_model_says_which_there_are(result: Callable[..., Result]) -> None:
    with pytest.raises(FloatlensError, match="scale:llada"):
        plot_flow(result("flow"), "scale:lada")


def test_token_class_bars_are_the_shares_and_the_tokens_stand_beside(result: Callable[..., Result]) -> None:
    found = result("token_classes")
    figure = plot_token_classes(found)
    grid = np.array(figure.axes).reshape(2, 3)  # a column per model
    for column, group in zip(grid, found, strict=True):
        for axes, variable in zip(column[:2], ("anchors", "mass"), strict=True):
            shares, tokens = group.estimate(variable).mean, group.estimate("tokens").mean
            for bars, i in zip(axes.containers, range(len(CLASSES)), strict=True):
                assert bars.get_label() == CLASSES[i]
                assert np.allclose([bar.get_height() for bar in bars], [*shares[i], tokens[i]])
            tops = [bar.get_y() + bar.get_height() for bar in axes.containers[-1]]
            assert np.allclose(tops, 1)
        drawn = {line.get_label(): line.get_ydata() for line in column[2].lines}
        for side in ("structural", "lexical"):
            assert np.array_equal(drawn[f"{side}, attention"], group.estimate(side).mean)
            assert np.array_equal(drawn[f"{side}, anchors"], group.estimate(f"{side}_anchors").mean)


def _picture(size: int, *, tokens: bool = True, causal: bool = True) -> Any:
    random = np.random.default_rng(size)
    hidden = np.triu(np.ones((size, size), dtype=bool), 1) & causal
    dot, cos, norm = (np.where(hidden, np.nan, random.normal(size=(size, size))) for _ in range(3))
    anchors = np.zeros(size, dtype=bool)
    anchors[[0, size // 2, size // 2 + 1]] = True
    texts = tuple(f"${i}$" for i in range(size)) if tokens else ()
    about = {"model": "hub/a", "layer": 3, "head": 2, "step": 7, "rule": "zscore(ε=3)"}
    return QKMaps(dot=dot, cos=cos, norm=norm, anchors=anchors, tokens=texts, **about)


@pytest.mark.parametrize("size", [8, 90])
@pytest.mark.parametrize("tokens", [True, False])
def test_qk_maps(size: int, tokens: bool, shown: Any) -> None:
    picture = _picture(size, tokens=tokens)
    figure = shown(plot_qk_maps(picture))
    panels = _panels(figure)
    for axes, field in zip(panels, ("dot", "cos", "norm"), strict=True):
        assert np.array_equal(_cells(axes), getattr(picture, field), equal_nan=True)
        marks = next(line for line in axes.lines if line.get_label() == "anchors")
        assert np.array_equal(marks.get_xdata(), np.flatnonzero(picture.anchors))
        names = [text.get_text() for text in (axes.get_xticklabels() if size == 8 else axes.texts)]
        expected = [text for text in picture.tokens if size == 8 or picture.anchors[int(text.strip("$"))]]
        if tokens:
            assert names == expected
    small = figure.texts[0].get_text()
    assert all(word in small for word in ("layer 3", "head 2", "step 7", "zscore(ε=3)", "n = 1 trace"))


def test_callouts_do_not_cover_each_other(shown: Any) -> None:
    figure = shown(plot_qk_maps(_picture(90)))
    for axes in _panels(figure):
        words = [Text.get_window_extent(text) for text in axes.texts]  # without leaders
        assert len(words) == 3
        assert not any(a.overlaps(b) for i, a in enumerate(words) for b in words[:i])


def test_qk_without_anchors_and_without_a_mask(shown: Any) -> None:
    picture = _picture(40, causal=False)
    picture.anchors[:] = False
    assert len(_panels(shown(plot_qk_maps(picture)))) == 3


@pytest.mark.parametrize("name", ["dream", "qwen2"])
def test_qk_maps_of_a_real_trace(name: str, tiny_model: Callable[[str], Any], shown: Any) -> None:
    from floatlens import Select, trace
    from floatlens.analysis.qk import qk_maps
    from floatlens.probes import QK

    probes = ["received", QK(heatmaps=Select(layers=[1], heads=[2], steps=[1]))]
    picture = qk_maps(trace(tiny_model(name), prompt_ids=[5, 9, 12, 33], probes=probes, gen_length=4), 1, 2)
    panels = _panels(shown(plot_qk_maps(picture)))
    assert np.array_equal(_cells(panels[0]), picture.dot, equal_nan=True)
    upper = np.isnan(_cells(panels[1])[np.triu_indices(len(picture.dot), 1)])
    assert upper.all() if name == "qwen2" else not upper.any()
