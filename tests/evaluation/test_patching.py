"""Activation patching: what must hold exactly, against passes made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import floatlens as fl
from floatlens.core.errors import FloatlensError
from floatlens.data import open_data
from floatlens.evaluation.counterfactuals import counterfactual_pairs
from floatlens.evaluation.patch_passes import PatchPasses, lay_out_prompt
from floatlens.evaluation.patching import _choices, patch_pair, patching
from floatlens.probes import Matrix
from floatlens.records import Patched
from shared.capture import capture

ONE, OTHER = [5, 9, 12, 33, 21, 8, 30], [5, 9, 40, 33, 21, 17, 30]
TOKENS = [(3, 11)]
NAMES = ["llada", "dream", "llama"]


def difference(model: Any, ids: list[int]) -> float:
    """Of the logits of `TOKENS` at the row that decides the first token after a prompt, from a plain pass."""
    written = [] if model.kind == "arm" else [model.mask_id] * 3
    logits = model.forward(torch.tensor([ids + written]))
    row = logits[0, model.row_of(len(ids))]
    return float(row[TOKENS[0][0]] - row[TOKENS[0][1]])


def run(model: Any, one: Any = ONE, other: Any = OTHER, **how: Any) -> Any:
    return patching(model, one, other, tokens=TOKENS, gen_length=3, **({"draws": 2} | how))


@pytest.mark.parametrize("name", NAMES)
def test_the_ends_are_those_of_plain_passes(name: str, tiny_model: Any) -> None:
    model = tiny_model(name)
    found = run(model).data
    assert float(found["original"][0]) == pytest.approx(difference(model, ONE), abs=1e-5)
    assert float(found["counterfactual"][0]) == pytest.approx(difference(model, OTHER), abs=1e-5)
    assert found["effect"].dims == ("sample", "patched", "layer")


@pytest.mark.parametrize("what", ["kv", "residual"])
@pytest.mark.parametrize("name", NAMES)
def test_states_of_the_same_prompt_change_nothing(name: str, what: Any, tiny_model: Any) -> None:
    found = run(tiny_model(name), ONE, ONE, what=what, k=2).data
    assert np.abs(found["difference"] - found["original"]).max() <= 1e-6
    assert found["effect"].isnull().all()  # there is no way to go


@pytest.mark.parametrize("name", NAMES)
def test_all_but_the_deciding_state_of_layer_0_make_the_other_prompt(name: str, tiny_model: Any) -> None:
    """Both prompts end alike, so what enters layer 0 at the deciding row is the same already."""
    model = tiny_model(name)
    passes = PatchPasses(model, "all", [lay_out_prompt(model, ids, {"gen_length": 3}) for ids in (ONE, OTHER)])
    keys = len(ONE) + (0 if model.kind == "arm" else 3)
    everything = [key for key in range(keys) if key != model.row_of(len(ONE))]
    assert torch.allclose(passes.patched(0, everything, "residual"), passes.logits[1], atol=1e-5)
    assert torch.allclose(passes.patched(0, [2, 5], "residual"), passes.logits[1], atol=1e-5)  # where they differ
    assert not torch.allclose(passes.patched(0, [2], "residual"), passes.logits[1], atol=1e-3)
    assert not torch.allclose(passes.logits[0], passes.logits[1], atol=1e-3)


@pytest.mark.parametrize("what", ["kv", "residual"])
def test_a_causal_model_knows_nothing_of_what_follows(what: Any, tiny_model: Any) -> None:
    """The first two tokens are the same: their states are, too, and exchanging them does nothing."""
    model = tiny_model("llama")
    found = run(model, ONE, [*ONE[:5], 17, 30], what=what, k=1, draws=1).data
    for layer in range(model.num_layers):
        one = found.sel(patched="anchors", layer=layer)
        received = _received(model, layer)
        if int(np.nanargmax(received)) < 5:
            assert abs(float(one["difference"][0] - found["original"][0])) <= 1e-6


def _received(model: Any, layer: int) -> np.ndarray:
    """The last row of the prompt as a probe saw it, mean over heads, without its own key."""
    probe = Matrix()
    with capture(model, [probe], steps=1, length=16):
        model.forward(torch.tensor([ONE]))
    row = np.nan_to_num(probe.taken[0, layer][0]).mean(0)[len(ONE) - 1][: len(ONE)].astype(float)
    row[-1] = np.nan
    return row


def test_keys_and_values_are_those_of_the_other_prompt(tiny_model: Any) -> None:
    """One layer by hand: an edit that writes the other prompt's key and value at the strongest key."""
    model, layer = tiny_model("llama"), 1
    states: dict[int, Any] = {}

    class Keep(fl.Edit):
        def begin_layer(self, given: Any) -> None:
            states[given.index] = given.key.clone(), given.value.clone()

    class Put(fl.Edit):
        def begin_layer(self, given: Any) -> None:
            if given.index == layer:
                given.key[:, :, at], given.value[:, :, at] = keys[:, :, at], values[:, :, at]

    with fl.edit(model, Keep()):
        model.forward(torch.tensor([OTHER]))
    keys, values = states[layer]
    received = _received(model, layer)
    at = int(np.nanargmax(received))
    with fl.edit(model, Put()):
        row = model.forward(torch.tensor([ONE]))[0, -1]
    found = run(model, layers=[layer], k=1).data.sel(patched="anchors", layer=layer)
    assert float(found["difference"][0]) == pytest.approx(float(row[TOKENS[0][0]] - row[TOKENS[0][1]]), abs=1e-5)
    assert float(found["mass"][0]) == pytest.approx(received[at], abs=1e-5)
    way = float(found["original"][0] - found["counterfactual"][0])
    assert float(found["effect"][0]) == pytest.approx(float(found["original"][0] - found["difference"][0]) / way)


