"""Refresh rules of a cache against plain loops: intervals by layer, and Elastic-Cache's drift test."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import floatlens as fl
from floatlens.attention.edit import Edit
from floatlens.attention.mask import BlockMask
from floatlens.attention.run_tracker import DecodingRun, PassPosition
from floatlens.core.errors import FloatlensError
from floatlens.edits import Stale, parse_edit
from floatlens.edits.cache_savings import saved_shares
from floatlens.edits.refresh_rules import Elastic, ElasticRandom
from floatlens.edits.schedule import intervals_of, written

LAYERS = 3


class PlainCache(Edit):
    """One sample: position by position, what `fresh(step, layer, position)` says is computed, and else read."""

    def __init__(self, fresh: Callable[[int, int, int], bool]) -> None:
        self.fresh = fresh
        self.store: dict[tuple[int, int], tuple[Any, Any]] = {}

    def begin_layer(self, layer: Any) -> None:
        step = layer.state.position.step
        for at in range(layer.key.shape[2]):
            if self.fresh(step, layer.index, at):
                self.store[layer.index, at] = layer.key[0, :, at].clone(), layer.value[0, :, at].clone()
            else:
                layer.key[0, :, at], layer.value[0, :, at] = self.store[layer.index, at]


def passes(model: Any, edit: Edit, sequences: list[list[int]]) -> list[torch.Tensor]:
    with fl.edit(model, edit):
        return [model.forward(torch.tensor([ids])) for ids in sequences]


def unmasked(mask: int) -> list[list[int]]:
    """Six passes over 4 tokens of a prompt and 6 masks, of which one is committed in each, not from left to right."""
    steps, ids = [], [5, 9, 12, 33, *[mask] * 6]
    for at, token in ((6, 7), (4, 31), (9, 8), (5, 40), (7, 22), (8, 3)):
        steps.append(list(ids))
        ids[at] = token
    return steps


def test_a_schedule_is_equal_to_a_cache_by_hand(tiny_model: Any) -> None:
    """Layer 0 every 4 steps, layer 1 every 2, layer 2 in each: what was no mask at a refresh is kept until the next."""
    model, every = tiny_model("llada"), {0: 4, 1: 2, 2: 1}
    steps = unmasked(model.mask_id)

    def fresh(step: int, layer: int, at: int) -> bool:
        last = step - step % every[layer]
        return step == last or steps[last][at] == model.mask_id

    wanted = passes(model, PlainCache(fresh), steps)
    edit = Stale(schedule="0/4+1/2")
    found = passes(model, edit, steps)
    for one, other in zip(found, wanted, strict=True):
        assert torch.allclose(one, other, atol=1e-5)
    assert edit.intervals == {0: 4, 1: 2}
    assert torch.equal(passes(model, Stale(schedule={0: 2, 1: 2, 2: 2}), steps)[3], passes(model, Stale(2), steps)[3])


# -- Elastic-Cache -----------------------------------------------------------------------------------------------------


class PlainElastic(Edit):
    """The rule for one sample without padding, in numpy and by loops; `fired` is the layer that fell below, by step."""

    def __init__(self, threshold: float, window: int, mask: int) -> None:
        self.threshold, self.window, self.mask = threshold, window, mask
        self.keys: dict[int, Any] = {}
        self.values: dict[int, Any] = {}
        self.queries: dict[int, Any] = {}
        self.tops: dict[int, int] = {}
        self.before: list[int] = []
        self.fired: dict[int, int] = {}
        self.cosines: list[float] = []
        self.asked: set[int] = set()

    def rows(self, layer: Any, query: Any, key: Any) -> Any:
        groups = query.shape[0] // key.shape[0]
        logits = np.stack([query[h] @ key[h // groups].T for h in range(query.shape[0])]) * layer.scaling
        weights = np.exp(logits - logits.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True)

    def begin_layer(self, layer: Any) -> None:
        ids, step = layer.state.ids[0].tolist(), layer.state.position.step
        masks = [i for i, one in enumerate(ids) if one == self.mask][: self.window]
        if layer.index == 0:
            committed = [i for i, one in enumerate(ids) if self.before and self.before[i] == self.mask != one]
            self.tested = sorted(set(self.tops.values()))
            self.asked = {*masks, *committed, *self.tested}
            self.tops, self.before = {}, ids
        query, key, value = (part[0].double().numpy() for part in (layer.query, layer.key, layer.value))
        old = self.keys.get(layer.index)
        whole = step == 0 or step in self.fired
        if not whole:
            for at in set(range(len(ids))) - self.asked:
                key[:, at], value[:, at] = old[:, at], self.values[layer.index][:, at]
            layer.key[0], layer.value[0] = torch.from_numpy(key).float(), torch.from_numpy(value).float()
            then, now = self.rows(layer, self.queries[layer.index], old), self.rows(layer, query, key)
            pairs = [(then[:, at].ravel(), now[:, at].ravel()) for at in self.tested]
            cosines = [float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)) for a, b in pairs]
            self.cosines.append(float(np.mean(cosines)))
            if self.cosines[-1] < self.threshold:
                self.fired[step] = layer.index
        self.keys[layer.index], self.values[layer.index] = key.copy(), value.copy()
        self.queries[layer.index] = query.copy()
        received = self.rows(layer, query, key)[:, masks].sum((0, 1))
        known = [i for i, one in enumerate(ids) if one != self.mask]
        self.tops[layer.index] = max(known, key=lambda at: received[at])


@pytest.mark.parametrize("window", [2, 16])
def test_the_elastic_rule_is_equal_to_plain_loops(window: int, tiny_model: Any) -> None:
    """The threshold is the median of the cosines that are seen without any refresh, so that some are below it."""
    model = tiny_model("llada")
    steps = unmasked(model.mask_id)
    never = PlainElastic(0.0, window, model.mask_id)
    passes(model, never, steps)
    threshold = float(np.median(never.cosines))
    plain = PlainElastic(threshold, window, model.mask_id)
    wanted = passes(model, plain, steps)
    edit = Stale(rule="elastic", threshold=threshold, window=window)
    found = passes(model, edit, steps)
    assert plain.fired
    assert min(plain.fired.values()) < LAYERS - 1
    for one, other in zip(found, wanted, strict=True):
        assert torch.allclose(one, other, atol=1e-4)
    refreshed = sum(LAYERS - 1 - layer for layer in plain.fired.values())
    assert edit.numbers()["refreshed"] == pytest.approx(refreshed / (LAYERS * (len(steps) - 1)))


def place(step: int, samples: int, run: DecodingRun) -> PassPosition:
    """A pass over four tokens and two masks."""
    real = np.ones((samples, 6), dtype=bool)
    return PassPosition(run, step, np.zeros(6, dtype=np.int64), np.zeros((samples, 6), dtype=np.int64), real, False)


def layer_of(index: int, towards: list[int], position: PassPosition) -> Any:
    """A layer of one head, all of whose rows attend to one key: `towards[sample]`."""
    tokens = 6
    key = torch.eye(tokens).expand(len(towards), 1, tokens, tokens).clone()
    query = torch.stack([50 * torch.eye(tokens)[[at] * tokens][None] for at in towards])
    is_mask = np.tile(np.arange(tokens) >= 4, (len(towards), 1))
    state = SimpleNamespace(masked=is_mask, position=position)
    shape = {"index": index, "query": query, "key": key, "mask": BlockMask(tokens, tokens), "scaling": 1.0}
    return SimpleNamespace(**shape, softcap=None, state=state)


def walk(rule: Elastic, attention: list[list[list[int]]], layers: int) -> list[list[list[bool]]]:
    """`attention[step][layer][sample]` is the key that all rows attend to; gives which layers are computed as a whole,
    by step and layer, for each sample."""
    run = DecodingRun(tuple(range(len(attention[0][0]))))
    rule.start()
    found, keys = [], {}
    for step, by_layer in enumerate(attention):
        whole, position = [], place(step, len(by_layer[0]), run)
        for index in range(layers):
            layer = layer_of(index, by_layer[index], position)
            fresh = rule.fresh(layer, layer.state.position.real, due=index not in keys)
            rule.watch(layer, keys.get(index))
            keys[index] = layer.key
            whole.append(fresh.all(1).tolist())
        found.append(whole)
    return found


def test_layers_below_the_first_drift_are_computed_by_hand() -> None:
    """Sample 0 attends to key 1 throughout; sample 1 turns to key 2 in layer 1 of step 1, and stays."""
    stay, turn = [[1, 1]] * 4, [[1, 1], [1, 2], [1, 1], [1, 1]]
    found = walk(Elastic(0.9, 16, (0, 1, 2, 3)), [stay, turn, turn], 4)
    assert found[0] == [[True, True]] * 4
    assert found[1] == [[False, False], [False, False], [False, True], [False, True]]
    assert found[2] == [[False, False]] * 4


def test_masks_of_the_window_committed_and_tested_tokens_are_always_computed() -> None:
    rule = Elastic(0.5, 1, (0, 1))
    run = DecodingRun((0,))
    rule.start()
    for position in (place(0, 1, run), place(1, 1, run)):
        for index in (0, 1):
            layer = layer_of(index, [3], position)
            fresh = rule.fresh(layer, layer.state.position.real, due=False)
            rule.watch(layer, layer.key)
    assert fresh[0].tolist() == [False, False, False, True, True, False]  # token 3 is under test, the first mask at 4
    assert rule.needed(layer.state.masked)[0].tolist() == [False, False, False, False, True, False]


def test_the_control_refreshes_as_often_in_other_places() -> None:
    """Every step turns in layer 0, so the rule refreshes layers 1, 2, 3 each time; the control repays its debt."""
    attention = [[[1 + step % 2]] + [[1]] * 3 for step in range(40)]
    own = walk(Elastic(0.9, 16, (0, 1, 2, 3)), attention, 4)
    assert all([layer[0] for layer in step] == [False, True, True, True] for step in own[1:])
    control = ElasticRandom(0.9, 16, (0, 1, 2, 3), seed=3)
    drawn = walk(control, attention, 4)
    made = sum(layer[0] for step in drawn[1:] for layer in step)
    left = control.numbers()["unmatched"] * 3 * 39
    assert made + left == pytest.approx(3 * 39)
    assert left <= 12
    assert any(step[0][0] for step in drawn[1:])
    assert drawn == walk(ElasticRandom(0.9, 16, (0, 1, 2, 3), seed=3), attention, 4)
    assert drawn != walk(ElasticRandom(0.9, 16, (0, 1, 2, 3), seed=4), attention, 4)


def test_a_padded_batch_is_as_alone(tiny_model: Any) -> None:
    model, prompts = tiny_model("llada"), [[5, 9, 12, 33, 21, 8, 30], [17, 6, 40]]
    for edit in (Stale(rule="elastic", threshold=0.99), Stale(rule="elastic", threshold=0.99).control(1)):
        with fl.edit(model, edit):
            both = fl.decode(model, prompts, gen_length=6, steps=6).answers()
        saved = edit.saved_shares()
        for ids, answer, share in zip(prompts, both, saved, strict=True):
            with fl.edit(model, edit):
                assert fl.decode(model, [ids], gen_length=6, steps=6).answers() == [answer]
            assert edit.saved_shares() == pytest.approx([share])


# -- savings, schedules, words -----------------------------------------------------------------------------------------


def test_savings_by_hand() -> None:
    """Four layers; a row costs 3, key and value 1. Tokens: all fresh, all stale, fresh in layer 1 alone, and the same
    for a mask whose output is read."""
    fresh = np.array([[1, 0, 0, 0], [1, 0, 1, 1], [1, 0, 0, 0], [1, 0, 0, 0]], dtype=bool)
    needed = np.array([False, False, False, True])
    found = saved_shares(fresh, 3.0, 1.0, needed)
    assert found.tolist() == pytest.approx([0, 1, 1 - (3 + 1) / 16, 1 - (12 + 1) / 16])


def test_schedules_are_written_and_read() -> None:
    assert intervals_of("0-1/8+2/2") == {0: 8, 1: 8, 2: 2}
    assert written({2: 2, 0: 8, 1: 8, 4: 2}) == "0-1/8+2/2+4/2"
    assert intervals_of(written({0: 4})) == {0: 4}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stale:schedule=0-3", 'schedule wants LAYERS/STEPS, several with +, such as 0-3/8+4-7/2, got "0-3"'),
        ("stale:schedule=3-1/2", "wants LAYERS/STEPS"),
        ("stale:schedule=0/0", "wants LAYERS/STEPS"),
        ("stale:schedule=0-2/2+1/4", 'names layer 1 twice, got "0-2/2+1/4"'),
        ("stale:schedule=0/2:refresh=2", "refresh and schedule all say when keys are computed again; give one"),
        ("stale:rule=elastik", 'did you mean "elastic"?'),
        ("stale:threshold=0.5", "this is a setting of rule=elastic"),
        ("stale:rule=elastic:threshold=0", "give a cosine above 0, at most 1"),
        ("stale:rule=elastic:window=0", "a number of masks, a whole number from 1"),
        ("stale:least=1.5", "give a cosine above 0, at most 1"),
    ],
)
def test_mistakes_are_named(text: str, message: str) -> None:
    with pytest.raises(FloatlensError) as caught:
        parse_edit(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_by_name() -> None:
    for text, label in (
        ("stale", "stale refresh=2"),
        ("stale:rule=elastic", "stale rule=elastic"),
        ("stale:schedule=0-1/8+2/2", "stale schedule=0-1/8+2/2"),
        ("stale:least=0.99:tokens=prompt", "stale least=0.99 tokens=prompt"),
    ):
        (spec,) = parse_edit(text)
        assert spec.label == label
        assert parse_edit(":".join(label.split())) == [spec]
    elastic = parse_edit("stale:rule=elastic")[0].build()
    assert isinstance(elastic, Stale)
    assert (elastic.threshold, elastic.window, elastic.tokens, elastic.active) == (0.9, 16, "all", True)
    assert not Stale(schedule={0: 1, 5: 1}).active
    assert [spec.waits_for_traces for spec in parse_edit("stale:least=0.9") + parse_edit("stale")] == [True, False]


def test_layers_and_traces_that_are_missing(tiny_model: Any) -> None:
    model = tiny_model("llada")
    with pytest.raises(FloatlensError, match="layer 7 is outside"), fl.edit(model, Stale(schedule={7: 2})):
        pass
    with pytest.raises(FloatlensError, match="no traces say how the keys of"), fl.edit(model, Stale(least=0.9)):
        pass


def test_the_control_of_a_schedule_has_the_same_intervals_in_random_layers(tiny_model: Any) -> None:
    model, seen = tiny_model("llada"), set()
    for seed in range(8):
        control = Stale(schedule={0: 8, 1: 2}).control(seed)
        with fl.edit(model, control):
            assert sorted(control.intervals.values()) == [2, 8]
            seen.add(tuple(sorted(control.intervals.items())))
    assert len(seen) > 2
