"""Memory of loading at full size: a checkpoint with the tensors of a published model, and what `fl.load` needs for it.

Each dtype is loaded in a fresh process, and no pass is run. `needed` is what has to fit: the highest anonymous memory
while it loads, or all that is resident afterwards, whichever is more. `resident` is the kernel's peak (VmHWM). That one
also counts pages of weight files that were mapped to be converted; the kernel drops those whenever memory is short.
"""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from floatlens.core.errors import FloatlensError
from floatlens_lab.bench.checkpoints import SHARD_BYTES, size_of, write_checkpoint
from floatlens_lab.bench.run import LINUX, fresh, from_proc
from floatlens_lab.bench.width import SUBJECTS, Width

__all__ = ["LOAD_LIMIT", "LoadMeasured", "LoadPlan", "memory_of_loading", "run_load"]

LOAD_LIMIT = 1.15
"""What loading may need, times the size of the weights; what needs more is marked."""


@dataclass(frozen=True)
class LoadPlan:
    """What to measure: a model of `layers` layers with the published widths and vocabulary, in each dtype."""

    subject: str = "llada-8b"
    layers: int = 4
    dtypes: tuple[str, ...] = ("bfloat16", "float32")
    rounds: int = 3
    shard_bytes: int = SHARD_BYTES

    def __post_init__(self) -> None:
        if self.subject not in SUBJECTS:
            raise FloatlensError(f'bench: subject "{self.subject}"; give one of {", ".join(SUBJECTS)}')
        if self.rounds < 1 or self.layers < 1:
            raise FloatlensError("bench: layers and rounds start at 1")
        if not LINUX:
            raise FloatlensError("bench: the memory of loading is measured on Linux only")

    @property
    def size(self) -> Width:
        return SUBJECTS[self.subject]


@dataclass
class LoadMeasured:
    """One dtype: bytes of the weights, and of each round what loading needed, and the peak of resident pages."""

    subject: str
    layers: int
    dtype: str
    size: int
    needed: list[int]
    resident: list[int]

    def ratio(self) -> float:
        """Of the worst round: what was needed ÷ the size of the weights."""
        return max(self.needed) / self.size


def run_load(plan: LoadPlan, say: Callable[[str], object] = lambda _: None) -> list[LoadMeasured]:
    """Write the checkpoint, load it in each dtype, and remove it, also when interrupted."""
    results = []
    with _ending_on_signals(), tempfile.TemporaryDirectory(prefix="floatlens-bench-") as folder:
        write_checkpoint(plan.size, plan.layers, Path(folder), plan.shard_bytes, say)
        for dtype in plan.dtypes:
            bytes_ = size_of(plan.size, plan.layers, getattr(torch, dtype))
            found = LoadMeasured(plan.subject, plan.layers, dtype, bytes_, [], [])
            _check_room(found)
            for number in range(plan.rounds):
                needed, resident, held = fresh(
                    __name__, "memory_of_loading", [folder, dtype, plan.size.family], f"loading in {dtype}"
                )
                if held != bytes_:
                    raise FloatlensError(f"bench: the model holds {held} bytes of weights in {dtype}, not {bytes_}")
                found.needed.append(needed)
                found.resident.append(resident)
                say(f"{dtype}, round {number + 1} of {plan.rounds}: loading needs {needed / bytes_:.3f} × the weights")
            results.append(found)
    return results


def _check_room(found: LoadMeasured) -> None:
    free = from_proc("/proc/meminfo", "MemAvailable")
    if LOAD_LIMIT * found.size > free:
        raise FloatlensError(
            f"bench: loading in {found.dtype} takes {LOAD_LIMIT * found.size / 2**30:.1f} GiB and "
            f"{free / 2**30:.1f} GiB of memory are free; give fewer --layers"
        )


def memory_of_loading(folder: str, dtype: str, family: str) -> list[int]:
    """[needed, peak of resident pages, bytes of the weights] of loading a folder, in a process that has loaded a tiny
    model of the same family before, so libraries are there."""
    from floatlens.models import load
    from floatlens_lab.bench.memory import Peak

    tiny = replace(next(one for one in SUBJECTS.values() if one.family == family), width=32, heads=4, kv_heads=2)
    tiny = replace(tiny, head=8, mlp=32, vocabulary=64)
    with tempfile.TemporaryDirectory(prefix="floatlens-bench-") as other:
        write_checkpoint(tiny, 1, Path(other), shard_bytes=8192)
        load(other, dtype=dtype, device="cpu")
    before = from_proc("/proc/self/status", "VmRSS")
    with Peak() as peak:
        model = load(folder, dtype=dtype, device="cpu")
    kept = from_proc("/proc/self/status", "VmRSS") - before
    held = sum(one.numel() * one.element_size() for one in model.module.parameters())
    return [max(peak.anonymous, kept), peak.resident, held]


@contextmanager
def _ending_on_signals() -> Iterator[None]:
    """SIGTERM ends what runs inside as Ctrl-C does, so temporary folders are removed."""

    def interrupt(number: int, frame: FrameType | None) -> Any:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
