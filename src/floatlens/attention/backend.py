"""How attention is captured: streamed explicit rows, or fused passes; chosen for each layer and written down.

The option is called `backend` because `attention` already names a rule of visibility (`floatlens.load`), and `capture`
the context itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import torch

from floatlens.attention.kernel_choice import Kernel, find_kernel
from floatlens.attention.lse_passes import Fused, attend_fused
from floatlens.attention.probe import Layer, Probe
from floatlens.attention.setting import BackendName
from floatlens.attention.sweeps import SweepKernel, attend_swept
from floatlens.core.errors import FloatlensError

__all__ = ["Backend"]


class Backend:
    """The choice for one capture. "auto" is fused passes on GPUs for models in half precision; rows on CPUs and, since
    float32 is slow in matrix products of GPUs, for models in float32 (arithmetic: docs/cluster.md).

    What fused passes cannot do goes by rows, layer by layer; `rows` says why. `Backend("fused", device).to_dict()` is
    what a trace records.
    """

    def __init__(self, asked: str, device: torch.device, kernel: Kernel | None = None) -> None:
        if asked not in get_args(BackendName):
            raise FloatlensError(f'backend="{asked}"; give "auto", "rows" or "fused"')
        self.asked = asked
        self.kernel, self.refused = kernel, None
        self.rows: dict[str, set[int]] = {}
        """Reason → layers that went by rows because of it."""
        self.layers: set[int] = set()
        """Layers that went by fused passes."""
        if kernel is None and (asked == "fused" or (asked == "auto" and device.type != "cpu")):
            self.kernel, self.refused = find_kernel(device.type)
        if asked == "fused" and self.kernel is None:
            raise FloatlensError(f'backend="fused": {self.refused}; give backend="rows", or leave it out')

    def takes(self, layer: Layer, probes: Sequence[Probe], edited: bool) -> bool:
        """Whether this layer, watched by these probes, goes by fused passes."""
        if self.kernel is None:
            return False
        reason = _obstacle(self.kernel, layer, probes, edited)
        if reason is None and self.asked == "auto" and layer.query.dtype == torch.float32:
            reason = "rows are cheaper in float32"
        if reason is None:
            self.layers.add(layer.index)
        else:
            self.rows.setdefault(reason, set()).add(layer.index)
        return reason is None

    def attend(self, layer: Layer, **asked: Any) -> Fused:
        """Output and statistics of a layer that `takes` took; what may be asked for is said at `attend_fused`."""
        assert self.kernel is not None
        if isinstance(self.kernel, SweepKernel):
            return attend_swept(self.kernel, layer, **asked)
        return attend_fused(self.kernel, layer, **asked)

    def to_dict(self) -> dict[str, Any]:
        """As JSON: what was asked for, what was used, with which kernel, why kernels before it were refused, and which
        layers went by rows, and why."""
        used = "rows" if not self.layers else "fused and rows" if self.rows else "fused"
        return {
            "asked": self.asked,
            "used": used,
            **({} if self.kernel is None else {"kernel": self.kernel.name}),
            **({} if self.refused is None else {"refused": self.refused}),
            **({"rows": {why: sorted(at) for why, at in sorted(self.rows.items())}} if self.rows else {}),
        }


def _obstacle(kernel: Kernel, layer: Layer, probes: Sequence[Probe], edited: bool) -> str | None:
    """Why a layer cannot go by fused passes."""
    if edited:
        return "edits"
    for probe in probes:
        if probe.reads_blocks(layer):
            return f'probe "{probe.name}" reads weights'
    if sum(type(probe).key_weights is not Probe.key_weights for probe in probes) > 1:
        return "more than one probe weighs keys"
    if isinstance(kernel, SweepKernel):
        size = max(layer.query.shape[-1], layer.value.shape[-1])
        if size > kernel.largest:
            return f"heads of {size} numbers, of which {kernel.name} take at most {kernel.largest}"
        if layer.query.dtype not in (torch.float32, torch.float16, torch.bfloat16):
            return str(layer.query.dtype).removeprefix("torch.")
    if layer.softcap is not None:
        if not kernel.softcap:
            return f"soft cap, which {kernel.name} does not have"
        if not isinstance(kernel, SweepKernel) and any("entropy" in probe.needs for probe in probes):
            return "entropy under a soft cap"
    given = layer.mask.explicit
    if given is not None and given.dtype != torch.bool:
        return "a mask of numbers"
    return None
