"""Masks as descriptions: what they say of each query and key, and which fast path each of transformers' own takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers.masking_utils import (
    and_masks,
    causal_mask_function,
    packed_sequence_mask_function,
    sliding_window_causal_mask_function,
)

from floatlens.attention.mask import HIDDEN, BlockMask, describe_mask


def describe(function: Any, queries: int, keys: int, offset: int = 0, real: Tensor | None = None) -> BlockMask:
    return describe_mask(1, queries, keys, offset, 0, function, real)


def test_visible_is_what_the_rule_says() -> None:
    mask = describe(sliding_window_causal_mask_function(2), 4, 6, 2)
    assert mask.visible(0, 4, 1, torch.device("cpu"))[0, 0].int().tolist() == [
        [0, 1, 1, 0, 0, 0],
        [0, 0, 1, 1, 0, 0],
        [0, 0, 0, 1, 1, 0],
        [0, 0, 0, 0, 1, 1],
    ]


def test_visible_rows_of_a_causal_mask_with_padding() -> None:
    real = torch.tensor([[False, True, True, True, True]])
    mask = describe(causal_mask_function, 3, 5, 2, real)
    assert mask.visible(1, 3, 1, torch.device("cpu"))[0, 0].int().tolist() == [[0, 1, 1, 1, 0], [0, 1, 1, 1, 1]]


def test_packed_sequences_keep_apart() -> None:
    packed = packed_sequence_mask_function(torch.tensor([[0, 0, 0, 1, 1]]))
    mask = describe(and_masks(causal_mask_function, packed), 5, 5)
    assert mask.visible(0, 5, 1, torch.device("cpu"))[0, 0].int().tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0],
        [0, 0, 0, 1, 0],
        [0, 0, 0, 1, 1],
    ]


def test_a_causal_block_stops_at_its_last_query() -> None:
    mask = describe(causal_mask_function, 10, 13, 3)
    assert [mask.key_stop(stop) for stop in (1, 4, 10)] == [4, 7, 13]
    assert describe(None, 10, 13, 3).key_stop(1) == 13


def test_padding_that_hides_nothing_costs_nothing() -> None:
    assert describe(causal_mask_function, 4, 4, 0, torch.ones(1, 4, dtype=torch.bool)).padding is None
    assert describe(causal_mask_function, 4, 4, 0, torch.tensor([[0, 1, 1, 1]])).padding is not None


@pytest.mark.parametrize("samples", [slice(0, 3), slice(1, 3), slice(2, 3)])
def test_padding_is_hidden_wherever_it_lies(samples: slice) -> None:
    real = torch.tensor([[0, 0, 1, 1, 0, 1], [1, 1, 1, 1, 1, 1], [1, 1, 0, 0, 0, 0]], dtype=torch.bool)
    logits = torch.arange((samples.stop - samples.start) * 30.0).view(-1, 2, 3, 5)  # the last key is not in the block
    expected = torch.where(real[samples, None, None, :5], logits, HIDDEN)
    BlockMask(6, 6, padding=real).hide(logits, 0, 3, samples, slice(0, 2))
    assert torch.equal(logits, expected)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, "causal") for name in ("llama", "gpt2", "qwen3")),
        ("mistral", "rule"),
        *((name, "full") for name in ("llada", "dream", "bert", "a2d-qwen3")),
    ],
)
@pytest.mark.parametrize("side", [None, "left", "right"])
def test_models_take_the_fast_path(
    name: str,
    kind: str,
    side: str | None,
    tiny_model: Callable[[str], Any],
    draw: Callable[..., Tensor],
    padded: Callable[..., Tensor],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A plain model must never come down to evaluating a rule for every query and key: that is what makes it slow."""
    from floatlens.attention import session
    from shared.capture import capture

    seen: list[BlockMask] = []
    as_before = session.as_block_mask

    def look(*args: Any) -> BlockMask:
        seen.append(as_before(*args))
        return seen[-1]

    monkeypatch.setattr(session, "as_block_mask", look)
    model = tiny_model(name)
    with capture(model):
        model.forward(draw(2, 9), None if side is None else padded(9, [0, 2], side))
    assert len(seen) == model.num_layers
    for mask in seen:
        assert mask.explicit is None
        assert mask.causal == (kind == "causal")
        assert (mask.rule is not None) == (kind == "rule")
        assert (mask.padding is None) == (side is None)


def test_hidden_weighs_exactly_nothing() -> None:
    logits = torch.tensor([0.0, HIDDEN])
    assert torch.softmax(logits, 0).tolist() == [1.0, 0.0]
