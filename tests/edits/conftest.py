"""`decoded(model, edits, prompts)` decodes under edits and gives all that was seen, for plain loops to check.

The witness is an edit that stands first and writes down every logit it is shown, so that tests know what a softmax
would have given without any edit, on the very states that the edited model had.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from floatlens import Edit, decode
from floatlens.attention.edit import Site
from floatlens.attention.probe import Layer
from floatlens.attention.run_tracker import PassPosition
from floatlens.probes import Matrix
from shared.capture import capture

Array = np.ndarray[Any, Any]
PROMPTS = [[5, 9, 12, 33, 21, 8, 30, 14, 26, 9], [17, 6, 40, 11, 19, 6, 29]]


class Witness(Edit):
    """Writes down logits of every block, by step and layer, and changes nothing."""

    edits_logits = True

    def __init__(self) -> None:
        self.logits_of: dict[tuple[int, int], Array] = {}
        self.positions: list[PassPosition] = []

    def begin_layer(self, layer: Layer) -> None:
        batch, heads, queries = layer.query.shape[:3]
        self.logits_of[layer.state.step, layer.index] = np.full((batch, heads, queries, layer.key.shape[2]), -np.inf)
        if layer.index == 0:
            assert layer.state.position is not None
            self.positions.append(layer.state.position)

    def logits(self, site: Site, logits: Tensor) -> Tensor | None:
        if not site.lookahead:
            into = self.logits_of[site.step, site.layer.index][site.batch, site.heads, site.queries]
            into[..., : logits.shape[-1]] = logits.double().numpy()
        return None


@dataclass
class Seen:
    tokens: list[list[int]]
    answers: list[list[int]]
    weights: dict[tuple[int, int], Array]
    """By (step, layer): (batch, head, query, key) as the `matrix` probe saw it, after all edits; 0 where unseen."""
    plain: dict[tuple[int, int], Array]
    """The same before any edit, on the same states; with a cache only the new rows."""
    top: dict[tuple[int, int], Array]
    """The largest logit of each row, (batch, head, query), and the sum of exp(logit − largest)."""
    sums: dict[tuple[int, int], Array]
    positions: list[PassPosition]
    layers: int

    @property
    def steps(self) -> int:
        return len(self.positions)

    def real(self, step: int, sample: int) -> list[int]:
        return np.flatnonzero(self.positions[step].real[sample]).tolist()

    def new(self, step: int, layer: int) -> tuple[Array, Array]:
        """(before, after) of the rows that the pass computed."""
        before, after = self.plain[step, layer], self.weights[step, layer]
        return before, after[:, :, after.shape[2] - before.shape[2] :]


def softmax(logits: Array) -> Array:
    visible = logits > -1e4
    top = np.where(visible, logits, -np.inf).max(-1, keepdims=True)
    shifted = np.where(visible, logits, 0.0) - np.where(np.isfinite(top), top, 0.0)
    exp = np.where(visible, np.exp(np.minimum(shifted, 0.0)), 0.0)
    return exp / np.maximum(exp.sum(-1, keepdims=True), 1e-300)


Decoded = Callable[..., Seen]


@pytest.fixture(scope="session")
def decoded(blocks: Callable[..., Any]) -> Decoded:
    """In blocks of 8 rows of all heads, or `cut` to (rows, key/value heads); without waiting for numba."""

    def run(
        model: Any,
        edits: Sequence[Edit] = (),
        prompts: Any = None,
        kernel: str = "torch",
        cut: tuple[int, int] = (8, 4),
        **how: Any,
    ) -> Seen:
        probe, witness = Matrix(), Witness()
        given = PROMPTS if prompts is None else prompts
        settings = {"gen_length": 4} | how
        edits = [witness, *edits]
        with capture(model, [probe], edits=edits, steps=16, length=16, workspace=blocks(*cut, kernel)):
            result = decode(model, given, **settings)
        return Seen(
            result.sequence.tolist(),
            result.answers(),
            {at: np.nan_to_num(w).astype(np.float64) for at, w in probe.taken.items()},
            {at: softmax(logits) for at, logits in witness.logits_of.items()},
            {at: logits.max(-1) for at, logits in witness.logits_of.items()},
            {at: np.exp(logits - logits.max(-1)[..., None]).sum(-1) for at, logits in witness.logits_of.items()},
            witness.positions,
            model.num_layers,
        )

    return run


def top(values: Array, among: list[int], k: int) -> list[int]:
    """The k largest of some keys, of equals the earlier: by a plain sort."""
    return sorted(among, key=lambda j: (-values[j], j))[:k]


@pytest.fixture(scope="session")
def received() -> Callable[..., Array]:
    """`received(seen, step, layer, sample, head, of)`: by a loop over rows; the last real row of a causal model."""

    def mean(seen: Seen, step: int, layer: int, sample: int, head: int, causal: bool, of: str = "weights") -> Array:
        position = seen.positions[step]
        rows = (seen.weights if of == "weights" else seen.plain)[step, layer][sample, head]
        real = np.flatnonzero(position.real[sample])
        first = position.real.shape[1] - rows.shape[0]  # rows of a cached pass begin later
        if causal:
            return rows[real[-1] - first] if real[-1] >= first else rows[-1]
        total = np.zeros(rows.shape[1])
        for i in real:
            total += rows[i - first]
        return total / len(real)

    return mean


@pytest.fixture(scope="session")
def largest() -> Callable[..., list[int]]:
    return top
