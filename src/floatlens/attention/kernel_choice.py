"""Which fused kernel captures attention on a device: the first that is there and passes its start-up check.

On GPUs that is our own Triton sweeps, then FlexAttention; on CPUs torch's flash kernel. Reasons for passing over a
kernel are kept, since they belong into the trace. triton is imported here alone, and only for a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib.util import find_spec

import torch

from floatlens.attention.lse_kernels import CpuFlash, Flex, LseKernel, off_by
from floatlens.attention.sweeps import SweepKernel, sweeps_off_by
from floatlens.core.errors import FloatlensError

__all__ = ["Kernel", "find_kernel"]

Kernel = LseKernel | SweepKernel
LARGEST_ERROR = 1e-3
"""Of what is compared in the start-up check. Honest kernels are off by about 1e-6; the known fault is 0.69."""


def _triton() -> SweepKernel:
    if find_spec("triton") is None:
        raise ModuleNotFoundError("triton is not installed")
    from floatlens.attention.triton_kernels import TritonSweeps

    return TritonSweeps()


_MAKERS: Mapping[str, Mapping[str, Callable[[], Kernel]]] = {
    "cpu": {"flash": CpuFlash},
    "cuda": {"triton": _triton, "flex": Flex},
}
"""For each type of device, in the order in which they are tried."""
_TITLES = {"flash": "torch flash (cpu)", "triton": "Triton sweeps", "flex": "FlexAttention"}


@cache
def find_kernel(device: str, only: str | None = None) -> tuple[Kernel | None, str | None]:
    """The kernel for a type of device ("cpu", "cuda"), checked, or None; and why others were passed over.

    `only` takes one by its short name: "flash", "triton" or "flex". Example: `find_kernel("cpu")[0].name`
    """
    makers = _MAKERS.get(device, {})
    if not makers:
        return None, f"there is no fused kernel for {device}"
    if only is not None and only not in makers:
        raise FloatlensError(f'kernel "{only}" is not one of {device}; give {" or ".join(makers)}')
    refused: list[str] = []
    for name in [*makers] if only is None else [only]:
        kernel, why = _checked(_TITLES[name], makers[name], torch.device(device))
        if kernel is not None:
            return kernel, "; ".join(refused) or None
        refused.append(why)
    return None, "; ".join(refused)


def _checked(title: str, make: Callable[[], Kernel], device: torch.device) -> tuple[Kernel | None, str]:
    try:
        kernel = make()
        error = sweeps_off_by(kernel, device) if isinstance(kernel, SweepKernel) else off_by(kernel, device)
    except Exception as failure:  # a compiler or a torch release may refuse in any way; the next kernel does the work
        said = str(failure).strip() or type(failure).__name__
        return None, f"{title} failed its start-up check ({said.splitlines()[0][:120]})"
    if not error <= LARGEST_ERROR:
        return None, f"{kernel.name} returned statistics off by {error:.2g}; upgrade or downgrade torch"
    return kernel, ""