def test_a_prompt_that_differs_at_the_anchor_alone(tiny_model: Any) -> None:
    """What enters layer 0 is the same elsewhere: the residual state of the anchor is the whole way, its key and value
    are a part of it, and the control finds nothing to exchange."""
    model = tiny_model("llama")
    other = list(ONE)
    other[int(np.nanargmax(_received(model, 0)))] = 40
    how = Patched(what=("kv", "residual"), draws=3)
    found = patch_pair(model, (ONE, other), how, layers=[0], tokens=TOKENS[0], gen_length=3)
    assert found.original == pytest.approx(difference(model, ONE), abs=1e-5)
    assert found.counterfactual == pytest.approx(difference(model, other), abs=1e-5)
    anchors, control = found.effect("residual")[:, 0]
    assert anchors == pytest.approx(1, abs=1e-4)
    assert control == pytest.approx(0, abs=1e-4)
    anchors, control = found.effect("kv")[:, 0]
    assert control == pytest.approx(0, abs=1e-4)
    assert abs(anchors) > 1e-3
    assert abs(anchors - 1) > 1e-3


def test_both_kinds_of_states_at_once_are_those_of_each_alone(tiny_model: Any) -> None:
    model = tiny_model("llada")
    how = Patched(what=("kv", "residual"), draws=2, seed=4)
    both = patch_pair(model, (ONE, OTHER), how, tokens=TOKENS[0], gen_length=3)
    for what in how.what:
        alone = run(model, what=what, seed=4).data
        np.testing.assert_allclose(both.effect(what), alone["effect"][0], atol=1e-6)
        np.testing.assert_allclose(both.mass, alone["mass"][0])


def test_the_control_receives_as_much() -> None:
    received = np.array([0.05, 0.3, np.nan, 0.1, 0.1, 0.02, 0.2])
    (anchors,), drawn = _choices(received, 1, 50, [0])
    assert anchors == [1]
    for keys in drawn:
        assert not {1, 2} & set(keys)
        assert received[keys].sum() >= 0.3
        assert received[keys[:-1]].sum() < 0.3  # the shortest
    assert len({tuple(keys) for keys in drawn}) > 10
    (_,), short = _choices(np.array([0.9, 0.05, 0.05]), 1, 1, [0])
    assert sorted(short[0]) == [1, 2]  # together less than the anchor


def test_several_pairs_and_what_the_model_would_say(tiny_model: Any) -> None:
    model = tiny_model("llada")
    found = patching(model, [ONE, ONE], [OTHER, ONE], gen_length=3, rows="answer").data
    assert found.sizes == {"sample": 2, "patched": 2, "layer": 3, "answer": 2}
    original, counterfactual = found["tokens"][0].values
    logits = [model.forward(torch.tensor([ids + [model.mask_id] * 3]))[0, len(ids)].clone() for ids in (ONE, OTHER)]
    for row in logits:
        row[model.mask_id] = -torch.inf
    assert [original, counterfactual] == [int(row.argmax()) for row in logits]
    assert found["effect"][1].isnull().all()
    assert found["difference"][1].isnull().all()  # not measured: the same token is first in both
    assert found["mass"][1].notnull().all()


@pytest.mark.parametrize(
    ("one", "other", "how", "message"),
    [
        (ONE, OTHER[:-1], {}, "pair 0 has 7 and 6 tokens"),
        ([ONE], [OTHER, OTHER], {}, "1 prompts and 2 counterfactual"),
        (ONE, OTHER, {"what": "key"}, 'what="key"'),
        (ONE, OTHER, {"rows": "al"}, 'did you mean "all"'),
        (ONE, OTHER, {"k": 0}, "k=0"),
        (ONE, OTHER, {"k": 9}, "k=9 of 9 keys"),
        (ONE, OTHER, {"layers": [3]}, "layer 3; the layers of"),
        ("one", "other", {}, "has no tokenizer"),
    ],
)
def test_mistakes_are_named(one: Any, other: Any, how: Any, message: str, tiny_model: Any) -> None:
    with pytest.raises(FloatlensError) as caught:
        run(tiny_model("llada"), one, other, **how)
    assert message in str(caught.value)


def test_counterfactual_prompts_keep_their_length() -> None:
    model = fl.load("scale:llada")
    examples = list(open_data("scale:rag:documents=2", limit=4).examples())
    pairs, skipped = counterfactual_pairs(model, examples)
    assert len(pairs) + len(skipped) == 4
    assert pairs
    for one, other in pairs:
        assert len(one) == len(other)
        assert one != other
    lonely, all_skipped = counterfactual_pairs(model, examples[:1])
    assert (lonely, all_skipped) == ([], [examples[0].id])
    drawn = fl.plot_patching.describe(patching(model, *zip(*pairs, strict=True), layers=[0, 1], gen_length=2))
    (panel,) = drawn.panels
    assert [(one.role, one.x) for one in panel.series] == [("", (0.0, 1.0)), ("mass", (0.0, 1.0))]
