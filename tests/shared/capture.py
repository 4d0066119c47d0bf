"""An independent witness: a plain attention function in float64 that keeps what floatlens must never keep.

`observe(model, ids)` runs a pass with it and returns every layer's query, key, value, full weights and visibility, as
numpy arrays. It shares no code with floatlens.attention. Tests reduce these by plain loops and compare.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from floatlens.attention import session
from floatlens.attention.recorder import Recorder
from floatlens.probes import make_probes

Array = NDArray[Any]


@pytest.fixture(autouse=True, scope="session")
def _one_thread_after_numba(_one_thread: None) -> None:
    """Loading numba's thread pool sets torch's number of threads anew (see test_session); here one is enough."""
    from floatlens.attention.softmax import Workspace

    Workspace()
    torch.set_num_threads(1)


NAME = "test_witness"


@contextmanager
def capture(model: Any, probes: Sequence[Any] = (), **how: Any) -> Iterator[Recorder]:
    """`floatlens.attention.session.capture`, with probes by name too."""
    with session.capture(model, make_probes(probes), **how) as recorder:
        yield recorder


@dataclass
class Seen:
    """One layer of one pass. query: (batch, head, query, dim); key, value: (batch, kv head, key, dim)."""

    query: Array
    key: Array
    value: Array
    weights: Array
    """(batch, head, query, key); all zero in a row that sees no key."""
    visible: Array
    """(batch, query, key)."""

    @property
    def keys(self) -> Array:
        """(batch, head, key, dim): keys repeated so that head h reads kv head h // (heads / kv heads)."""
        groups = self.query.shape[1] // self.key.shape[1]
        return np.stack([self.key[:, h // groups] for h in range(self.query.shape[1])], axis=1)


@dataclass
class Observed:
    logits: Tensor
    layers: list[Seen] = field(default_factory=list)


class _Witness:
    def __init__(self) -> None:
        self.layers: list[Seen] = []

    def attention(
        self,
        module: torch.nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        scaling: float | None = None,
        **_: Any,
    ) -> tuple[Tensor, None]:
        q, k, v = query.double(), key.double(), value.double()
        groups = q.shape[1] // k.shape[1]
        scale = q.shape[-1] ** -0.5 if scaling is None else scaling
        logits = q @ k.repeat_interleave(groups, 1).transpose(2, 3) * scale
        visible = torch.ones(logits.shape[0], *logits.shape[2:], dtype=torch.bool)
        if mask is not None:
            visible = (mask[:, 0, :, : k.shape[2]] == 0).expand_as(visible)
        logits = logits.masked_fill(~visible[:, None], -torch.inf)
        weights = torch.softmax(logits, -1).nan_to_num(0.0)
        self.layers.append(Seen(*(x.numpy() for x in (q, k, v, weights, visible))))
        mixed = weights @ v.repeat_interleave(groups, 1)
        return mixed.transpose(1, 2).to(query.dtype).contiguous(), None


Observe = Callable[..., Observed]


@pytest.fixture(scope="session")
def observe() -> Iterator[Observe]:
    """`observe(model, ids, attention_mask=None, cache=None)`."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import eager_mask

    witness = _Witness()
    AttentionInterface.register(NAME, witness.attention)
    AttentionMaskInterface.register(NAME, eager_mask)

    def run(model: Any, ids: Tensor, attention_mask: Tensor | None = None, **more: Any) -> Observed:
        before = model.module.config._attn_implementation
        witness.layers = []
        model.module.set_attn_implementation(NAME)
        try:
            logits = model.forward(ids, attention_mask, observed=False, **more)
        finally:
            model.module.set_attn_implementation(before)
        return Observed(logits, witness.layers)

    yield run
    for interface in (AttentionInterface, AttentionMaskInterface):
        interface._global_mapping.pop(NAME)


@pytest.fixture(scope="session")
def draw() -> Callable[..., Tensor]:
    """`draw(batch, length, mask_id=…, masked=…)`: ids that no model here reads as special, the last ones masked."""

    def make(batch: int, length: int, *, mask_id: int | None = None, masked: int = 0, seed: int = 0) -> Tensor:
        ids = torch.randint(5, 45, (batch, length), generator=torch.Generator().manual_seed(seed))
        if mask_id is not None and masked:
            ids[:, -masked:] = mask_id
            ids[:, -1] = 7  # one committed token after the masks
            ids[:, length // 2] = mask_id  # and one mask before them
        return ids

    return make


@pytest.fixture(scope="session")
def padded() -> Callable[..., Tensor]:
    """`padded(length, [0, 3], "left")`: (batch, length) bool, False on that many columns at that side."""

    def make(length: int, missing: list[int], side: str) -> Tensor:
        real = torch.ones(len(missing), length, dtype=torch.bool)
        for sample, n in enumerate(missing):
            real[sample, slice(0, n) if side == "left" else slice(length - n, length)] = False
        return real

    return make


@pytest.fixture(scope="session")
def blocks() -> Callable[..., Any]:
    """`blocks(1, 1)`: a workspace that cuts blocks of exactly (rows, units): one query of one key/value head."""
    from floatlens.attention.softmax import Workspace

    class Exactly(Workspace):
        def __init__(self, rows: int, units: int, kernel: str | None = None) -> None:
            super().__init__(kernel=kernel)
            self.cut = rows, units

        def shape(self, queries: int, keys: int, groups: int, keep: bool = False) -> tuple[int, int]:
            rows, units = min(self.cut[0], queries), self.cut[1]
            return rows, max(1, min(units, self.keeps(queries, keys, groups))) if keep else units

    return Exactly


@pytest.fixture(params=["torch", "numba"])
def kernel(request: pytest.FixtureRequest) -> str:
    """Both ways to compute a block."""
    if request.param == "numba":
        pytest.importorskip("numba")
    return str(request.param)
