"""Every probe against plain loops over the full matrices that an independent attention function kept (see conftest)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from floatlens.attention.probe import Layout
from floatlens.attention.recorder import Recorder
from floatlens.attention.softmax import Workspace
from floatlens.models.base import LanguageModel
from shared.capture import capture

NAMES = ("llada", "dream", "bert", "albert", "distilbert", "modernbert", "a2d-qwen3", "llada-moe")
NAMES += ("llama", "gpt2", "mistral")
SIDES = [None, "left", "right"]
LENGTH = 18
REGIONS = ("bos", "question", "doc1", "doc2", "answer", "template")
PROBES = ("received", "entropy", "flow", "qk", "extremes")


class Case:
    """One captured pass over three samples, and what the witness saw of the same pass."""

    def __init__(
        self, recorder: Recorder, layers: list[Any], ids: Tensor, real: np.ndarray, layout: Layout, model: Any
    ):
        self.layers, self.real, self.layout = layers, real, layout
        self.masked = (ids.numpy() == model.mask_id) & real if model.kind == "mdm" else np.zeros_like(real)
        self.found = {name: store.stack()[0] for name, store in recorder.variables.items()}

    def each(self) -> Any:
        """(sample, layer number, its witness)."""
        for b in range(len(self.real)):
            for number, seen in enumerate(self.layers):
                yield b, number, seen

    def rows(self, b: int, group: str = "all") -> list[int]:
        answer = self.layout.regions.index("answer")
        chosen = {
            "all": self.real[b],
            "masked": self.masked[b],
            "committed": self.real[b] & ~self.masked[b],
            "answer": self.layout.region_of[b] == answer,
        }[group]
        return [i for i in range(LENGTH) if chosen[i] and self.real[b, i]]


def layout_for(real: np.ndarray) -> Layout:
    """One BOS, then documents of uneven length between stretches of other text, the question, and the answer."""
    pattern = [0, 5, 2, 2, 2, 5, 3, 3, 5, 1, 1, 1, 4, 4, 4, 4, 4, 4]
    region_of = np.full(real.shape, -1)
    evidence = np.zeros(real.shape, dtype=bool)
    for b, row in enumerate(real):
        columns = np.flatnonzero(row)
        region_of[b, columns] = pattern[LENGTH - len(columns) :]
        evidence[b, columns[len(columns) // 2 :][:2]] = True
    return Layout(REGIONS, region_of, evidence)


@pytest.fixture
def run(
    tiny_model: Callable[[str], LanguageModel],
    observe: Callable[..., Any],
    draw: Callable[..., Tensor],
    padded: Callable[..., Tensor],
    blocks: Callable[..., Workspace],
) -> Callable[..., Case]:
    def go(name: str, side: str | None, probes: tuple[str, ...], size: tuple[int, int] = (5, 2)) -> Case:
        model = tiny_model(name)
        ids = draw(3, LENGTH, mask_id=model.mask_id, masked=5)
        mask = None if side is None else padded(LENGTH, [0, 6, 2], side)
        real = np.ones(ids.shape, dtype=bool) if mask is None else mask.numpy()
        layout = layout_for(real)
        with capture(model, probes, layout=layout, steps=1, length=LENGTH, workspace=blocks(*size)) as recorder:
            model.forward(ids, mask)
        return Case(recorder, observe(model, ids, mask).layers, ids, real, layout, model)

    return go


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name", NAMES)
def test_received_by_every_group(name: str, side: str | None, run: Callable[..., Case]) -> None:
    case = run(name, side, ("received",))
    groups = {"received": "all", **{f"received_{g}": g for g in ("masked", "committed", "answer")}}
    assert set(case.found) == set(groups)
    empty = 0
    for variable, group in groups.items():
        got = case.found[variable]
        assert got.shape == (3, 3, 4, LENGTH)
        for b, number, seen in case.each():
            rows = case.rows(b, group)
            if not rows:
                assert np.isnan(got[b, number]).all()
                empty += 1
                continue
            for h in range(4):
                expected = [sum(seen.weights[b, h, i, j] for i in rows) / len(rows) for j in range(LENGTH)]
                assert got[b, number, h].tolist() == pytest.approx(expected, abs=1e-5)
                assert got[b, number, h].sum() == pytest.approx(1, abs=1e-5)
                assert (got[b, number, h, ~case.real[b]] == 0).all()
    assert (empty > 0) == (name in ("llama", "gpt2", "mistral"))


@pytest.mark.parametrize("size", [(1, 1), (3, 1), (4, 3), (1000, 1000)], ids=str)
@pytest.mark.parametrize("name", ["dream", "llama"])
def test_block_shapes_do_not_matter(name: str, size: tuple[int, int], run: Callable[..., Case]) -> None:
    one, other = run(name, "left", PROBES, (18, 2)), run(name, "left", PROBES, size)
    for variable, values in one.found.items():
        real = ~np.isnan(values)
        assert (real == ~np.isnan(other.found[variable])).all()
        scale = max(1.0, float(np.abs(values[real]).max(initial=0)))
        assert np.abs(values - other.found[variable])[real].max(initial=0) <= 2e-5 * scale, variable


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name", NAMES)
def test_entropy_of_every_row(name: str, side: str | None, run: Callable[..., Case]) -> None:
    case = run(name, side, ("entropy",))
    got = case.found["entropy"]
    assert got.shape == (3, 3, 4, LENGTH)
    for b, number, seen in case.each():
        for h in range(4):
            for i in case.rows(b):
                expected = -sum(p * math.log(p) for p in seen.weights[b, h, i].tolist() if p > 0)
                assert got[b, number, h, i] == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name", NAMES)
def test_flow_between_regions(name: str, side: str | None, run: Callable[..., Case]) -> None:
    case = run(name, side, ("flow",))
    flow, asked = case.found["flow"], case.found["question_flow"]
    assert flow.shape == (3, 3, len(REGIONS), len(REGIONS))
    assert asked.shape == (3, 3, 4, len(REGIONS))
    for b, number, seen in case.each():
        where = case.layout.region_of[b]
        for r in range(len(REGIONS)):
            rows = [i for i in case.rows(b) if where[i] == r]
            if not rows:
                assert np.isnan(flow[b, number, r]).all()
                continue
            per_head = np.zeros((4, len(REGIONS)))
            for h in range(4):
                for i in rows:
                    for j in range(LENGTH):
                        if case.real[b, j]:
                            per_head[h, where[j]] += seen.weights[b, h, i, j] / len(rows)
            assert flow[b, number, r].tolist() == pytest.approx(per_head.mean(0).tolist(), abs=1e-5)
            assert flow[b, number, r].sum() == pytest.approx(1, abs=1e-5)
            if REGIONS[r] == "question":
                assert np.abs(asked[b, number] - per_head).max() <= 1e-5


def test_a_region_without_queries_is_unknown_not_zero(run: Callable[..., Case]) -> None:
    """The left-padded second sample lost its BOS and first document."""
    case = run("llada", "left", ("flow",))
    lost = [r for r in range(len(REGIONS)) if not (case.layout.region_of[1] == r).any()]
    assert lost
    assert np.isnan(case.found["flow"][1][:, lost]).all()
    assert (case.found["flow"][1][:, :, lost][:, [4]] == 0).all()  # and nothing flows to it


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name", NAMES)
def test_qk_column_means(name: str, side: str | None, run: Callable[..., Case]) -> None:
    """Means of q·k, cos and |q||k| over the real queries that see a key; a key that nobody sees has none."""
    case = run(name, side, ("qk",))
    for b, number, seen in case.each():
        keys = seen.keys
        assert np.abs(case.found["key_norm"][b, number] - np.linalg.norm(seen.key[b], axis=-1)).max() <= 1e-4
        assert np.abs(case.found["query_norm"][b, number] - np.linalg.norm(seen.query[b], axis=-1)).max() <= 1e-4
        for h in range(4):
            for j in range(LENGTH):
                rows = [i for i in case.rows(b) if seen.visible[b, i, j]]
                got = [case.found[f"qk_{what}"][b, number, h, j] for what in ("dot", "cos", "norm")]
                if not rows:
                    assert np.isnan(got).all(), (b, h, j, got)
                    continue
                dots = seen.query[b, h, rows] @ keys[b, h, j]
                norms = np.linalg.norm(seen.query[b, h, rows], axis=-1) * np.linalg.norm(keys[b, h, j])
                cosines = dots / norms
                size = max(norms)
                assert got[0] == pytest.approx(np.mean(dots), abs=1e-5 * size)
                assert got[1] == pytest.approx(np.mean(cosines), abs=1e-5)
                assert got[2] == pytest.approx(np.mean(norms), abs=1e-5 * size)


def test_the_mean_of_products_is_not_the_product_of_head_means(run: Callable[..., Case]) -> None:
    """The published script averages queries and keys over heads first; that this differs keeps the test honest."""
    case = run("dream", None, ("qk",))
    seen = case.layers[0]
    published = seen.query[0].mean(0) @ seen.keys[0].mean(0).T
    ours = case.found["qk_dot"][0, 0].mean(0)
    assert np.abs(ours - published.mean(0)).max() > 0.1


@pytest.mark.parametrize("side", SIDES)
def test_extremes(
    any_name: str,
    side: str | None,
    run: Callable[..., Case],
    tiny_model: Callable[[str], LanguageModel],
    draw: Callable[..., Tensor],
    padded: Callable[..., Tensor],
) -> None:
    """|v| by the witness, |x| from transformers' own `output_hidden_states`: entry l is what enters layer l."""
    case = run(any_name, side, ("extremes",))
    model = tiny_model(any_name)
    ids = draw(3, LENGTH, mask_id=model.mask_id, masked=5)
    mask = None if side is None else padded(LENGTH, [0, 6, 2], side)
    hidden = hidden_states(model, ids, mask)
    for b, number, seen in case.each():
        value = case.found["value_norm"][b, number]
        assert value.shape == (model.num_kv_heads, LENGTH)
        real = case.real[b]
        assert np.abs(value - np.linalg.norm(seen.value[b], axis=-1))[:, real].max() <= 2e-4
        entering = torch.linalg.vector_norm(hidden[number][b].double(), dim=-1).numpy()
        assert case.found["residual_norm"][b, number][real].tolist() == pytest.approx(entering[real].tolist(), rel=2e-5)


