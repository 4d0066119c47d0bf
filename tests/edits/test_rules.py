"""The rules on tensors find what the rules of `floatlens.analysis` find, on padded batches with ties."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from floatlens.analysis.rules import Columns, as_rule, find_anchors
from floatlens.edits.rules import AnchorRule


@pytest.mark.parametrize("rule", ["topk(1)", "topk(3)", "top1", "zscore(1)", "zscore(2.5)", "zscore"])
@pytest.mark.parametrize("ties", [False, True])
def test_as_the_analyses_find_them(rule: str, ties: bool) -> None:
    random = np.random.default_rng(0)
    share = random.gamma(0.3, size=(3, 4, 12)).astype(np.float32)
    if ties:
        share = np.round(share, 1)
    present = np.ones((3, 12), dtype=bool)
    present[1, :4] = False
    present[2, 9:] = False
    share *= present[:, None]
    share /= share.sum(-1, keepdims=True)
    found = AnchorRule.read("x", None, rule).find("x", torch.from_numpy(share), torch.from_numpy(present)).numpy()
    there = np.broadcast_to(present[:, None], share.shape)
    value = share.astype(np.float64)
    columns = Columns(
        value, value, there / there.sum(-1, keepdims=True), there, there.astype(float), np.ones(share.shape[:2])
    )
    assert np.array_equal(found, find_anchors(as_rule(rule), columns))
    assert not found[~there].any()
    assert str(AnchorRule.read("x", None, rule)) == str(as_rule(rule))


def test_even_attention_has_no_anchor() -> None:
    even = torch.full((1, 1, 20), 0.05)
    assert not AnchorRule.read("x", None, "zscore(1)").find("x", even, torch.ones(1, 20, dtype=torch.bool)).any()
