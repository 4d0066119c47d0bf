"""Synthetic traces: from a dense attention array A[step, layer, head, query, key] to a valid `Trace`.

Every statistic is a plain loop over queries; nothing of floatlens.analysis or floatlens.attention is used, so tests
can hold analyses against it. `build` takes everything by hand, `ready` makes one of three patterns (`PATTERNS`) in a
causal version (an autoregressive model whose sequence grows) and a bidirectional one (a masked diffusion model).

    ready("moving", causal=False, sample=3)      # the same pattern with other noise for every sample
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from floatlens.probes import PROBES
from floatlens.probes.shares import DISTANCES
from floatlens.traces import SCHEMA_VERSION, Trace, schema
from floatlens.traces.store import with_labels

Array = NDArray[Any]

BOS, EOS, MASK = 1, 2, 3
PATTERNS = ("fixed", "moving", "uniform")


def spread(weights: Array, *, causal: bool, lengths: Sequence[int] | None = None) -> Array:
    """A from any non-negative weights (step, layer, head, query, key): rows sum to 1 over the keys a query sees."""
    made = np.zeros(weights.shape)
    size = weights.shape[-1]
    for step in range(len(weights)):
        length = size if lengths is None else lengths[step]
        for query in range(length):
            end = query + 1 if causal else length
            row = weights[step, :, :, query, :end]
            made[step, :, :, query, :end] = row / row.sum(axis=-1, keepdims=True)
    return made


def random_attention(
    seed: int, steps: int, layers: int, heads: int, size: int, *, causal: bool, lengths: Sequence[int] | None = None
) -> Array:
    """Rows drawn from a Dirichlet distribution, few large weights and many small ones."""
    weights = np.random.default_rng(seed).gamma(0.5, size=(steps, layers, heads, size, size)) + 1e-9
    return spread(weights, causal=causal, lengths=lengths)


def build(
    attention: Array,
    *,
    causal: bool,
    committed: Sequence[tuple[int, int]] = (),
    mask_id: int | None = None,
    shift: bool | None = None,
    final: Sequence[int] | None = None,
    texts: Sequence[str] = (),
    regions: Sequence[str] | None = None,
    gold: int | None = None,
    evidence: Sequence[int] = (),
    q: Array | None = None,
    k: Array | None = None,
    value_norm: Array | None = None,
    residual_norm: Array | None = None,
    matrices: bool = False,
    lens: bool = False,
    stepwise: bool = False,
    step_numbers: Sequence[int] | None = None,
    layer_numbers: Sequence[int] | None = None,
    heads: str = "all",
    ref: str = "synthetic",
    question: str | None = None,
    data_set: str | None = None,
) -> Trace:
    """A trace of a run with this attention.

    `committed` are (position, step) in order; before its step a position is a mask, or absent without a `mask_id`.
    `matrices` brings whole matrices of every step, layer and head: attention, and q·k where q and k are given.
    With `lens` the final token has rank 1 in the last layer when it is committed, and one more for each layer and step
    before. `stepwise` brings what the probes `smoothing` and `cacheability` write: nothing changes but masks that are
    filled. `regions` is a region name per position, `gold` the index of the gold document, `evidence` positions.
    q (step, layer, head, query, dim), k (step, layer, kv_head, key, dim), value_norm (step, layer, kv_head, key) and
    residual_norm (step, layer, key) bring the variables of their probes.
    """
    steps, layers, heads_, size, _ = attention.shape
    numbers = list(range(steps)) if step_numbers is None else list(step_numbers)
    ids = np.arange(10, 10 + size) if final is None else np.asarray(final)
    sequence = np.tile(ids, (steps, 1))
    for position, when in committed:
        for row, number in enumerate(numbers):
            if number <= when:
                sequence[row, position] = -1 if mask_id is None else mask_id
    here, masked = sequence >= 0, sequence == (-2 if mask_id is None else mask_id)
    _check(attention, here, causal)
    of = list(regions or ["question"] * size)
    names = _region_names(of)
    region_of = np.array([names.index(name) for name in of])
    answer = region_of == (names.index("answer") if "answer" in names else -1)
    data: dict[str, Array] = {
        "sequence": sequence,
        "final": ids,
        "region_of": region_of,
        "evidence": np.isin(np.arange(size), list(evidence)),
    }
    groups = {"": here, "_masked": masked, "_committed": here & ~masked, "_answer": here & answer}
    for suffix, asking in groups.items():
        data[f"received{suffix}"] = _received(attention, asking, here)
    data["entropy"] = _entropy(attention, here)
    data |= _flows(attention, here, of, names)
    shifted = (mask_id is None) if shift is None else shift
    data |= _tokens(attention, committed, numbers, ids, shifted, data["evidence"])
    if lens:
        data |= _lens(committed, layers, growing=mask_id is None)
    if stepwise:
        data |= _stepwise(sequence, layers, heads_)
    data |= _token_flows(attention, committed, numbers, shifted, of, names)
    kv_heads = heads_
    if q is not None and k is not None:
        kv_heads = k.shape[2]
        data |= _qk(q, k, here, causal)
        if matrices:
            data["qk_matrix"] = _products(q, k, here, causal)
    if value_norm is not None:
        data["value_norm"] = np.where(here[:, None, None], value_norm, np.nan)
        kv_heads = value_norm.shape[2]
    if residual_norm is not None:
        data["residual_norm"] = np.where(here[:, None], residual_norm, np.nan)
    if matrices:
        gone = ~(here[:, None, None, :, None] & here[:, None, None, None, :])
        if causal:  # as the probe writes it: what a query cannot see is not zero but undefined
            gone = gone | np.triu(np.ones((size, size), dtype=bool), 1)
        data["matrix"] = np.where(gone, np.nan, attention)
    if heads == "mean":
        for name, variable in schema().items():
            if name in data and variable.dims[:3] in (("step", "layer", "head"), ("step", "layer", "kv_head")):
                data[name] = data[name].mean(axis=2)
    layer = list(range(layers)) if layer_numbers is None else list(layer_numbers)
    coords: dict[str, Any] = {"step": numbers, "layer": layer, "key": np.arange(size)}
    if heads == "all":
        coords["head"] = np.arange(heads_)
    model = {"ref": ref, "revision": None, "family": "synthetic", "kind": "arm" if mask_id is None else "mdm"}
    model |= {"class": "None", "shift": shifted, "mask_id": mask_id, "bos_id": BOS, "eos_ids": [EOS]}
    model |= {"layers": layers, "heads": heads_, "kv_heads": kv_heads, "dtype": "float32"}
    attrs = {
        "schema_version": SCHEMA_VERSION,
        "model": model,
        "decoding": {"sampler": "none", "settings": {}, "forward_passes": steps, "answer": None},
        "prompt": {"question": question, "gold": gold, "evidence_kind": "answer" if len(evidence) else None},
        "probes": [],
        "variables": {one.name: one.declaration(name) for name, probe in PROBES.items() for one in probe.variables},
        "heads": heads,
        "causal": causal,
        "regions": names,
        "token_text": list(texts),
        "versions": {"python": "3", "floatlens": "synthetic"},
        "edits": [],
    } | ({} if data_set is None else {"data_set": data_set})
    return Trace(with_labels(xr.Dataset(_variables(data, heads), coords=coords, attrs=attrs)))


# -- statistics, by plain loops ---------------------------------------------------------------------------------------


def _check(attention: Array, here: Array, causal: bool) -> None:
    """What no model can produce is a mistake in a test."""
    assert (attention >= 0).all()
    for step, row in enumerate(here):
        assert np.allclose(attention[step][:, :, row].sum(axis=-1), 1), "rows of present queries must sum to 1"
        assert not attention[step][..., ~row].any(), "nothing can be given to a key that is not there"
    if causal:
        assert not np.triu(attention, 1).any(), "a causal model cannot look ahead"


def _region_names(of: Sequence[str]) -> list[str]:
    documents = sorted({name for name in of if name.startswith("doc")}, key=lambda name: int(name[3:]))
    return [name for name in ("bos", "question", *documents, "answer", "template") if name in of]


def _received(attention: Array, asking: Array, here: Array) -> Array:
    steps, layers, heads, size, _ = attention.shape
    made = np.full((steps, layers, heads, size), np.nan)
    for step in range(steps):
        rows = [i for i in range(size) if asking[step, i]]
        if rows:
            total = sum(attention[step, :, :, i] for i in rows) / len(rows)
            made[step] = np.where(here[step], total, np.nan)
    return made


def _entropy(attention: Array, here: Array) -> Array:
    steps, layers, heads, size, _ = attention.shape
    made = np.full((steps, layers, heads, size), np.nan)
    for step in range(steps):
        for i in np.flatnonzero(here[step]):
            row = attention[step, :, :, i]
            made[step, :, :, i] = -(row * np.log(np.where(row > 0, row, 1.0))).sum(axis=-1)
    return made


def _flows(attention: Array, here: Array, of: Sequence[str], names: Sequence[str]) -> dict[str, Array]:
    steps, layers, heads, size, _ = attention.shape
    flow = np.full((steps, layers, len(names), len(names)), np.nan)
    question = np.full((steps, layers, heads, len(names)), np.nan)
    for step in range(steps):
        for a, asker in enumerate(names):
            rows = [i for i in range(size) if of[i] == asker and here[step, i]]
            for b, asked in enumerate(names):
                keys = [j for j in range(size) if of[j] == asked]
                if not rows:
                    continue
                mass = sum(attention[step, :, :, i][..., keys].sum(axis=-1) for i in rows) / len(rows)
                flow[step, :, a, b] = mass.mean(axis=-1)
                if asker == "question":
                    question[step, :, :, b] = mass
    return {"flow": flow, "question_flow": question}


def _tokens(
    attention: Array, committed: Sequence[tuple[int, int]], numbers: list[int], ids: Array, shift: bool, evidence: Array
) -> dict[str, Array]:
    layers, heads = attention.shape[1:3]
    shape = (len(committed), layers, heads)
    argmax, peak, mass = np.zeros(shape, dtype=int), np.zeros(shape), np.full(shape, np.nan)
    rows = [position - 1 if shift else position for position, _ in committed]
    for t, (_, when) in enumerate(committed):
        row = attention[numbers.index(when), :, :, rows[t]]
        argmax[t], peak[t] = row.argmax(axis=-1), row.max(axis=-1)
        if evidence.any():
            mass[t] = row[..., evidence].sum(axis=-1)
    return {
        "token_position": np.array([position for position, _ in committed], dtype=int),
        "token_id": np.array([ids[position] for position, _ in committed], dtype=int),
        "token_step": np.array([when for _, when in committed], dtype=int),
        "token_row": np.array(rows, dtype=int),
        "token_confidence": np.full(len(committed), 0.5),
        "answer_argmax": argmax,
        "answer_peak": peak,
        "answer_evidence": mass,
    }


def _stepwise(sequence: Array, layers: int, heads: int) -> dict[str, Array]:
    steps, size = sequence.shape
    same = np.vstack([np.full((1, size), np.nan), np.where(sequence[1:] == sequence[:-1], 1.0, 0.5)])
    same[:, :][sequence < 0] = np.nan
    by_key = np.repeat(same[:, None], layers, axis=1)
    by_layer = np.full((steps, layers), 0.5)
    by_head = np.full((steps, layers, heads), 3.0)
    reuse = dict.fromkeys(("key_reuse", "value_reuse", "state_reuse"), by_key)
    alike = {"state_cosine": by_layer, "masked_cosine": by_layer, "effective_rank": 4 * by_layer}
    held = dict.fromkeys(("keys_90", "keys_95", "keys_99"), by_head)
    ahead = np.full((steps, layers, len(DISTANCES)), 0.01)
    return reuse | alike | held | {"row_distance": by_head / 6, "top_reuse": by_layer, "mass_ahead": ahead}


def _lens(committed: Sequence[tuple[int, int]], layers: int, *, growing: bool) -> dict[str, Array]:
    last = 0 if growing else max((when for _, when in committed), default=0)
    rank = np.full((last + 1, len(committed), layers), -1)
    for token, (_, when) in enumerate(committed):
        for before in range(1 if growing else when + 1):
            rank[before, token] = [1 + before + layers - 1 - layer for layer in range(layers)]
    known = np.where(rank > 0, rank, np.nan)
    return {"lens_rank": rank, "lens_logp": -np.log(known) - 0.1, "lens_peak": np.exp(-0.1) / known**0.5}


def _token_flows(
    attention: Array,
    committed: Sequence[tuple[int, int]],
    numbers: list[int],
    shift: bool,
    of: Sequence[str],
    names: Sequence[str],
) -> dict[str, Array]:
    """Of each deciding row, its attention by region, and the product of (A + I) / 2 over the layers up to each."""
    layers, size = attention.shape[1], attention.shape[-1]
    direct, through = np.zeros((2, len(committed), layers, len(names)))
    for t, (position, when) in enumerate(committed):
        row, made = position - 1 if shift else position, np.eye(size)
        for layer in range(layers):
            mean = attention[numbers.index(when), layer].mean(axis=0)
            mixed = mean + np.eye(size)
            made = mixed / mixed.sum(axis=-1, keepdims=True) @ made
            for r, name in enumerate(names):
                keys = [j for j in range(size) if of[j] == name]
                direct[t, layer, r], through[t, layer, r] = mean[row, keys].sum(), made[row, keys].sum()
    return {"answer_flow": direct, "answer_rollout": through}


def _qk(q: Array, k: Array, here: Array, causal: bool) -> dict[str, Array]:
    """Means over the queries that see a key, head by head; head h reads key head h // (heads / key heads)."""
    steps, layers, heads, size, _ = q.shape
    each = heads // k.shape[2]
    made = {name: np.full((steps, layers, heads, size), np.nan) for name in ("qk_dot", "qk_cos", "qk_norm")}
    for step in range(steps):
        for head in range(heads):
            for j in np.flatnonzero(here[step]):
                rows = [i for i in np.flatnonzero(here[step]) if i >= j or not causal]
                key = k[step, :, head // each, j]  # (layer, dim)
                asking = q[step, :, head, rows]  # (query, layer, dim)
                dots = (asking * key).sum(axis=-1)
                norms = np.linalg.norm(asking, axis=-1) * np.linalg.norm(key, axis=-1)
                made["qk_dot"][step, :, head, j] = dots.mean(axis=0)
                made["qk_norm"][step, :, head, j] = norms.mean(axis=0)
                made["qk_cos"][step, :, head, j] = (dots / norms).mean(axis=0)
    made["key_norm"] = np.where(here[:, None, None], np.linalg.norm(k, axis=-1), np.nan)
    made["query_norm"] = np.where(here[:, None, None], np.linalg.norm(q, axis=-1), np.nan)
    return made


def _products(q: Array, k: Array, here: Array, causal: bool) -> Array:
    """q·k of every query and the keys it sees."""
    steps, layers, heads, size, _ = q.shape
    made = np.full((steps, layers, heads, size, size), np.nan)
    for step, head in np.ndindex(steps, heads):
        for i in np.flatnonzero(here[step]):
            for j in np.flatnonzero(here[step]):
                if j <= i or not causal:
                    key = k[step, :, head // (heads // k.shape[2]), j]
                    made[step, :, head, i, j] = (q[step, :, head, i] * key).sum(axis=-1)
    return made


def _variables(data: dict[str, Array], heads: str) -> dict[str, Any]:
    made: dict[str, Any] = {}
    known = schema()
    for name, values in data.items():
        variable = known[name]
        dims = variable.dims
        if heads == "mean" and dims[0] == "step":
            dims = tuple(dim for dim in dims if dim not in ("head", "kv_head"))
        made[name] = (dims, values.astype(variable.dtype), {"meaning": variable.meaning})
    return made


# -- ready-made -------------------------------------------------------------------------------------------------------

REGIONS = [
    "bos",
    *["template"] * 2,
    *["doc1"] * 5,
    *["doc2"] * 5,
    *["doc3"] * 5,
    *["question"] * 3,
    "template",
    *["answer"] * 8,
]
PROMPT = len(REGIONS) - 8
TEXTS = [
    *("<bos>", "Answer", ":"),
    *("[1]", "the", "red", "dog", "."),
    *("[2]", "a", "green", "cat", "."),
    *("[3]", "of", "1", "bird", "."),
    *("which", "colour", "?"),
    ":",
    *("green", "cat", *["<eos>"] * 6),
]
EVIDENCE = (10, 11)
"""The words "green cat" of the second document, which is the gold one."""


def _ids() -> list[int]:
    words = {"<bos>": BOS, "<eos>": EOS}
    for text in TEXTS:
        words.setdefault(text, 10 + len(words))
    return [words[text] for text in TEXTS]


def anchor_at(pattern: str, step: int) -> int | None:
    """Where a ready-made trace has its anchor at a step."""
    return {"fixed": 0, "moving": 2 + 2 * step, "uniform": None}[pattern]


def ready(pattern: str, *, causal: bool, sample: int = 0, noise: float = 0.05, layers: int = 4, **more: Any) -> Trace:
    """A run of 8 steps over 30 positions that writes one token per step, from left to right.

    The anchor of a step takes nearly all mass of whoever sees it, in every layer and head; the other queries and those
    of the uniform pattern spread evenly, both but for `noise`. Its key is longer and better aligned with the queries
    than others, its value short, its residual state large. `more` goes to `build`.
    """
    random = np.random.default_rng([sample, PATTERNS.index(pattern), causal])
    size, steps, heads, kv_heads, dim = len(REGIONS), 8, 4, 2, 6
    weights = 1 + noise * random.uniform(size=(steps, layers, heads, size, size))
    if pattern != "uniform":
        weights *= 0.002
    q = 0.3 * random.normal(size=(steps, layers, heads, size, dim)) + np.eye(dim)[0]
    k = 0.3 * random.normal(size=(steps, layers, kv_heads, size, dim)) + np.eye(dim)[1]
    value = random.uniform(0.9, 1.1, (steps, layers, kv_heads, size))
    residual = random.uniform(4.5, 5.5, (steps, layers, size))
    for step in range(steps):
        anchor = anchor_at(pattern, step)
        if anchor is not None:
            weights[step, ..., anchor] += 1 + noise * random.uniform(size=weights.shape[1:-1])
            k[step, :, :, anchor] += 3 * np.eye(dim)[0]
            value[step, :, :, anchor] *= 0.1
            residual[step, :, anchor] *= 20
    lengths = [PROMPT + step for step in range(steps)] if causal else None
    given: dict[str, Any] = {
        "committed": [(PROMPT + step, step) for step in range(steps)],
        "mask_id": None if causal else MASK,
        "final": _ids(),
        "texts": TEXTS,
        "regions": REGIONS,
        "gold": 1,
        "evidence": EVIDENCE,
        "ref": f"{pattern}-{'arm' if causal else 'mdm'}",
    }
    given |= {"q": q, "k": k, "value_norm": value, "residual_norm": residual, "lens": True, "stepwise": True}
    return build(spread(weights, causal=causal, lengths=lengths), causal=causal, **(given | more))


def as_control(trace: Trace, of: str, seed: int = 0) -> Trace:
    """The same trace as one of the model `of` with shuffled weights."""
    control = {"of": of, "kind": "shuffled_weights", "seed": seed}
    model = {**trace.model, "ref": f"{of}, weights shuffled (seed {seed})", "control": control}
    return Trace(trace.data.assign_attrs(model=model))


def with_control(traces: Sequence[Trace]) -> list[Trace]:
    """Traces of one model, and as many of its control: uniform attention."""
    kind, causal = traces[0].model["ref"], bool(traces[0].data.attrs["causal"])
    return [*traces, *(as_control(one, kind) for one in samples("uniform", causal=causal, n=len(traces)))]


def samples(pattern: str, *, causal: bool, n: int, **more: Any) -> list[Trace]:
    """Several of one kind, each with its own noise."""
    return [ready(pattern, causal=causal, sample=sample, **more) for sample in range(n)]
