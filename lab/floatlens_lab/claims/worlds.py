"""Synthetic traces with a known truth, for the error rates of claims about where anchors are.

A world says which keys attract attention at which step and layer, and how much; everything else is a log-normal
background. Received attention is written down directly, as a mean over heads, so a trace of 128 steps costs
milliseconds. Nothing of floatlens.analysis is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from floatlens.traces import SCHEMA_VERSION, Trace, schema
from floatlens.traces.store import with_labels

__all__ = ["WORLDS", "World", "make_trace"]

Floats = NDArray[np.float64]
LAYERS, PROMPT = 8, 64
MASK, EOS = 3, 2


@dataclass(frozen=True)
class Run:
    """The size of a run, and how far it has got: `written` (step) tokens are there before each step."""

    steps: int
    answer: int
    causal: bool
    random: np.random.Generator

    @property
    def size(self) -> int:
        return PROMPT + self.answer

    @property
    def written(self) -> NDArray[np.int64]:
        return (np.arange(self.steps) * self.answer) // self.steps

    @property
    def frontier(self) -> NDArray[np.int64]:
        """(step): the first position that a step writes."""
        return PROMPT + self.written


Anchored = Callable[[Run, int], Floats]
"""(run, layer) → (step, key): the attention on anchors, as shares of the whole; the rest goes to the background."""


@dataclass(frozen=True)
class World:
    """`answer` rows and `prompt` rows may have anchors of their own; `all` rows are 9 parts prompt and 1 part answer
    (the share that the audit of the first edition found). `spread` is the σ of the log-normal background that stays
    over the steps of a trace, `jitter` that of what changes from step to step."""

    title: str
    answer: Anchored
    prompt: Anchored | None = None
    spread: float = 0.5
    jitter: float = 0.15


# -- where anchors are ------------------------------------------------------------------------------------------------


def _none(run: Run, layer: int) -> Floats:
    return np.zeros((run.steps, run.size))


def _sink(mass: float) -> Anchored:
    """A fixed sink on the first position."""

    def at(run: Run, layer: int) -> Floats:
        share = _none(run, layer)
        share[:, 0] = mass * run.random.uniform(0.9, 1.1)
        return share

    return at


def _floating(shallow: float, deep: float, count: int = 2, direction: int = 1) -> Anchored:
    """Anchors near the text being written, at places that differ from layer to layer. They stay for a while and then
    move on with the frontier (or, with `direction` −1, the other way)."""

    def at(run: Run, layer: int) -> Floats:
        share = _none(run, layer)
        mass = (shallow if layer < LAYERS // 2 else deep) * run.random.uniform(0.9, 1.1)
        where = run.frontier if direction > 0 else run.frontier[::-1]
        held = PROMPT + 4 * ((where - PROMPT) // 4)
        for number in range(count):
            keys = np.clip(held + (3 * layer + 5 * number) % 11 - 8, 1, run.size - 1)
            np.add.at(share, (np.arange(run.steps), keys), mass * (0.7 if number == 0 else 0.3 / max(count - 1, 1)))
        return share

    return at


def _jumping(mass: float) -> Anchored:
    """An anchor at another place in every step, in no order."""

    def at(run: Run, layer: int) -> Floats:
        share = _none(run, layer)
        share[np.arange(run.steps), run.random.integers(1, run.size, run.steps)] = mass
        return share

    return at


def _flickering(mass: float, keys: int = 5, count: int = 2) -> Anchored:
    """The same few keys come and go, in no order: in every step `count` of a layer's `keys` are anchors."""

    def at(run: Run, layer: int) -> Floats:
        share = _none(run, layer)
        places = 1 + run.random.choice(run.size - 1, keys, replace=False)
        chosen = np.argsort(run.random.random((run.steps, keys)), axis=1)[:, :count]
        np.put_along_axis(share, places[chosen], mass / count, axis=1)
        return share

    return at


def _both(*parts: Anchored) -> Anchored:
    return lambda run, layer: np.sum([part(run, layer) for part in parts], axis=0)


def _held(count: int, mass: float) -> Anchored:
    """Words of the prompt that stay anchors, others in every layer."""

    def at(run: Run, layer: int) -> Floats:
        share = _none(run, layer)
        share[:, 1 + run.random.choice(PROMPT - 1, count, replace=False)] = mass / count
        return share

    return at


WORLDS: Mapping[str, World] = {
    "llada": World("LLaDA-like: floating anchors, stronger in deep layers", _floating(0.16, 0.32)),
    "dream": World("Dream-like: a fixed sink of 45 % and weak floaters", _both(_sink(0.45), _floating(0.09, 0.09, 3))),
    "answer": World("floating in answer rows, held in prompt rows", _floating(0.2, 0.3), _held(3, 0.2)),
    "left": World("anchors that move to the left", _floating(0.2, 0.3, direction=-1)),
    "jump": World("anchors at another place in every step, without order", _jumping(0.2)),
    "flicker": World("the same few anchors come and go", _flickering(0.3)),
    "sink": World("a fixed sink of 60 % on the first position", _sink(0.6)),
    "weak-sink": World("a fixed sink of 10 % on the first position", _sink(0.1)),
    "deep-spread": World("floating anchors, stronger in shallow layers", _floating(0.32, 0.16)),
    "held": World("fixed anchors on words of the prompt", _held(3, 0.3)),
    "noise": World("noise without anchors, new in every step", _none, spread=0.0, jitter=0.6),
    "shuffled": World("weights shuffled: a static background", _none, spread=0.35, jitter=0.05),
}
"""Worlds by name."""


