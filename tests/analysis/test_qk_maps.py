"""Pictures of one head: every cell by hand, grouped heads, what a causal query does not see, and what was not kept."""

from __future__ import annotations

import numpy as np
import pytest

from floatlens.analysis.qk import qk_maps
from floatlens.core.errors import FloatlensError
from shared.synthetic import build, spread

HEADS, KV_HEADS, SIZE, DIM = 4, 2, 14, 3


def trace(*, causal, matrices=True):
    weights = np.full((2, 2, HEADS, SIZE, SIZE), 0.01)
    weights[..., 3] = 1
    random = np.random.default_rng(1)
    q = random.normal(size=(2, 2, HEADS, SIZE, DIM))
    k = random.normal(size=(2, 2, KV_HEADS, SIZE, DIM))
    return build(spread(weights, causal=causal), causal=causal, q=q, k=k, matrices=matrices), q, k


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("head", range(HEADS))
def test_every_cell(causal, head):
    made, q, k = trace(causal=causal)
    found = qk_maps(made, layer=1, head=head, step=0, rule="top1")
    for i in range(SIZE):
        for j in range(SIZE):
            if causal and j > i:
                assert np.isnan([found.dot[i, j], found.cos[i, j], found.norm[i, j]]).all()
                continue
            a, b = q[0, 1, head, i], k[0, 1, head // 2, j]
            lengths = np.linalg.norm(a) * np.linalg.norm(b)
            assert found.dot[i, j] == pytest.approx(a @ b, abs=1e-5)
            assert found.norm[i, j] == pytest.approx(lengths, rel=1e-5)
            assert found.cos[i, j] == pytest.approx(a @ b / lengths, abs=1e-5)
    assert np.flatnonzero(found.anchors).tolist() == [3]
    assert (found.layer, found.head, found.step, found.rule) == (1, head, 0, "top1")


def test_anchors_are_ranked_by_the_mean_of_what_is_seen():
    made, q, k = trace(causal=True)
    found = qk_maps(made, layer=0, head=2, step=1, rule="topk(3)")
    means = {j: np.mean([q[1, 0, 2, i] @ k[1, 0, 1, j] for i in range(j, SIZE)]) for j in np.flatnonzero(found.anchors)}
    assert list(found.ranked) == sorted(means, key=lambda j: -means[j])
    assert len(found.ranked) == 3


def test_the_last_step_that_was_kept_unless_another_is_asked_for():
    made, q, k = trace(causal=False)
    assert qk_maps(made, layer=0, head=0).step == 1
    assert qk_maps(made, layer=0, head=0).dot[2, 5] == pytest.approx(q[1, 0, 0, 2] @ k[1, 0, 0, 5], abs=1e-5)


def test_chosen_heads_are_found_by_their_numbers():
    """Of four heads 1 and 3 were kept in the trace: the picture of 3 has the norms of 3 and of its key head."""
    whole, _, _ = trace(causal=False)
    part = type(whole)(whole.data.isel(head=[1, 3]))
    for head in (1, 3):
        assert np.array_equal(qk_maps(part, layer=1, head=head).norm, qk_maps(whole, layer=1, head=head).norm)
    with pytest.raises(FloatlensError, match=r"no norms of head 2, so no angle; the trace kept head \[1, 3\]"):
        qk_maps(part, layer=1, head=2)


def test_what_was_not_kept_is_said():
    made, _, _ = trace(causal=False)
    with pytest.raises(FloatlensError, match=r"no q·k heatmap of layer 7; the trace kept layer \[0, 1\]"):
        qk_maps(made, layer=7, head=0)
    bare, _, _ = trace(causal=False, matrices=False)
    with pytest.raises(FloatlensError, match='holds no "qk_matrix"; trace again with the probe "qk" on'):
        qk_maps(bare, layer=0, head=0)
