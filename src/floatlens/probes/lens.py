"""Logit lens over denoising (methods §12a): rank and probability of the token finally placed, by layer and step.

The states that leave each layer are kept for the rows whose position is still to be decided, and go through the model's
own final norm and head once the final tokens are known. The size of what is kept is limited.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray
from torch import Tensor

from floatlens.attention.host import moved
from floatlens.attention.probe import Layer, Need, Probe, Shape
from floatlens.attention.variable import Variable
from floatlens.core.errors import FloatlensError
from floatlens.models.readout import Readout

if TYPE_CHECKING:
    from floatlens.attention.recorder import Committed

__all__ = ["Lens"]

_DIMS = ("lens_before", "token", "layer")
_ROWS = 128  # states that go through the head at once: their logits are large


class Lens(Probe):
    """For each token, each layer and each pass before it was committed (`lens_before` steps before; 0 is the pass that
    committed it). Passes that were not recorded are -1 and NaN; so is, for an autoregressive model, all but 0.
    """

    name = "lens"
    variables = (
        Variable(
            "lens_rank", _DIMS, "replace", "rank of the final token, 1 is first; the mask does not count", "int32"
        ),
        Variable("lens_logp", _DIMS, "replace", "log probability of the final token, in nats"),
        Variable("lens_peak", _DIMS, "replace", "largest probability of any token but the mask"),
    )
    needs: ClassVar[frozenset[Need]] = frozenset({"output"})

    def __init__(self, max_bytes: int = 2 << 30) -> None:
        self.max_bytes = max_bytes
        self._shape: Shape | None = None
        self._clear()

    def _clear(self) -> None:
        self._rows: dict[int, NDArray[np.int64]] = {}  # by step: the rows that were kept, as positions
        self._states: dict[int, dict[int, Tensor]] = {}  # by layer and step: (row, width)
        self._fresh: dict[tuple[int, int], Tensor] = {}  # of the last pass, by layer and step, on the device
        self._at = torch.empty(0, dtype=torch.int64)
        self._tokens: list[Committed] = []

    def prepare(self, shape: Shape) -> None:
        self._shape = shape
        self._clear()

    def output(self, layer: Layer, states: Tensor) -> None:
        state = layer.state
        rows = state.candidates()
        if state.step not in self._rows:
            self._check(len(rows), states)
            self._rows[state.step] = rows + state.offset
            self._at = torch.from_numpy(rows)
        self._at = at = moved(self._at, states.device)
        self._fresh[layer.index, state.step] = states[0].index_select(0, at)

    def kept(self) -> Mapping[Any, Tensor]:
        bits = {torch.bfloat16: torch.int16}  # numpy has no bfloat16
        return {at: one.view(bits.get(one.dtype, one.dtype)) for at, one in self._fresh.items()}

    def fetched(self, arrays: Mapping[Any, NDArray[Any]]) -> None:
        for (layer, step), states in arrays.items():
            self._states.setdefault(layer, {})[step] = torch.from_numpy(states).view(self._fresh[layer, step].dtype)
        self._fresh = {}

    def _check(self, rows: int, states: Tensor) -> None:
        """Refuse what would take too much memory, before it is kept; later passes keep no more rows than the first."""
        assert self._shape is not None
        layers, steps, width = self._shape.layers, self._shape.steps, states.shape[-1]
        size = layers * steps * rows * width * states.element_size()
        if not self._rows and size > self.max_bytes:
            raise FloatlensError(
                f'probe "lens": {steps} steps × {layers} layers × {rows} positions × {width} would take up to '
                f"{size / 2**20:.0f} MiB and max_bytes allows {self.max_bytes / 2**20:.0f}; write fewer tokens in "
                f"fewer steps, or give Lens(max_bytes=…)"
            )

    def committed(self, token: Committed) -> None:
        if token.sample == 0:
            self._tokens.append(token)

    def finish(self, length: int) -> Mapping[str, xr.DataArray]:
        """All passes at once, for the first sample."""
        layers = sorted(self._states)
        where = self._places()
        if not layers or not len(where):
            return {}
        assert self._shape is not None
        assert self._shape.readout is not None
        size = (int(where[:, 0].max()) + 1, len(self._tokens), len(layers))
        rank, logp, peak = np.full(size, -1, dtype=np.int32), *np.full((2, *size), np.nan, dtype=np.float32)
        with torch.inference_mode(), self._shape.readout() as read:
            for at, layer in enumerate(layers):
                for part in np.array_split(where, -(-len(where) // _ROWS)):
                    before, token, step, row = part.T
                    states = [self._states[layer][s][r] for s, r in zip(step.tolist(), row.tolist(), strict=True)]
                    ids = torch.tensor([self._tokens[t].token for t in token.tolist()])
                    found = _read(read, torch.stack(states), ids, self._shape.mask_id)
                    rank[before, token, at], logp[before, token, at], peak[before, token, at] = found
        coords = {"lens_before": np.arange(size[0]), "layer": np.array(layers)}
        arrays = zip(self.variables, (rank, logp, peak), strict=True)
        self._clear()
        return {one.name: xr.DataArray(values, dims=_DIMS, coords=coords) for one, values in arrays}

    def _places(self) -> NDArray[np.int64]:
        """(place, 4): steps before commitment, token, step and index of the row, of every state that was kept."""
        found = [
            (token.step - step, number, step, int(np.searchsorted(rows, token.row)))
            for number, token in enumerate(self._tokens)
            for step, rows in self._rows.items()
            if step <= token.step and token.row in rows
        ]
        return np.array(found, dtype=np.int64).reshape(-1, 4)


def _read(read: Readout, states: Tensor, ids: Tensor, mask_id: int | None) -> tuple[NDArray[np.generic], ...]:
    """(n,) each: rank and log probability of the ids, and the largest probability of all."""
    logits = read(states)
    own = logits.gather(1, ids.to(logits.device)[:, None])
    whole = logits.logsumexp(dim=-1)
    if mask_id is not None:
        logits[:, mask_id] = -torch.inf  # it is never written
    rank, logp, peak = (logits > own).sum(dim=-1) + 1, own[:, 0] - whole, (logits.amax(dim=-1) - whole).exp()
    return tuple(one.cpu().numpy() for one in (rank, logp, peak))
