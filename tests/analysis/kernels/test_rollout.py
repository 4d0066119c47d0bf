"""Rollout: stochastic at every point, by hand, and against loops."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from floatlens.analysis.kernels import rollout


@st.composite
def layers(draw):
    """Row-stochastic matrices (layer, from, to), some rows of some layers not defined."""
    count, size = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    weights = draw(hnp.arrays(np.float64, (count, size, size), elements=st.floats(0.001, 1)))
    made = weights / weights.sum(axis=-1, keepdims=True)
    made[draw(hnp.arrays(bool, (count, size)))] = np.nan
    return made


@given(layers())
def test_rows_stay_stochastic_through_every_layer(attention):
    found = rollout(attention)
    assert found.shape == attention.shape
    assert (found >= 0).all()
    assert np.allclose(found.sum(axis=-1), 1)


def test_two_layers_by_hand():
    """Layer 1 sends everything of 0 to 1 and keeps 1; layer 2 splits 0 evenly and sends 1 to 0.
    With the residual: R1 = [[½, ½], [0, 1]], R2 = [[¾, ¼], [½, ½]]; R2·R1 = [[⅜, ⅝], [¼, ¾]]."""
    attention = np.array([[[0, 1], [0, 1]], [[0.5, 0.5], [1, 0]]], dtype=float)
    found = rollout(attention)
    assert found[0].tolist() == [[0.5, 0.5], [0, 1]]
    assert found[1].tolist() == [[0.375, 0.625], [0.25, 0.75]]
    assert rollout(attention[::-1])[1].tolist() != found[1].tolist()  # the order of layers matters


def test_a_row_that_is_not_defined_passes_on_what_it_holds():
    attention = np.array([[[0, 1.0], [np.nan, np.nan]], [[np.nan, np.nan], [1.0, 0]]])
    found = rollout(attention)
    assert found[0].tolist() == [[0.5, 0.5], [0, 1]]
    assert found[1].tolist() == [[0.5, 0.5], [0.25, 0.75]]


def test_what_is_given_stays_as_it_was():
    attention = np.array([[[0.5, 0.5], [np.nan, np.nan]]])
    rollout(attention)
    assert np.array_equal(attention, np.array([[[0.5, 0.5], [np.nan, np.nan]]]), equal_nan=True)
