"""Stale keys and values: equal to putting them into each layer by hand, and nothing where nothing is kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import floatlens as fl
from floatlens.attention.edit import Edit
from floatlens.core.errors import FloatlensError
from floatlens.edits import Stale, parse_edit
from floatlens.edits.cache_savings import saved_share

PROMPTS = [[5, 9, 12, 33, 21, 8, 30, 14, 26, 9], [17, 6, 40, 11, 19, 6, 29]]
MASK = 90


class Put(Edit):
    """Puts given keys and values into some positions of a layer; the plain way."""

    def __init__(self, states: dict[int, tuple[Any, Any]], positions: list[int]) -> None:
        self.states, self.positions = states, positions

    def begin_layer(self, layer: Any) -> None:
        for into, given in zip((layer.key, layer.value), self.states.get(layer.index, ()), strict=False):
            for position in self.positions:
                into[0, :, position] = torch.from_numpy(given[0, :, position]).float()


def passes(model: Any, edit: Edit, sequences: list[list[int]]) -> list[torch.Tensor]:
    with fl.edit(model, edit):
        return [model.forward(torch.tensor([ids])) for ids in sequences]


@pytest.mark.parametrize(("tokens", "kept"), [("known", [0, 1, 2, 3]), ("prompt", [0, 1, 2]), ("all", [0, 1, 2, 3, 4])])
@pytest.mark.parametrize("layers", [None, [1, 2]])
def test_every_pass_reads_what_an_earlier_one_computed(
    tokens: Any, kept: list[int], layers: Any, tiny_model: Any, observe: Any
) -> None:
    """Steps 0 and 2 compute, 1 and 3 read. The run begins with two masks; one is filled before step 2."""
    model = tiny_model("llada")
    mask = model.mask_id
    steps = [[5, 9, 12, mask, mask], [5, 9, 12, 7, mask], [5, 9, 12, 7, mask], [5, 9, 12, 7, 31]]
    found = passes(model, Stale(2, tokens=tokens, select=fl.Select(layers=layers)), steps)
    for first in (0, 2):
        seen = observe(model, torch.tensor([steps[first]])).layers
        states = {i: (one.key, one.value) for i, one in enumerate(seen) if layers is None or i in layers}
        known = [j for j in kept if tokens != "known" or steps[first][j] != mask]
        wanted = passes(model, Put(states, known), [steps[first + 1]])[0]
        assert torch.allclose(found[first + 1], wanted, atol=1e-4)
        assert torch.allclose(found[first], passes(model, Edit(), [steps[first]])[0], atol=1e-5)
    assert not torch.allclose(found[1], passes(model, Edit(), [steps[1]])[0], atol=1e-3)


def test_a_new_run_keeps_nothing_of_the_last(tiny_model: Any) -> None:
    model = tiny_model("llada")
    with fl.edit(model, Stale(8)):
        first, second = (fl.decode(model, [PROMPTS[i]], gen_length=4, steps=4).answers() for i in (0, 1))
        assert fl.decode(model, [PROMPTS[0]], gen_length=4, steps=4).answers() == first
    with fl.edit(model, Stale(8)):
        assert fl.decode(model, [PROMPTS[1]], gen_length=4, steps=4).answers() == second


def test_a_padded_batch_is_as_alone(tiny_model: Any) -> None:
    model = tiny_model("llada")
    with fl.edit(model, Stale(3)):
        both = fl.decode(model, PROMPTS, gen_length=4, steps=4).answers()
    for ids, answer in zip(PROMPTS, both, strict=True):
        with fl.edit(model, Stale(3)):
            assert fl.decode(model, [ids], gen_length=4, steps=4).answers() == [answer]


def test_an_autoregressive_model_is_unchanged_and_a_cache_is_refused(tiny_model: Any) -> None:
    model = tiny_model("llama")
    plain = fl.decode(model, [PROMPTS[0]], gen_length=4).answers()
    with fl.edit(model, Stale(4)):
        assert fl.decode(model, [PROMPTS[0]], gen_length=4, use_cache=False).answers() == plain
    with fl.edit(model, Stale(4)), pytest.raises(FloatlensError, match="use_cache=False"):
        fl.decode(model, [PROMPTS[0]], gen_length=4)


def test_what_is_saved_by_hand() -> None:
    """Four layers; a row costs 3, key and value 1: 16 in all."""
    assert saved_share({0, 1, 2, 3}, 4, 3.0, 1.0) == 1
    assert saved_share(set(), 4, 3.0, 1.0) == 0
    assert saved_share({0}, 4, 3.0, 1.0) == pytest.approx(1 - (9 + 3) / 16)  # the last layer's row is not read
    assert saved_share({2, 3}, 4, 3.0, 1.0) == pytest.approx(1 - (3 + 2) / 16)  # rows of layer 0, keys of 0 and 1
    assert saved_share({0, 1}, 4, 3.0, 1.0) == pytest.approx(1 - (9 + 2) / 16)  # rows of 0 to 2, keys of 2 and 3


def test_saved_over_a_run(tiny_model: Any) -> None:
    """All layers, the prompt of 3 of 5 tokens, computed in steps 0 and 2 of 4."""
    model = tiny_model("llada")
    edit = Stale(2, tokens="prompt")
    with fl.edit(model, edit):
        fl.decode(model, [[5, 9, 12]], gen_length=2, steps=2)
    assert edit.numbers()["saved"] == pytest.approx(np.mean([0, 3 / 5]))


def test_the_control_takes_as_many_other_layers(tiny_model: Any) -> None:
    model, edit = tiny_model("llada"), Stale(2, select=fl.Select(layers=[0]))
    chosen = set()
    for seed in range(12):
        control = edit.control(seed)
        with fl.edit(model, control):
            layers = control.select.layer_ids(3)
        with fl.edit(model, control):
            assert control.select.layer_ids(3) == layers  # the same when it is used again
        assert len(layers) == 1
        chosen |= set(layers)
    assert chosen == {0, 1, 2}
    with pytest.raises(FloatlensError, match="itself a control"):
        edit.control(0).control(1)


def test_by_name_and_refusals() -> None:
    (spec,) = parse_edit("stale:refresh=4:tokens=prompt:on=0-1")
    made = spec.build()
    assert isinstance(made, Stale)
    assert (made.refresh, made.tokens, made.select.layer_ids(3)) == (4, "prompt", (0, 1))
    assert not Stale(1).active
    assert [one.controls for one in parse_edit("stale:refresh=2") + parse_edit("stale:refresh=2:on=0-1")] == [
        (),
        ("count",),
    ]  # random layers would be the same where all are chosen
    for given, message in (({"refresh": 0}, "whole number from 1"), ({"tokens": "knwon"}, 'did you mean "known"?')):
        with pytest.raises(FloatlensError) as error:
            Stale(**given)
        assert message in str(error.value)
