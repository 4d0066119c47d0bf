"""The short way of an edit against the long one: the same weights, entropies, column sums, outputs and reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from floatlens import Edit, Select
from floatlens.attention.edit import Site
from floatlens.attention.probe import Layer
from floatlens.attention.softmax import Workspace
from floatlens.decoding import decode_steps
from floatlens.edits import AblateHeads, DropAnchors, DropMass, FreezeLayers, PinAnchors, SinkToken, SwapAnchors
from floatlens.edits.rules import indices, largest
from floatlens.probes import Matrix
from shared.capture import capture

pytestmark = pytest.mark.slow

PROMPTS = [[5, 9, 12, 33, 21, 8, 30, 14, 26, 9], [17, 6, 40, 11, 19, 6, 29]]
HEADS = [(0, 1), (1, 0), (1, 3)]


class Watch(Edit):
    """Changes nothing, but asks for all weights: edits beside it take the long way."""

    edits_weights = True

    def weights(self, site: Site, weights: Tensor) -> Tensor | None:
        return None


def structural(ids: list[int]) -> list[bool]:
    return [i % 3 == 0 for i in ids]


MAKERS: dict[str, Callable[[], list[Any]]] = {
    "pin": lambda: [PinAnchors(k=2)],
    "pin bos": lambda: [PinAnchors("bos", k=1)],
    "pin zscore": lambda: [PinAnchors("bos", rule="zscore(1)", strength=0.7)],
    "pin answer": lambda: [PinAnchors(k=2, rows="answer")],
    "pin last bos": lambda: [PinAnchors("bos", k=1, rows="last", strength=0.7)],
    "swap": lambda: [SwapAnchors(k=1, seed=1)],
    "swap answer": lambda: [SwapAnchors(k=1, seed=1, rows="answer")],
    "zero": lambda: [AblateHeads(HEADS)],
    "half": lambda: [AblateHeads(HEADS, strength=0.5)],
    "mean": lambda: [AblateHeads(HEADS, mode="mean")],
    "uniform": lambda: [AblateHeads(HEADS, mode="uniform", select=Select(steps=[1]))],
    "freeze": lambda: [FreezeLayers([0, 2], structural)],
    "drop and pin": lambda: [DropAnchors(k=2), PinAnchors("bos", k=1)],
    "pin and drop mass": lambda: [PinAnchors("bos", k=1), DropMass(k=1, seed=1)],
    "drop answer and pin": lambda: [DropAnchors(k=2, rows="answer"), PinAnchors("bos", k=1)],
    "pin and zero": lambda: [PinAnchors("bos", k=1), AblateHeads(HEADS), AblateHeads(HEADS, mode="uniform")],
    "sink and pin": lambda: [PinAnchors("bos", k=1), SinkToken(logit=1.0)],
}


def run(model: Any, edits: list[Edit], workspace: Workspace, **how: Any) -> tuple[Any, dict[str, np.ndarray], Matrix]:
    probe = Matrix()
    settings = {"gen_length": 3} | ({"steps": 3} if model.kind == "mdm" else {}) | how
    with capture(model, [probe, "received", "entropy"], edits=edits, steps=8, length=16, workspace=workspace) as found:
        steps = list(decode_steps(model, PROMPTS, **settings))
    return steps, {name: found.variables[name].stack() for name in ("received", "entropy")}, probe


@pytest.mark.parametrize("name", ["llada", "llama", "mistral"])
@pytest.mark.parametrize("kind", MAKERS)
def test_both_ways_are_one(kind: str, name: str, tiny_model: Any, blocks: Any) -> None:
    """Alone; beside an edit that needs all weights; with nothing kept; in other blocks; without a cache."""
    model = tiny_model(name)
    alone = MAKERS[kind]()
    _, plain, matrix = run(model, alone, blocks(4, 1, "torch"))
    report = [(c.step, c.layer, c.rows, pytest.approx(c.mass, abs=1e-3)) for e in alone for c in e.report()]
    nothing_kept = blocks(8, 4, "torch")
    nothing_kept.keep_bytes = 0
    other: list[tuple[list[Edit], Workspace, dict[str, Any]]] = [
        ([*MAKERS[kind](), Watch()], blocks(4, 1, "torch"), {}),
        (MAKERS[kind](), nothing_kept, {}),
        (MAKERS[kind](), blocks(64, 64, "torch"), {"use_cache": False} if model.kind == "arm" else {}),
    ]
    for edits, workspace, how in other:
        _, found, pictures = run(model, edits, workspace, **how)
        for variable, values in plain.items():
            real = values if variable == "received" or not how else values[:1]
            assert np.nanmax(np.abs(found[variable][: len(real)] - real)) <= 1e-4, (variable, how)
        for at, picture in matrix.taken.items():
            assert np.nanmax(np.abs(pictures.taken[at] - picture)) <= 1e-4, (at, how)
        again = [(c.step, c.layer, c.rows, c.mass) for e in edits if not isinstance(e, Watch) for c in e.report()]
        assert again == report


@pytest.mark.parametrize("kind", [kind for kind in MAKERS if kind != "sink and pin"])
def test_statistics_are_those_of_the_weights(kind: str, tiny_model: Any, blocks: Any, kernel: str) -> None:
    """Entropy and received from the matrix that a probe saw, by plain sums."""
    model = tiny_model("llada")
    _, found, matrix = run(model, MAKERS[kind](), blocks(4, 2, kernel))
    for (step, layer), picture in matrix.taken.items():
        weights = np.nan_to_num(picture).astype(np.float64)
        for sample, prompt in enumerate(PROMPTS):
            real = slice(len(PROMPTS[0]) - len(prompt), len(PROMPTS[0]) + 3)
            rows = weights[sample][:, real]
            entropy = -np.where(rows > 0, rows * np.log(np.maximum(rows, 1e-300)), 0.0).sum(-1)
            assert np.abs(found["entropy"][step, sample, layer][:, real] - entropy).max() <= 1e-4
            received = np.nan_to_num(found["received"][step, sample, layer])
            assert np.abs(received[:, : rows.shape[-1]] - rows.mean(1)).max() <= 1e-5


def test_a_pin_looks_at_each_layer_once(tiny_model: Any, blocks: Any) -> None:
    """No lookahead in a diffusion pass, or in one with a cache; of a prompt only the last rows are tried."""

    class Looks(Edit):
        edits_logits = True

        def __init__(self) -> None:
            self.seen: list[tuple[int, int, bool, slice]] = []

        def logits(self, site: Site, logits: Tensor) -> Tensor | None:
            self.seen.append((site.step, site.layer.index, site.lookahead, site.queries))
            return None

    for name in ("llada", "llama"):
        looks = Looks()
        run(tiny_model(name), [looks, PinAnchors("bos")], blocks(64, 64, "torch"))
        tried = [(step, queries) for step, _, lookahead, queries in looks.seen if lookahead]
        assert tried == ([] if name == "llada" else [(0, slice(9, 10))] * 3)


def test_the_largest_with_ties() -> None:
    """Against a plain sort, with as many for each row as it wants, more than there are included."""
    random = np.random.default_rng(1)
    values = np.round(random.random((40, 9)), 1)
    values[::5] = -np.inf
    counts = random.integers(0, 11, 40)
    found = largest(torch.from_numpy(values), torch.from_numpy(counts)).numpy()
    for row, count, chosen in zip(values, counts, found, strict=True):
        best = sorted(range(9), key=lambda j: (-row[j], j))[:count]
        assert np.flatnonzero(chosen).tolist() == sorted(best)


def test_indices_are_filled_up() -> None:
    keys = torch.tensor([[[True, False, True, False], [False, False, False, True]]])
    at, chosen = indices(keys)
    assert at.shape == chosen.shape == (1, 2, 2)
    assert sorted(at[0, 0].tolist()) == [0, 2]
    assert at[0, 1][chosen[0, 1] > 0].tolist() == [3]
    assert len(set(at[0, 1].tolist())) == 2
    assert indices(torch.zeros(1, 2, 4, dtype=torch.bool))[0].shape == (1, 2, 0)


def test_layers_tell_which_way(tiny_model: Any) -> None:
    """Chosen heads of a pin and mixed rows take the long way."""
    answers: dict[str, bool] = {}

    class Ask(Edit):
        def begin_layer(self, layer: Layer) -> None:
            for name, edit in {
                "pin": PinAnchors(),
                "heads": PinAnchors(select=Select(heads=0)),
                "zero": AblateHeads(HEADS, strength=0.5),
                "mixed": AblateHeads(HEADS, mode="uniform", strength=0.5),
            }.items():
                answers[name] = edit.has_fast_path(layer)

    with capture(tiny_model("llada"), [], edits=[Ask()]):
        tiny_model("llada").forward(torch.tensor([[5, 9, 12]]))
    assert answers == {"pin": True, "heads": False, "zero": True, "mixed": False}
