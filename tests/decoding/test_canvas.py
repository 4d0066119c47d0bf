"""Layouts worked out by hand, forms of prompts, and what does not fit."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from floatlens.core.errors import FloatlensError
from floatlens.decoding import plan

M = 150  # the golden models' mask id


def table(flags):
    return ["".join("x" if flag else "." for flag in row) for row in flags.tolist()]


def test_mdm_padded_on_the_left(llada):
    canvas = plan(llada, [[5], [6, 7, 8]], gen_length=2)
    assert canvas.ids.tolist() == [[1, 1, 5, M, M], [6, 7, 8, M, M]]
    assert table(canvas.attention_mask) == ["..xxx", "xxxxx"]
    assert table(canvas.answer) == ["...xx", "...xx"]
    assert canvas.rows.tolist() == [[-1, -1, -1, 3, 4], [-1, -1, -1, 3, 4]]
    assert (canvas.prompt_lengths, canvas.starts, canvas.length, canvas.max_steps) == ((1, 3), (2, 0), 5, 2)


def test_mdm_padded_on_the_right(dream):
    canvas = plan(dream, [[5], [6, 7, 8]], gen_length=2, padding="right")
    assert canvas.ids.tolist() == [[5, M, M, 1, 1], [6, 7, 8, M, M]]
    assert table(canvas.attention_mask) == ["xxx..", "xxxxx"]
    assert table(canvas.answer) == [".xx..", "...xx"]
    assert canvas.rows.tolist() == [[-1, 0, 1, -1, -1], [-1, -1, -1, 2, 3]]
    assert canvas.starts == (0, 0)


def test_arm_has_its_answers_in_the_same_columns(arm):
    arm = dataclasses.replace(arm, pad_id=0)
    left = plan(arm, [[5], [6, 7, 8]], gen_length=2)
    assert left.ids.tolist() == [[0, 0, 5, 0, 0], [6, 7, 8, 0, 0]]
    assert table(left.attention_mask) == ["..xxx", "xxxxx"]
    assert left.rows.tolist() == [[-1, -1, -1, 2, 3], [-1, -1, -1, 2, 3]]
    right = plan(arm, [[5], [6, 7, 8]], gen_length=2, padding="right")
    assert right.ids.tolist() == [[5, 0, 0, 0, 0], [6, 7, 8, 0, 0]]
    assert table(right.attention_mask) == ["x..xx", "xxxxx"]
    assert table(right.answer) == table(left.answer) == ["...xx", "...xx"]
    assert right.rows.tolist() == [[-1, -1, -1, 0, 3], [-1, -1, -1, 2, 3]]


def test_blocks(llada):
    canvas = plan(llada, [[5], [6, 7]], gen_length=4, block_length=2)
    assert canvas.block_of(2).tolist() == [[0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 1, 1]]


@pytest.mark.parametrize(
    "given",
    [
        [5, 6],
        (5, 6),
        [[5, 6]],
        torch.tensor([5, 6]),
        torch.tensor([[5, 6]], dtype=torch.int32),
        np.array([5, 6]),
        [torch.tensor([5, 6])],
        [torch.tensor(5), torch.tensor(6)],
    ],
    ids=repr,
)
def test_prompts_in_every_form(llada, given):
    assert plan(llada, given, gen_length=1).ids.tolist() == [[5, 6, M]]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("hello", "prompt_ids must be token ids, not text"),
        (torch.tensor([0.5]), "prompt_ids must be whole numbers"),
        ([[1], 2], "prompt_ids must be whole numbers"),
        (torch.ones(1, 1, 1, dtype=torch.long), "prompt_ids must be whole numbers"),
        (None, "prompt_ids must be whole numbers: .* got NoneType None"),
        ([[1, 2], [3, 160]], "prompt 1 holds id 160 at position 1; the model's vocabulary ends at 159"),
        ([-1], "prompt 0 holds id -1 at position 0"),
    ],
)
def test_prompts_that_are_none(llada, given, message):
    with pytest.raises(FloatlensError, match=message):
        plan(llada, given)


def test_what_does_not_fit(llada, arm):
    with pytest.raises(
        FloatlensError, match=r"a prompt of 100 tokens and gen_length=32 need 132 positions and .* has 128"
    ):
        plan(llada, [[5], [5] * 100])
    assert plan(llada, [5] * 96).length == 128
    assert plan(dataclasses.replace(llada, max_length=None), [5] * 100).length == 132
    with pytest.raises(FloatlensError, match="cannot start from an empty prompt"):
        plan(arm, [[5], []])
    with pytest.raises(FloatlensError, match="nothing to write for prompt 1: gen_length is 0"):
        plan(llada, [[M], [5]], gen_length=0, steps=1)
    with pytest.raises(FloatlensError, match="seed has 3 numbers for 2 prompts"):
        plan(llada, [[5], [6]], seed=[1, 2, 3])
    with pytest.raises(FloatlensError, match='padding="lft"; did you mean "left"'):
        plan(llada, [5], padding="lft")


def test_padding_without_a_pad_token(llada):
    bare = dataclasses.replace(llada, pad_id=None, eos_ids=(9,))
    assert plan(bare, [[5], [6, 7]], gen_length=1).ids[0].tolist() == [9, 5, M]
    bare = dataclasses.replace(llada, pad_id=-1, eos_ids=(50256,))  # without an embedding, both of them
    assert plan(bare, [[5], [6, 7]], gen_length=1).ids[0].tolist() == [0, 5, M]


def test_padding_that_looks_like_the_mask_is_not_filled(llada):
    canvas = plan(dataclasses.replace(llada, pad_id=M), [[5], [6, 7]], gen_length=1)
    assert table(canvas.answer) == ["..x", "..x"]
