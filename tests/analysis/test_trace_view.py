"""What the explorer shows of a trace, against the trace itself."""

from __future__ import annotations

import numpy as np

from floatlens.analysis import anchors
from floatlens.analysis.anchor_map import ABSENT, MASK, TOKEN, trace_view
from shared.synthetic import ready


def test_the_mean_over_layers_comes_first_with_its_own_anchors() -> None:
    trace = ready("moving", causal=False)
    view = trace_view(trace)
    whole = view.groups["all"]
    found = anchors(trace)
    assert np.allclose(whole.share[:, 1:], found.share)
    assert np.allclose(whole.share[:, 0], found.share.mean("layer"))
    assert np.array_equal(whole.anchors[:, 1:], found.is_anchor)
    assert whole.anchors[:, 0].sum(axis=1).tolist() == [1] * 8
    assert np.allclose(whole.null.sum(axis=1), 1)
    assert whole.layers == (0, 1, 2, 3)


def test_positions_are_masks_until_they_are_committed() -> None:
    trace = ready("moving", causal=False)
    states = trace_view(trace, ["all"]).states
    assert set(np.unique(states[0])) == {MASK, TOKEN}
    assert (states == MASK).sum(axis=1).tolist() == trace.masked.sum(axis=1).tolist()


def test_groups_without_queries_are_left_out_and_equal_ones_named_once() -> None:
    view = trace_view(ready("fixed", causal=True))
    assert "masked" not in view.groups
    assert view.same_as_all == ("committed",)
    assert (view.states == ABSENT).any()
    assert np.array_equal(view.present, view.states != ABSENT)
