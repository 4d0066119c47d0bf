"""Between the host and the device. A copy to the host makes it wait for the device, so there is one per step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["moved", "to_host"]

Name = TypeVar("Name")


def moved(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor on a device, without a wait: itself where it is there already. The device is no host."""
    return tensor if tensor.device == device else tensor.to(device, non_blocking=device.type != "cpu")


def to_host(tensors: Mapping[Name, Tensor]) -> dict[Name, NDArray[Any]]:
    """The tensors as arrays: one copy for each device among them, through pinned memory from a GPU.

    Example: `to_host({"entropy": entropy})["entropy"].mean()`
    """
    found: dict[Name, NDArray[Any]] = {name: one.numpy() for name, one in tensors.items() if _is_local(one)}
    away: dict[torch.device, list[Name]] = {}
    for name, one in tensors.items():
        if name not in found:
            away.setdefault(one.device, []).append(name)
    for names in away.values():
        names.sort(key=lambda name: -tensors[name].element_size())  # so each array begins where its dtype may
        landed = _landed(torch.cat([tensors[name].reshape(-1).view(torch.uint8) for name in names]))
        at = 0
        for name in names:
            size = tensors[name].numel() * tensors[name].element_size()
            like = torch.empty(0, dtype=tensors[name].dtype).numpy().dtype
            found[name] = landed[at : at + size].view(like).reshape(tuple(tensors[name].shape))
            at += size
    return {name: found[name] for name in tensors}


def _is_local(tensor: Tensor) -> bool:
    return tensor.device.type == "cpu"


def _landed(flat: Tensor) -> NDArray[Any]:
    if flat.device.type != "cuda":
        return flat.cpu().numpy()
    pinned = torch.empty(flat.shape, dtype=flat.dtype, pin_memory=True)
    pinned.copy_(flat, non_blocking=True)
    torch.cuda.current_stream(flat.device).synchronize()
    return pinned.numpy().copy()  # pinned memory is scarce: it goes back at once
