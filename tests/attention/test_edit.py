"""Edits: what is changed is changed exactly, what is not selected stays as it was to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from floatlens import trace
from floatlens.attention.edit import Edit, Site
from floatlens.attention.probe import Layer
from floatlens.attention.select import Select
from floatlens.attention.softmax import Workspace
from floatlens.models.base import LanguageModel
from floatlens.probes import Matrix
from shared.capture import capture

LENGTH = 9


class Drop(Edit):
    """−∞ on some keys, written into the logits or returned anew."""

    edits_logits = True

    def __init__(self, keys: list[int], select: Select | None = None, in_place: bool = True) -> None:
        self.keys, self.select, self.in_place = keys, select or Select(), in_place

    def logits(self, site: Site, logits: Tensor) -> Tensor | None:
        keys = [key for key in self.keys if key < logits.shape[-1]]
        if self.in_place:
            logits[..., keys] = float("-inf")
            return logits
        return logits.index_fill(-1, torch.tensor(keys, dtype=torch.long), float("-inf"))


class Uniform(Edit):
    """Every row spread evenly over the first `over` keys."""

    edits_weights = True

    def __init__(self, over: int, select: Select | None = None) -> None:
        self.over, self.select = over, select or Select()

    def weights(self, site: Site, weights: Tensor) -> Tensor | None:
        new = torch.zeros_like(weights)
        new[..., : self.over] = 1 / min(self.over, weights.shape[-1])
        return new


class Watch(Edit):
    """Changes nothing, and notes what it was shown."""

    def __init__(self, what: str, select: Select | None = None) -> None:
        self.edits_logits, self.edits_weights = what == "logits", what == "weights"
        self.select = select or Select()
        self.seen: list[tuple[Site, Tensor]] = []
        self.events: list[str] = []

    def begin_layer(self, layer: Layer) -> None:
        self.events.append(f"begin {layer.state.step}.{layer.index}")

    def end_layer(self, layer: Layer) -> None:
        self.events.append(f"end {layer.state.step}.{layer.index}")

    def logits(self, site: Site, logits: Tensor) -> Tensor | None:
        self.seen.append((site, logits.clone()))
        logits.fill_(7)  # scribbling on the copy and returning None must do nothing
        return None

    weights = logits


class Scale(Edit):
    edits_weights = True

    def __init__(self, factor: float, select: Select | None = None) -> None:
        self.factor, self.select = factor, select or Select()

    def weights(self, site: Site, weights: Tensor) -> Tensor | None:
        return weights * self.factor


Run = Callable[..., tuple[Tensor, list[np.ndarray]]]


@pytest.fixture
def run(
    tiny_model: Callable[[str], LanguageModel], draw: Callable[..., Tensor], blocks: Callable[..., Workspace]
) -> Run:
    """Logits and all weights of one pass under edits; blocks of 4 rows of one key/value head."""

    def go(name: str, *edits: Edit, passes: int = 1, mask: Tensor | None = None) -> tuple[Tensor, list[np.ndarray]]:
        model, probe = tiny_model(name), Matrix()
        workspace = blocks(4, 1)
        with capture(model, [probe, "entropy"], edits=edits, steps=passes, length=LENGTH, workspace=workspace):
            for _ in range(passes):
                logits = model.forward(draw(2, LENGTH), mask)
        return logits, [np.nan_to_num(probe.taken[passes - 1, layer]) for layer in range(model.num_layers)]

    return go


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("name", ["llada", "llama", "mistral", "bert"])
def test_minus_infinity_takes_a_key_away(name: str, in_place: bool, run: Run) -> None:
    """Weight exactly 0, the others as they were relative to each other, rows again sum to one."""
    _, plain = run(name)
    _, edited = run(name, Drop([2, 3], Select(layers=0), in_place))
    others = [k for k in range(LENGTH) if k not in (2, 3)]
    assert (edited[0][..., [2, 3]] == 0).all()
    left = plain[0][..., others]
    total = left.sum(-1, keepdims=True)
    rows = total[..., 0] > 0  # a Mistral row whose whole window was taken away sees nothing any more
    expected = np.divide(left, total, where=total > 0, out=np.zeros_like(left))
    assert np.abs(edited[0][..., others] - expected).max() <= 1e-5
    assert np.abs(edited[0].sum(-1)[rows] - 1).max() <= 1e-5
    assert np.abs(plain[1] - edited[1]).max() > 1e-4  # and the next layer feels it


def test_a_row_with_every_key_taken_away_is_zero(run: Run, tiny_model: Callable[[str], LanguageModel]) -> None:
    logits, weights = run("llada", Drop(list(range(LENGTH))))
    assert all((w == 0).all() for w in weights)
    assert logits.isfinite().all()


def test_dropped_keys_do_not_reach_the_output(
    run: Run, tiny_model: Callable[[str], LanguageModel], draw: Callable[..., Tensor]
) -> None:
    """Taking key 8 from everyone at every layer is what an attention mask does: all other rows must agree with it."""
    model = tiny_model("llada")
    mask = torch.ones(2, LENGTH, dtype=torch.bool)
    mask[:, 8] = False
    edited, _ = run("llada", Drop([8]))
    masked = model.forward(draw(2, LENGTH), mask)
    assert (edited - masked)[:, :8].abs().max() <= 5e-5
    assert (edited - model.forward(draw(2, LENGTH)))[:, :8].abs().max() > 1e-3


@pytest.mark.parametrize("name", ["dream", "llama"])
def test_weights_are_replaced(name: str, run: Run) -> None:
    logits, weights = run(name, Uniform(3, Select(layers=[1])))
    plain_logits, plain = run(name)
    rows = np.arange(LENGTH) >= (2 if name == "llama" else 0)  # earlier causal rows: block keys may be fewer than 3
    expected = np.zeros((LENGTH, LENGTH))
    expected[:, :3] = 1 / 3
    if name == "llama":
        expected = np.tril(expected)
    assert np.abs(weights[1] - expected)[..., rows, :].max() <= 1e-6
    assert np.array_equal(weights[0], plain[0])
    assert (logits - plain_logits).abs().max() > 1e-3


def test_entropy_and_received_are_of_the_edited_weights(
    tiny_model: Callable[[str], LanguageModel], draw: Callable[..., Tensor]
) -> None:
    with capture(tiny_model("llada"), ["received", "entropy"], edits=[Uniform(4)]) as recorder:
        tiny_model("llada").forward(draw(1, LENGTH))
    found = {name: store.stack()[0, 0] for name, store in recorder.variables.items()}
    assert np.abs(found["entropy"] - np.log(4)).max() <= 1e-5
    assert (found["received"][..., 4:] == 0).all()
    assert np.abs(found["received"][..., :4] - 0.25).max() <= 1e-6


def test_rows_need_not_sum_to_one(run: Run) -> None:
    """An ablated head adds nothing: zeroing all weights is zeroing the heads' output."""
    logits, weights = run("llada", Scale(0.0, Select(layers=1)))
    assert (weights[1] == 0).all()
    assert logits.isfinite().all()
    _, halved = run("llada", Scale(0.5, Select(layers=1)))
    _, plain = run("llada")
    assert np.abs(halved[1] - plain[1] / 2).max() <= 1e-6