def hidden_states(model: LanguageModel, ids: Tensor, mask: Tensor | None) -> list[Tensor]:
    kept: list[Tensor] = []
    before = type(model.module).forward

    def spy(self: Any, *args: Any, **kwargs: Any) -> Any:
        out = before(self, *args, **kwargs, output_hidden_states=True)
        kept.extend(out.hidden_states)
        return out

    model.module.forward = spy.__get__(model.module)
    try:
        model.forward(ids, mask, observed=False)
    finally:
        del model.module.forward
    assert len(kept) == model.num_layers + 1
    return kept


def test_a_token_outside_every_region_counts_nowhere(
    tiny_model: Callable[[str], LanguageModel], observe: Callable[..., Any], draw: Callable[..., Tensor]
) -> None:
    """-1 in a layout marks padding; a caller who also marks real tokens so takes their queries out of all means."""
    model, ids = tiny_model("llada"), draw(1, 8)
    region_of = np.array([[-1, 0, 0, 0, 1, 1, 1, 1]])
    with capture(model, ["received", "flow"], layout=Layout(("question", "answer"), region_of)) as recorder:
        model.forward(ids)
    weights = observe(model, ids).layers[0].weights[0]
    received = recorder.variables["received"].stack()[0, 0, 0]
    assert np.abs(received - weights[:, 1:].mean(1)).max() <= 1e-5


def test_default_layout_is_one_question(
    tiny_model: Callable[[str], LanguageModel], observe: Callable[..., Any], draw: Callable[..., Tensor]
) -> None:
    model, ids = tiny_model("llama"), draw(2, 9)
    with capture(model, ["received", "flow"]) as recorder:
        model.forward(ids)
    found = {name: store.stack()[0] for name, store in recorder.variables.items()}
    assert found["flow"].shape == (2, 3, 1, 1)
    assert np.abs(found["flow"] - 1).max() <= 1e-6
    assert np.isnan(found["received_answer"]).all()
    assert np.abs(found["received"][1, 2] - observe(model, ids).layers[2].weights[1].mean(1)).max() <= 1e-5
