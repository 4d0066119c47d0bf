"""The confidence-threshold sampler against its definition."""

from __future__ import annotations

import math

import pytest
import torch

from floatlens.decoding import decode


def reference(read, model, prompt, *, threshold, gen_length, block_length):
    mask, x = model.mask_id, list(prompt) + [model.mask_id] * gen_length
    log = []
    for begin in range(len(prompt), len(x), block_length):
        while open_ := [column for column in range(begin, begin + block_length) if x[column] == mask]:
            table = read(model, x)
            sure = {}
            for column in open_:
                total = sum(map(math.exp, table[column]))
                token = max((v for v in range(len(table[column])) if v != mask), key=table[column].__getitem__)
                sure[column] = (math.exp(table[column][token]) / total, token)
            best = max(open_, key=lambda column: sure[column][0])
            taken = [column for column in open_ if column == best or sure[column][0] >= threshold]
            log.append([(column, sure[column][1]) for column in taken])
            for column in taken:
                x[column] = sure[column][1]
    return log


@pytest.mark.parametrize("name", ["llada", "dream"])
@pytest.mark.parametrize("threshold", [0.0, 0.08, 0.12, 1.0])
def test_equals_the_plain_reading(request, prompts, shifted_logits, name, threshold):
    model, prompt = request.getfixturevalue(name), prompts(7)[0]
    chosen = {"threshold": threshold, "gen_length": 12, "block_length": 6}
    expected = reference(shifted_logits, model, prompt, **chosen)
    decoded = decode(model, prompt, sampler="threshold", **chosen)
    got = [list(zip(step.position.tolist(), step.token.tolist(), strict=True)) for step in decoded.steps]
    assert got == expected
    assert decoded.forward_passes == len(expected)


def test_the_ends_of_the_scale(llada, prompts):
    assert (
        decode(llada, prompts(7)[0], sampler="threshold", threshold=0, gen_length=8, block_length=4).forward_passes == 2
    )
    cautious = decode(llada, prompts(7)[0], sampler="threshold", threshold=1, gen_length=8, block_length=4)
    assert cautious.forward_passes == 8 == cautious.canvas.max_steps


def test_confidences_keep_their_promise(llada, prompts):
    decoded = decode(llada, prompts(7)[0], sampler="threshold", threshold=0.1, gen_length=8)
    for step in decoded.steps:
        assert (step.confidence >= 0.1).all() or len(step.confidence) == 1


class Flat:
    """The model, with the same given logits at every row it is asked for."""

    def __init__(self, model, row):
        self.model, self.row = model, row

    def __getattr__(self, name):
        return getattr(self.model, name)

    def forward(self, *args, **kwargs):
        logits = self.model.forward(*args, **kwargs)
        return self.row.expand(len(logits), -1)


def test_a_confidence_equal_to_the_threshold_is_enough(llada):
    row = torch.full((160,), -math.inf)
    row[[3, 4]] = 0.0  # one half each, exactly
    for threshold, passes in ((0.5, 1), (0.5001, 4)):
        decoded = decode(Flat(llada, row), [5], sampler="threshold", threshold=threshold, gen_length=4)
        assert decoded.forward_passes == passes


def test_confidences_are_compared_in_float64(llada):
    row = torch.full((160,), -24.0)
    row[3] = 0.0  # a probability of 1 - 6e-9, which float32 would round to 1
    decoded = decode(Flat(llada, row), [5], sampler="threshold", threshold=1.0, gen_length=4)
    assert decoded.forward_passes == 4


def test_noise_follows_the_seed(llada, prompts):
    def tokens(seed):
        decoded = decode(llada, prompts(7)[0], sampler="threshold", temperature=1.5, gen_length=8, seed=seed)
        return decoded.sequence.tolist()

    assert tokens(1) == tokens(1) != tokens(2)


def test_samples_change_blocks_each_by_itself(llada, prompts):
    """One sample needs more passes for its first block than another: neither waits for the other."""
    chosen = {"sampler": "threshold", "threshold": 0.09, "gen_length": 12, "block_length": 4}
    several = prompts(4, 9, 6, 11)
    alone = [decode(llada, prompt, **chosen) for prompt in several]
    together = decode(llada, several, **chosen)
    assert len({len(one.steps) for one in alone}) > 1
    assert len(together.steps) == max(len(one.steps) for one in alone)
    for sample, one in enumerate(alone):
        active = torch.stack([step.unfinished[sample] for step in together.steps])
        assert active.tolist() == [number < len(one.steps) for number in range(len(together.steps))]
