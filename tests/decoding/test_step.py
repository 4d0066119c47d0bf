"""Steps come between passes, ask for no more logits than they need, and add up to what `decode` gives."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from floatlens.decoding import decode, decode_steps, plan


class Diary:
    def __init__(self):
        self.lines = []

    def begin(self, info):
        self.lines.append("begin")

    def end(self):
        self.lines.append("end")


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("llada", {"steps": 3, "gen_length": 6}),
        ("dream", {"steps": 3, "gen_length": 6}),
        ("llada", {"sampler": "threshold", "gen_length": 3, "threshold": 1.0}),
        ("arm", {"gen_length": 3}),
    ],
)
def test_a_step_comes_right_after_its_pass(request, prompts, name, settings):
    diary = Diary()
    model = dataclasses.replace(request.getfixturevalue(name), observers=[diary])
    for step in decode_steps(model, prompts(4)[0], **settings):
        diary.lines.append(step.index)
    assert diary.lines == ["begin", "end", 0, "begin", "end", 1, "begin", "end", 2]


class Spy:
    """The model, noting how many rows of logits each pass asks for."""

    def __init__(self, model):
        self.model, self.rows = model, []

    def __getattr__(self, name):
        return getattr(self.model, name)

    def forward(self, *args, logits_at=None, **kwargs):
        self.rows.append(int(logits_at.sum()))
        return self.model.forward(*args, logits_at=logits_at, **kwargs)


@pytest.mark.parametrize(
    ("name", "settings", "rows"),
    [
        ("llada", {"steps": 4, "gen_length": 8, "block_length": 4}, [8, 4, 8, 4]),
        ("llada", {"steps": 2, "gen_length": 4, "cfg_scale": 1.0}, [8, 8, 4, 4]),
        ("llada", {"sampler": "threshold", "threshold": 1.0, "gen_length": 4, "block_length": 2}, [4, 2, 4, 2]),
        ("dream", {"steps": 2, "gen_length": 4}, [8, 6]),  # 1 - s/t is just below one half: int(4 · 0.4995) = 1
        ("arm", {"gen_length": 3}, [2, 2, 2]),
    ],
)
def test_logits_only_where_a_token_can_be_committed(request, prompts, name, settings, rows):
    spy = Spy(request.getfixturevalue(name))
    decode(spy, prompts(3, 6), **settings)
    assert spy.rows == rows


def test_steps_are_records_of_their_own(llada, prompts):
    """Changing a step's tensors changes neither the decoding nor other steps."""
    expected = decode(llada, prompts(5)[0], gen_length=4).sequence
    canvas_before = plan(llada, prompts(5)[0], gen_length=4).ids
    last = None
    for step in decode_steps(llada, prompts(5)[0], gen_length=4):
        step.sequence.zero_()
        step.confidence.zero_()
        last = step
    assert expected[0, last.position].tolist() == last.token.tolist()
    assert canvas_before[0, 5:].tolist() == [llada.mask_id] * 4
    with pytest.raises(dataclasses.FrozenInstanceError):
        last.index = 3


@pytest.mark.parametrize("name", ["llada", "dream", "arm", "bert"])
def test_rows_are_the_models(request, prompts, name):
    model = request.getfixturevalue(name)
    decoded = decode(model, prompts(4)[0], gen_length=5)
    for step in decoded.steps:
        assert step.row.tolist() == [model.row_of(position) for position in step.position.tolist()]
        assert step.confidence.dtype == torch.float32
        assert step.token.dtype == step.position.dtype == step.sample.dtype == torch.long


def test_decoded(llada, prompts):
    decoded = decode(llada, prompts(4, 6), gen_length=6, steps=3)
    assert repr(decoded) == "Decoded(2 samples of 12 columns by llada: 12 tokens in 3 steps, 3 forward passes)"
    assert repr(decoded.canvas) == "Canvas(2 × 12 columns, 12 to write by llada, at most 3 steps)"
    assert repr(decoded.steps[1]) == "Step(1: 4 committed of (2, 12))"
    assert decoded.canvas.prompt_lengths == (4, 6)
    assert decoded.sequence.dtype == torch.long
    assert decoded.answers() == decoded.sequence[:, 6:].tolist()


def test_answers_end_before_eos(llada, prompts):
    plain = decode(llada, prompts(4)[0], gen_length=6).answers()[0]
    cut = decode(dataclasses.replace(llada, eos_ids=(plain[3], plain[5])), prompts(4)[0], gen_length=6)
    assert cut.answers() == [plain[: plain.index(plain[3])]]
    assert len(cut.sequence[0]) == 10
