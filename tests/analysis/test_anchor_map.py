"""Pictures of drift: whose values and anchors they hold, and which keys come first."""

from __future__ import annotations

import numpy as np
import pytest

from floatlens.analysis import anchors
from floatlens.analysis.anchor_map import anchor_map
from floatlens.core.errors import FloatlensError
from shared.synthetic import build, spread


def trace():
    """Two steps, two layers: key 1 gets 3 of 8 and key 4 gets 2 of 8 in layer 0, the other way round in step 1."""
    weights = np.ones((2, 2, 1, 5, 5))
    weights[0, 0, ..., 1], weights[0, 0, ..., 4] = 3, 2
    weights[1, 0, ..., 4], weights[1, 0, ..., 1] = 3.5, 2
    return build(spread(weights, causal=False), causal=False, layer_numbers=[0, 7])


def test_a_layer_by_its_number():
    found = anchor_map(anchors(trace(), rule="topk(2)"), layer=0)
    assert np.allclose(found.values[0], np.array([1, 3, 1, 1, 2]) / 8)
    assert [np.flatnonzero(row).tolist() for row in found.anchors] == [[1, 4], [1, 4]]
    assert found.ranked == (4, 1)  # 3.5 / 8.5 is more than 3 / 8
    assert (found.steps, found.layer) == ((0, 1), 0)
    with pytest.raises(FloatlensError, match="no layer 1 in this trace; it holds 0, 7"):
        anchor_map(trace(), layer=1)


def test_the_mean_over_layers_has_anchors_of_its_own():
    """Layer 7 is even, so the mean of step 0 is (1/8 + 1/5) / 2 and so on."""
    found = anchor_map(anchors(trace(), rule="top1"))
    assert np.allclose(found.values[0], (np.array([1, 3, 1, 1, 2]) / 8 + 1 / 5) / 2)
    assert found.anchors.argmax(axis=1).tolist() == [1, 4]
    assert found.layer is None
    assert anchor_map(trace()).source.rule.name == "robust"