# -- traces -----------------------------------------------------------------------------------------------------------


def make_trace(world: World, *, kind: str, steps: int, sample: int, ref: str) -> Trace:
    """One trace of a world: a diffusion model ("mdm") that fills an answer of at least 32 tokens, or an autoregressive
    one ("arm") with a causal mask that writes a token per step."""
    causal = kind == "arm"
    random = np.random.default_rng([sample, steps, causal, *ref.encode()])
    run = Run(steps, steps if causal else max(steps, 32), causal, random)
    here = np.arange(run.size) < (run.frontier if causal else np.full(steps, run.size))[:, None]
    layers = [_layer(world, run, layer, here) for layer in range(LAYERS)]
    shares = {name: np.stack([layer[name] for layer in layers], axis=1) for name in layers[0]}
    return _trace(run, here, shares, kind=kind, ref=ref, sample=sample)


def _layer(world: World, run: Run, layer: int, here: NDArray[np.bool_]) -> dict[str, Floats]:
    """(step, key) of one layer by query group."""
    in_answer, in_prompt = world.answer(run, layer), (world.prompt or world.answer)(run, layer)
    if world.prompt is None:
        in_prompt = in_answer
    static = world.spread * run.random.normal(size=run.size)
    made: dict[str, Floats] = {}
    for name, anchored, first in (("answer", in_answer, PROMPT), ("prompt", in_prompt, 0)):
        noise = np.exp(static + world.jitter * run.random.normal(size=(run.steps, run.size)))
        even = _even(run, here, first) * noise
        anchored = np.where(here, anchored, 0.0)
        rest = 1 - anchored.sum(axis=1, keepdims=True)
        made[name] = np.where(here, anchored + rest * even / even.sum(axis=1, keepdims=True), np.nan)
    part = 0.1 * (np.isfinite(made["answer"]).any(axis=1, keepdims=True))
    made["all"] = np.where(part > 0, part * np.nan_to_num(made["answer"]), 0.0) + (1 - part) * made["prompt"]
    return made


def _even(run: Run, here: NDArray[np.bool_], first: int) -> Floats:
    """(step, key): uniform attention of the queries from `first` on, under the run's mask; NaN without any."""
    if not run.causal:
        return np.full((run.steps, run.size), 1 / run.size)
    position = np.arange(run.size)
    queries = here & (position >= first)
    weight = np.where(queries, 1 / (position + 1), 0.0)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.flip(np.cumsum(np.flip(weight, 1), axis=1), 1) / queries.sum(axis=1, keepdims=True))


def _trace(
    run: Run,
    here: NDArray[np.bool_],
    shares: Mapping[str, Floats],
    *,
    kind: str,
    ref: str,
    sample: int,
) -> Trace:
    final = np.arange(10, 10 + run.size)
    first = run.frontier[:, None]
    open_ = np.arange(run.size) >= first
    sequence = np.where(open_, -1 if kind == "arm" else MASK, final)
    position = np.arange(PROMPT, run.size)
    step_of = np.searchsorted(run.frontier, position, side="right") - 1
    answer = shares["answer"]
    masked = answer if kind == "mdm" else np.full_like(answer, np.nan)
    count = run.answer
    data: dict[str, Any] = {
        "sequence": sequence,
        "final": final,
        "region_of": (np.arange(run.size) >= PROMPT).astype(int),
        "evidence": np.zeros(run.size, dtype=bool),
        "received": shares["all"],
        "received_answer": answer,
        "received_masked": masked,
        "received_committed": shares["prompt"],
        "token_position": position,
        "token_id": final[PROMPT:],
        "token_step": step_of,
        "token_row": position - (kind == "arm"),
        "token_confidence": np.full(count, 0.5),
    }
    known = schema()
    variables = {}
    for name, values in data.items():
        dims = tuple(dim for dim in known[name].dims if dim != "head")
        variables[name] = (dims, np.asarray(values).astype(known[name].dtype), {"meaning": known[name].meaning})
    attrs = _attributes(run, [name for name in variables if name.startswith("received")], kind, ref, sample)
    coords = {"step": np.arange(run.steps), "layer": np.arange(LAYERS), "key": np.arange(run.size)}
    return Trace(with_labels(xr.Dataset(variables, coords=coords, attrs=attrs)))


def _attributes(run: Run, received: Sequence[str], kind: str, ref: str, sample: int) -> dict[str, Any]:
    """What a trace says of its model, prompt and variables."""
    known = schema()
    model: dict[str, Any] = {"ref": ref, "revision": None, "family": "synthetic", "kind": kind, "class": "None"}
    model |= {"shift": kind == "arm", "mask_id": None if kind == "arm" else MASK, "bos_id": 1, "eos_ids": [EOS]}
    model |= {"layers": LAYERS, "heads": 1, "kv_heads": 1, "dtype": "float32"}
    return {
        "schema_version": SCHEMA_VERSION,
        "model": model,
        "decoding": {"sampler": "none", "settings": {}, "forward_passes": run.steps, "answer": None},
        "prompt": {"question": f"question {sample}", "gold": None, "evidence_kind": None},
        "probes": [],
        "variables": {
            name: {
                "probe": "received",
                "dims": list(known[name].dims),
                "dtype": known[name].dtype,
                "meaning": known[name].meaning,
            }
            for name in received
        },
        "heads": "mean",
        "causal": run.causal,
        "regions": ["question", "answer"],
        "token_text": [],
        "versions": {"python": "3", "floatlens": "synthetic"},
        "edits": [],
    }