@pytest.mark.parametrize("edit", [Drop, Uniform])
@pytest.mark.parametrize("name", ["dream", "llama"])
def test_layers_and_steps_that_are_not_selected_stay_bit_for_bit(name: str, edit: Any, run: Run) -> None:
    what: Any = [1] if edit is Drop else 2
    plain_logits, plain = run(name, passes=3)
    _, at_2 = run(name, edit(what, Select(layers=2)), passes=3)
    assert np.array_equal(at_2[0], plain[0])
    assert np.array_equal(at_2[1], plain[1])
    assert not np.array_equal(at_2[2], plain[2])
    for steps, touched in ((0, False), ([0, 1], False), (slice(0, 2), False), (-1, True), ([2], True)):
        logits, weights = run(name, edit(what, Select(steps=steps)), passes=3)
        assert torch.equal(logits, plain_logits) != touched
        assert np.array_equal(weights[0], plain[0]) != touched


@pytest.mark.parametrize("heads", [[1], [0, 3], slice(2, 4), -1, []], ids=str)
@pytest.mark.parametrize("name", ["dream", "llama"])
def test_heads_that_are_not_selected_stay_bit_for_bit(name: str, heads: Any, run: Run) -> None:
    chosen = Select(heads=heads).head_ids(4)
    others = [h for h in range(4) if h not in chosen]
    _, plain = run(name)
    _, edited = run(name, Drop([1], Select(layers=0, heads=heads)))
    assert np.array_equal(edited[0][:, others], plain[0][:, others])
    assert (edited[0][:, list(chosen)][..., 1] == 0).all()
    assert not chosen or not np.array_equal(edited[0][:, list(chosen)], plain[0][:, list(chosen)])
    # weights are normalised before they are shown to an edit, which rounds them once more: equal to a last bit or two
    _, edited = run(name, Uniform(2, Select(layers=0, heads=heads)))
    assert np.abs(edited[0][:, others] - plain[0][:, others]).max(initial=0) <= 1e-7
    assert np.abs(edited[0][:, list(chosen)][..., 2:, :2] - 0.5).max(initial=0) <= 1e-6


@pytest.mark.parametrize("name", ["dream", "llama", "mistral", "albert"])
@pytest.mark.parametrize("side", [None, "left"])
def test_returning_none_changes_nothing(name: str, side: str | None, run: Run, padded: Callable[..., Tensor]) -> None:
    mask = None if side is None else padded(LENGTH, [0, 2], side)
    plain_logits, plain = run(name, mask=mask)
    watch = Watch("logits")
    logits, weights = run(name, watch, mask=mask)
    assert torch.equal(logits, plain_logits)
    assert all(np.array_equal(a, b) for a, b in zip(weights, plain, strict=True))
    assert watch.seen
    logits, weights = run(name, Watch("weights"), mask=mask)
    real = torch.ones(2, LENGTH, dtype=torch.bool) if mask is None else mask
    assert (logits - plain_logits)[real].abs().max() <= (3e-5 if name == "dream" else 5e-6)
    assert max(np.abs(a - b).max() for a, b in zip(weights, plain, strict=True)) <= (1e-5 if name == "dream" else 1e-6)


