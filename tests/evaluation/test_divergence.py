"""What an edit does to the first distribution that it can reach."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any

import pytest
import torch

import floatlens as fl
from floatlens.decoding import decode_steps
from floatlens.decoding.settings import DecodingConfig
from floatlens.edits import EditSpec, parse_edit
from floatlens.evaluation.answers import AskConfig, Asked, ask
from floatlens.evaluation.divergence import divergence, tapped, unedited
from floatlens.subjects.scale import questions

CONFIG = AskConfig(decoding=DecodingConfig(settings={"gen_length": 4}))
EXAMPLES = questions("rag", 3, documents=3)


def test_divergence_is_kullback_and_leiblers() -> None:
    p, q = torch.tensor([0.5, 0.25, 0.25]), torch.tensor([0.25, 0.125, 0.625])  # other way round it is another number
    wanted = 0.5 * math.log(2) + 0.25 * math.log(2) + 0.25 * math.log(0.4)
    assert divergence(p.log(), q.log() + 3) == pytest.approx(wanted)
    assert divergence(p.log(), p.log()) == 0.0
    banned = torch.tensor([0.0, -torch.inf, 1.0])
    assert divergence(banned, banned) == 0.0
    assert divergence(None, q) is None


@pytest.mark.parametrize("ref", ["scale:llada", "scale:qwen"])
def test_nothing_changes_where_nothing_is_edited(ref: str) -> None:
    model = fl.load(ref)
    plain = ask(model, [Asked(e) for e in EXAMPLES], CONFIG)
    nothing = EditSpec("drop_anchors", (("k", 3), ("strength", 0)))
    still = ask(model, [Asked(e, None, nothing) for e in EXAMPLES], CONFIG)
    assert [a.prediction for a in still] == [a.prediction for a in plain]
    assert [a.kl for a in still] == [0.0] * 3
    assert [a.kl for a in plain] == [None] * 3
    mixed = [Asked(EXAMPLES[0]), Asked(EXAMPLES[0], None, parse_edit("freeze_layers:layers=0-3")[0])]
    one, other = ask(model, mixed, CONFIG)
    assert one.prediction == plain[0].prediction
    assert other.kl is not None
    assert other.kl > 0.1


def test_the_unedited_model_is_asked_once_for_all_edits() -> None:
    """A second edit, and another step, other settings or another batch: the passes of the unedited model."""
    model, passes = fl.load("scale:qwen"), []
    ids = [[5, 9, 12], [7, 8]]

    def run(step: int, steps: int) -> Callable[[], Any]:
        def decode() -> None:
            passes.append(step)
            list(islice(decode_steps(model, ids, gen_length=steps), step + 1))

        return decode

    first = unedited(model, ids, 0, {"gen_length": 2}, run(0, 2))
    assert unedited(model, ids, 0, {"gen_length": 2}, run(0, 2)) is first
    assert passes == [0]
    unedited(model, ids, 1, {"gen_length": 2}, run(1, 2))
    unedited(model, ids, 0, {"gen_length": 3}, run(0, 3))
    unedited(model, ids[:1], 0, {"gen_length": 2}, run(0, 2))
    assert passes == [0, 1, 0, 0]
    for prompt, seen in zip(ids, first, strict=True):
        assert seen is not None
        torch.testing.assert_close(seen, model.forward(torch.tensor([prompt]))[0, -1], atol=1e-4, rtol=1e-4)


def test_no_more_is_kept_than_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    model = fl.load("scale:qwen")
    monkeypatch.setattr("floatlens.evaluation.divergence._MOST_BYTES", 1)
    counts = []
    for prompt in ([5, 9], [7, 8], [5, 9], [5, 9]):
        run = partial(lambda ids: counts.append(ids) or list(decode_steps(model, [ids], gen_length=1)), prompt)
        unedited(model, [prompt], 0, {}, run)
    assert counts == [[5, 9], [7, 8], [5, 9]]


def test_the_first_distribution_is_that_of_a_plain_pass() -> None:
    model = fl.load("scale:qwen")
    assert model.tokenizer is not None
    ids = [model.tokenizer("who is it ?").input_ids, model.tokenizer("where does he live now ?").input_ids]
    with tapped(model, 0) as tap:
        fl.decode(model, ids, gen_length=2)
    for prompt, seen in zip(ids, tap.first, strict=True):
        assert seen is not None
        torch.testing.assert_close(seen, model.forward(torch.tensor([prompt]))[0, -1], atol=1e-4, rtol=1e-4)
    assert "forward" not in vars(model)
    with tapped(model, 1) as tap:
        written = fl.decode(model, ids, gen_length=2).answers()
    for prompt, answer, seen in zip(ids, written, tap.first, strict=True):
        assert seen is not None
        after = model.forward(torch.tensor([[*prompt, answer[0]]]))[0, -1]
        torch.testing.assert_close(seen, after, atol=1e-4, rtol=1e-4)
