"""Anchors of one trace: cells, hatches, regions, commitments, names."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any

import numpy as np
import pytest
import xarray as xr
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from floatlens.analysis import anchors
from floatlens.analysis.anchors import present
from floatlens.core.errors import FloatlensError
from floatlens.plots import plot_anchors
from floatlens.traces import Trace


def _cells(axes: Any) -> Any:
    return np.ma.filled(axes.images[0].get_array().astype(float), np.nan)


def _hatched(axes: Any, shape: tuple[int, int]) -> Any:
    """The cells whose centre lies under a hatch, for each of the two colours of hatches."""
    found = []
    for boxes in axes.collections:
        assert boxes.get_hatch()
        cells = np.zeros(shape, dtype=bool)
        for path in boxes.get_paths():
            (left, top), (right, bottom) = path.vertices[:4].min(axis=0), path.vertices[:4].max(axis=0)
            rows = np.arange(shape[0])
            cells[(rows > top) & (rows < bottom), round((left + right) / 2)] = True
        found.append(cells)
    return found


@pytest.mark.parametrize("name", ["dream", "qwen2"])
def test_a_layer_is_drawn_as_it_was_received(name: str, in_regions: Callable[..., Trace]) -> None:
    trace = in_regions(name)
    found = anchors(trace, rule="topk(2)")
    heat = plot_anchors(found, layer=1).axes[0]
    here = present(trace)
    values = found.received.sel(layer=1).values
    assert np.array_equal(_cells(heat), np.where(here, values, np.nan), equal_nan=True)
    colours = {tuple(boxes.get_edgecolor()[0]) for boxes in heat.collections}
    assert colours == {(1, 1, 1, 1), (0, 0, 0, 1)}
    for cells in _hatched(heat, values.shape):
        assert np.array_equal(cells, found.is_anchor.sel(layer=1).values)


def test_the_mean_over_layers_has_anchors_of_its_own(in_regions: Callable[..., Trace]) -> None:
    found = anchors(in_regions("dream"), rule="top1")
    figure = plot_anchors(found)
    mean = found.share.mean("layer").values
    assert np.allclose(_cells(figure.axes[0]), mean)
    for cells in _hatched(figure.axes[0], mean.shape):
        assert np.array_equal(cells.argmax(axis=1), mean.argmax(axis=1))
        assert (cells.sum(axis=1) == 1).all()
    assert figure.axes[0].get_title("left").endswith("mean over layers")
    assert "top1, of the mean over layers" in figure.texts[0].get_text()


def test_rules_that_look_at_heads_mark_anchors_of_any(in_regions: Callable[..., Trace]) -> None:
    found = anchors(in_regions("dream"), rule="gu(0.1)")
    heat = plot_anchors(found, layer=0).axes[0]
    expected = found.is_anchor.any("head").sel(layer=0).values
    assert expected.any()
    assert all(np.array_equal(cells, expected) for cells in _hatched(heat, expected.shape))


def test_commitments_stand_at_their_step(in_regions: Callable[..., Trace]) -> None:
    trace = in_regions("dream")
    heat = plot_anchors(anchors(trace), layer=0).axes[0]
    dots = next(line for line in heat.lines if line.get_label() == "committed")
    expected = zip(trace.data["token_position"].values, trace.data["token_step"].values, strict=True)
    assert set(zip(dots.get_xdata(), dots.get_ydata(), strict=True)) == {(int(x), int(y)) for x, y in expected}


def test_regions_are_named_and_gold_is_marked(in_regions: Callable[..., Trace]) -> None:
    figure = plot_anchors(anchors(in_regions("dream")), layer=0)
    strip = figure.axes[1]
    boxes = [(box.get_label(), box.get_x() + 0.5, box.get_width()) for box in strip.patches]
    assert boxes[:4] == [("bos", 0, 1), ("template", 1, 1), ("doc1", 2, 2), ("doc2", 4, 2)]
    written = {text.get_text(): text for text in strip.texts}
    assert "doc1" in written
    assert written["doc2 gold"].get_fontweight() == "bold"
    colour = {box.get_label(): box.get_facecolor() for box in strip.patches if isinstance(box, Rectangle)}
    assert colour["doc2"] != colour["doc1"] == colour["doc3"]
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert {"anchor", "committed at this step", "gold document", "document", "bos", "answer"} <= set(legend)


def test_token_texts_are_written_as_they_are(in_regions: Callable[..., Trace]) -> None:
    figure = plot_anchors(anchors(in_regions("dream")), layer=0)
    names = [text.get_text() for text in figure.axes[1].get_xticklabels()]
    assert names[:8] == ["<bos>", "Who", "$x$", "↵↵", "has", "a", "cat", "42"]
    file = BytesIO()
    figure.savefig(file, format="svg")
    assert ">$x$<" in file.getvalue().decode()


def test_steps_that_were_not_kept_leave_no_dots(in_regions: Callable[..., Trace], shown: Any) -> None:
    trace = in_regions("dream")
    trace.data["token_step"][:] = 99
    heat = shown(plot_anchors(anchors(trace), layer=0)).axes[0]
    assert not [line for line in heat.lines if line.get_label() == "committed"]


def test_signs_for_white_space_are_in_the_font(in_regions: Callable[..., Trace], shown: Any) -> None:
    trace = in_regions("dream")
    trace.data.attrs["token_text"][:5] = ["\t", " ", "\n", "\x00", "Ġ"]
    labels = shown(plot_anchors(anchors(trace), layer=0)).axes[1].get_xticklabels()
    assert [text.get_text() for text in labels[:5]] == ["⇥", "␣", "↵", "�", "␣"]


def test_a_layer_that_is_not_there_is_refused(in_regions: Callable[..., Trace]) -> None:
    with pytest.raises(FloatlensError, match="no layer 7 in this trace; it holds 0, 1, 2"):
        plot_anchors(anchors(in_regions("dream")), layer=7)


def test_where_nobody_asks_nothing_is_drawn(in_regions: Callable[..., Trace], shown: Any) -> None:
    found = anchors(in_regions("qwen2"), group="masked")
    assert np.isnan(_cells(shown(plot_anchors(found, layer=0)).axes[0])).all()


def _long(trace: Trace, keys: int, steps: int, tokens: bool) -> Trace:
    """The trace stretched to a longer sequence, with one anchor that wanders and one that stays."""
    random = np.random.default_rng(0)
    weight = random.uniform(0.9, 1.1, (steps, 3, 4, keys))
    weight[..., 0] = keys / 10
    for step in range(steps):
        weight[step, :, :, keys // 4 + step] = keys / 12
    weight = (weight / weight.sum(axis=-1, keepdims=True)).astype(np.float32)
    old = trace.data
    data = xr.Dataset(
        {
            "received": (("step", "layer", "head", "key"), weight),
            "sequence": (("step", "key"), np.ones((steps, keys), dtype=np.int32)),
            "final": (("key",), np.ones(keys, dtype=np.int32)),
            "evidence": (("key",), np.zeros(keys, dtype=bool)),
            "region_of": (("key",), np.repeat(old["region_of"].values, keys)[:: old.sizes["key"]].astype(np.int16)),
            **{name: old[name] for name in old.data_vars if old[name].dims == ("token",)},
        },
        coords={"step": np.arange(steps), "layer": np.arange(3)},
        attrs={
            **old.attrs,
            "token_text": [f"${i}" for i in range(keys)] if tokens else [],
            "decoding": {**old.attrs["decoding"], "forward_passes": steps},
        },
    )
    return Trace(data)


@pytest.mark.parametrize("keys", [200, 2000])
@pytest.mark.parametrize("tokens", [True, False])
def test_long_sequences_have_numbers_below_and_the_strongest_anchors_above(
    keys: int, tokens: bool, in_regions: Callable[..., Trace], shown: Any
) -> None:
    found = anchors(_long(in_regions("dream"), keys, 20, tokens))
    figure = shown(plot_anchors(found, layer=0))
    heat, strip = figure.axes[:2]
    assert len(strip.get_xticks()) < 15
    called = {text.get_text() for text in heat.texts}
    assert ("$0 (0)" if tokens else "0") in called
    assert 5 <= len(called) <= 14
    words = [Text.get_window_extent(text) for text in heat.texts]
    assert not any(a.overlaps(b) for i, a in enumerate(words) for b in words[:i])
    title = heat._left_title.get_window_extent()
    assert not any(title.overlaps(box) for box in words)
    for cells in _hatched(heat, (20, keys)):
        assert np.array_equal(cells, found.is_anchor.sel(layer=0).values)
    narrowest = min(np.ptp(path.vertices[:, 0]) for path in heat.collections[0].get_paths())
    assert narrowest * heat.get_window_extent().width / keys / figure.dpi * 72 > 3  # points