def test_returning_none_from_weights_changes_not_a_bit(run: Run) -> None:
    plain, _ = run("llama")
    logits, _ = run("llama", Watch("weights"))
    assert torch.equal(logits, plain)


@pytest.mark.parametrize("name", ["llada", "llama", "mistral"])
def test_what_an_edit_is_shown(
    name: str, run: Run, observe: Callable[..., Any], tiny_model: Callable[[str], LanguageModel], draw: Any
) -> None:
    """Scaled logits after masking, in natural log, and normalised weights; sites that cover every row of every head."""
    seen = observe(tiny_model(name), draw(2, LENGTH)).layers
    for what in ("logits", "weights"):
        watch = Watch(what)
        run(name, watch)
        covered = np.zeros((3, 2, 4, LENGTH), dtype=int)
        for site, values in watch.seen:
            layer, at = seen[site.layer.index], (site.batch, site.heads, site.queries)
            assert site.step == 0
            covered[site.layer.index][at] += 1
            keys = values.shape[-1]
            truth = layer.weights[at][..., :keys]
            assert (layer.weights[at][..., keys:] == 0).all()
            if what == "weights":
                assert np.abs(values.numpy() - truth).max() <= 3e-5
            else:
                again = torch.softmax(values.double(), -1).numpy()
                assert np.abs(again - truth).max() <= 3e-5
                products = (layer.query @ layer.keys.swapaxes(2, 3))[at][..., :keys] * layer.query.shape[-1] ** -0.5
                visible = np.broadcast_to(layer.visible[:, None], layer.weights.shape)[at][..., :keys]
                assert np.abs(values.numpy() - products)[visible].max() <= 1e-4
                assert (values.numpy()[~visible] < -1e4).all()
        assert (covered == 1).all()


def test_begin_and_end_frame_each_selected_layer(run: Run) -> None:
    watch = Watch("logits", Select(layers=[0, 2], steps=[1]))
    run("llada", watch, passes=3)
    assert watch.events == ["begin 1.0", "end 1.0", "begin 1.2", "end 1.2"]
    assert {site.layer.index for site, _ in watch.seen} == {0, 2}
    assert {site.step for site, _ in watch.seen} == {1}


def test_edits_apply_in_order(run: Run) -> None:
    """Uniform then halved is a half of uniform; halved then uniform is uniform."""
    _, first = run("llada", Uniform(2), Scale(0.5))
    _, second = run("llada", Scale(0.5), Uniform(2))
    assert np.abs(first[0][..., :2] - 0.25).max() <= 1e-6
    assert np.abs(second[0][..., :2] - 0.5).max() <= 1e-6
    _, both = run("llada", Drop([0]), Uniform(2, Select(heads=1)))
    assert (both[0][:, [0, 2, 3]][..., 0] == 0).all()
    assert np.abs(both[0][:, 1, :, :2] - 0.5).max() <= 1e-6


def test_an_edit_sees_the_state_of_the_decoding(tiny_model: Callable[[str], LanguageModel]) -> None:
    """Masked queries and regions are at hand while decoding, and a decoded answer changes with an edit."""
    model, masks = tiny_model("llada"), []

    class Note(Edit):
        edits_weights = True
        select = Select(layers=0)

        def weights(self, site: Site, weights: Tensor) -> Tensor | None:
            masks.append((site.step, int(site.layer.state.masked.sum())))
            return None

    trace(model, prompt_ids=[5, 6, 7], gen_length=4, steps=4, probes=[], edits=[Note()])
    assert masks == [(0, 4), (1, 3), (2, 2), (3, 1)]
    plain = trace(model, prompt_ids=[5, 6, 7], gen_length=4, steps=4, probes=[])
    other = trace(model, prompt_ids=[5, 6, 7], gen_length=4, steps=4, probes=[], edits=[Uniform(1)])
    assert plain.data["final"].values.tolist() != other.data["final"].values.tolist()


def test_edits_hold_in_cached_decoding(tiny_model: Callable[[str], LanguageModel]) -> None:
    """The same edit with and without a cache writes the same tokens and receives the same attention."""
    model = tiny_model("qwen2")
    data = [
        trace(
            model, prompt_ids=[5, 9, 12, 33], gen_length=4, probes=["received"], edits=[Drop([1])], use_cache=use
        ).data
        for use in (True, False)
    ]
    assert data[0]["final"].values.tolist() == data[1]["final"].values.tolist()
    assert (data[0]["received"].values[..., 1] == 0).all()
    assert np.allclose(data[0]["received"].values, data[1]["received"].values, atol=1e-5, equal_nan=True)
