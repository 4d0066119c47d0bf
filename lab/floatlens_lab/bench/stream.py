"""Memory of a long trace, step by step: what a step found goes to disk, so memory does not grow with their number.

The model has a published width, few layers and random weights, and one token is written per step. Anonymous memory is
looked at when a step's token is committed. The allocator hands blocks back at once, so what is seen is what is in use.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from floatlens.attention.probe import Probe
from floatlens.attention.recorder import Committed
from floatlens.core.errors import FloatlensError
from floatlens.probes import make_probes
from floatlens.traces.tracing import trace
from floatlens_lab.bench.memory import Peak, anonymous
from floatlens_lab.bench.run import LINUX, fresh
from floatlens_lab.bench.subject import PROBES
from floatlens_lab.bench.width import SUBJECTS, make_wide

__all__ = ["GROWTH_LIMIT", "SETTLED", "StreamMeasured", "StreamPlan", "memory_of_steps", "run_stream"]

SETTLED = 16
"""Steps after which memory must not grow."""
GROWTH_LIMIT = 4 << 20
"""Bytes that memory may differ by after that: Python's own objects, about 15 kB per token, and noise."""
_BLOCKS = 1 << 14
"""Bytes from which the allocator hands a block back at once."""


@dataclass(frozen=True)
class StreamPlan:
    """What to measure: `steps` steps, which write one token each after a prompt of each of the `lengths`."""

    subject: str = "llada-8b"
    layers: int = 2
    lengths: tuple[int, ...] = (64,)
    steps: int = 128
    threads: int | None = None

    def __post_init__(self) -> None:
        if self.subject not in SUBJECTS:
            raise FloatlensError(f'bench: subject "{self.subject}"; give one of {", ".join(SUBJECTS)}')
        if SUBJECTS[self.subject].kind != "mdm":
            raise FloatlensError(f'bench: subject "{self.subject}" is autoregressive; give a diffusion model')
        if self.steps <= SETTLED or any(length < SETTLED for length in self.lengths):
            raise FloatlensError(f"bench: more than {SETTLED} steps, and prompts of at least {SETTLED} tokens")
        if not LINUX:
            raise FloatlensError("bench: memory per step is measured on Linux only")


@dataclass
class StreamMeasured:
    """One length: bytes of anonymous memory over the idle model, at each step; the peak while the trace is saved over
    what is held before; the arrays of the trace, and its file."""

    subject: str
    layers: int
    length: int
    held: list[int] = field(default_factory=list)
    saving: int = 0
    arrays: int = 0
    file: int = 0

    def growth(self) -> int:
        """The most that a later step holds over what step 16 held."""
        return max(self.held[SETTLED:]) - self.held[SETTLED - 1]


class _Memory(Probe):
    """Looks at the memory of the process whenever a token is committed, and finds nothing of its own."""

    name = "memory"
    variables = ()
    batched = True

    def __init__(self) -> None:
        self.held: list[int] = []

    def committed(self, one: Committed) -> None:
        self.held.append(anonymous())


def run_stream(plan: StreamPlan, say: Callable[[str], object] = lambda _: None) -> list[StreamMeasured]:
    """Trace each length in a process of its own; `say` gets a line each."""
    results = []
    for prompt in plan.lengths:
        given = [plan.subject, plan.layers, prompt, plan.steps, plan.threads]
        held, rest = fresh(__name__, "memory_of_steps", given, f"{plan.steps} steps", blocks=_BLOCKS)
        found = StreamMeasured(plan.subject, plan.layers, prompt + plan.steps, held, *rest)
        say(f"T = {found.length}: from step {SETTLED} on memory grows by {found.growth() / 2**20:.1f} MiB")
        results.append(found)
    return results


def memory_of_steps(
    subject: str, layers: int, prompt: int, steps: int, threads: int | None
) -> tuple[list[int], Sequence[int]]:
    """Bytes over the idle model at each step; and (peak while saving, bytes of the arrays, bytes of the file)."""
    if threads is not None:
        torch.set_num_threads(threads)
    model = make_wide(SUBJECTS[subject], layers, prompt + steps, torch.device("cpu"))
    ids = torch.randint(0, 1000, (prompt,), generator=torch.Generator().manual_seed(prompt))
    with tempfile.TemporaryDirectory(prefix="floatlens-bench-") as folder:
        first = trace(model, prompt_ids=ids, probes=PROBES, sampler="llada", gen_length=2, steps=2)
        first.save(Path(folder) / "first")  # libraries load and pools start outside of the measurement
        del first
        memory, before = _Memory(), anonymous()
        probes = [*make_probes(PROBES), memory]
        made = trace(model, prompt_ids=ids, probes=probes, sampler="llada", gen_length=steps, steps=steps)
        with Peak() as peak:
            file = made.save(Path(folder) / "trace")
        return [one - before for one in memory.held], (peak.anonymous, made.data.nbytes, file.stat().st_size)
