"""Runs the comparison: times in one process, variants taking turns; peak memory in a fresh process each."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from floatlens.core.errors import FloatlensError
from floatlens_lab.bench.subject import VARIANTS, make_model, make_prompt

__all__ = ["LINUX", "Measured", "Plan", "fresh", "fresh_process", "from_proc", "memory_settings", "peak_memory", "run"]

LINUX = sys.platform == "linux"
_EAGER_BYTES = 11 * 8 * 4
"""Eager attention keeps 8 layers × 8 heads × T² floats and needs about three more layers' worth to work in."""


@dataclass(frozen=True)
class Plan:
    """What to measure. Steps shrink with length, so a run takes minutes: 32 at 512, 2 at 8192."""

    lengths: tuple[int, ...] = (512, 1024, 2048, 4096, 8192)
    rounds: int = 5
    threads: int | None = None
    memory: bool = LINUX
    most_steps: int = 32

    def __post_init__(self) -> None:
        if self.rounds < 1 or any(length < 64 for length in self.lengths):
            raise FloatlensError("bench: lengths start at 64 and rounds at 1")

    def steps(self, length: int) -> int:
        return min(self.most_steps, max(2, 16384 // length))


@dataclass
class Measured:
    """One length: seconds per step of each variant in each round, and peak memory over the idle model, in bytes."""

    length: int
    steps: int
    seconds: dict[str, list[float]] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    def ratio(self, variant: str, base: str) -> tuple[float, float, float] | None:
        """Median, smallest and largest over rounds of variant ÷ base, each pair measured next to one another."""
        if variant not in self.seconds or base not in self.seconds:
            return None
        pairs = [a / b for a, b in zip(self.seconds[variant], self.seconds[base], strict=True)]
        return statistics.median(pairs), min(pairs), max(pairs)

    def capture_memory(self) -> int | None:
        """Peak memory of the captured run over that of the same decoder without capture."""
        return self.memory["ours"] - self.memory["lean"] if "ours" in self.memory else None


def run(plan: Plan, say: Callable[[str], None] = lambda _: None) -> list[Measured]:
    """Measure every length of the plan; `say` gets a line of progress now and then."""
    if plan.threads is not None:
        torch.set_num_threads(plan.threads)
    results = []
    for length in plan.lengths:
        measured = Measured(length, plan.steps(length))
        _time(measured, plan, say)
        if plan.memory:
            for variant in ("plain", "lean", "ours"):
                say(f"T = {length}: peak memory of {variant}")
                given = [length, variant, plan.threads]
                measured.memory[variant] = fresh_process(__name__, "peak_memory", given, f"{variant} at T = {length}")
        results.append(measured)
    return results


def _time(measured: Measured, plan: Plan, say: Callable[[str], None]) -> None:
    model, prompt = make_model(measured.length), make_prompt(measured.length)
    names = [name for name in VARIANTS if name != "lean"]
    needed = _EAGER_BYTES * measured.length**2
    if LINUX and needed > from_proc("/proc/meminfo", "MemAvailable"):
        names.remove("eager")
        measured.skipped["eager"] = f"needs about {needed / 2**30:.0f} GiB"
    for name in names:  # one step each, so first calls are not measured
        VARIANTS[name](model, prompt, 1)
    measured.seconds = {name: [] for name in names}
    for number in range(plan.rounds):
        for name in names:
            begin = time.perf_counter()
            VARIANTS[name](model, prompt, measured.steps)
            measured.seconds[name].append((time.perf_counter() - begin) / measured.steps)
        last = ", ".join(f"{name} {measured.seconds[name][-1] * 1e3:.0f} ms" for name in names)
        say(f"T = {measured.length}: round {number + 1} of {plan.rounds}, a step takes {last}")


def fresh_process(module: str, function: str, given: list[Any], what: str) -> int:
    """What a function of a module returns in a process of its own: peak memory is a property of a process."""
    return int(fresh(module, function, given, what))


def fresh(module: str, function: str, given: list[Any], what: str, blocks: int = 1 << 20) -> Any:
    """The same for a function that returns more than a number: whatever JSON can say."""
    called = f"print(json.dumps({function}(*json.loads(sys.argv[1]))))"
    program = f"import json, sys; from {module} import {function}; {called}"
    command = [sys.executable, "-c", program, json.dumps(given)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=memory_settings(blocks))
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise FloatlensError(f"bench: measuring the memory of {what} failed: {last}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def memory_settings(blocks: int = 1 << 20) -> dict[str, str]:
    """The environment of a process whose memory is measured.

    glibc is told to hand blocks of so many bytes back at once: the peak is then what is in use, and not what its heap
    keeps.
    """
    return os.environ | {"MALLOC_MMAP_THRESHOLD_": str(blocks), "PYTHONPATH": os.pathsep.join(sys.path)}


def peak_memory(length: int, variant: str, threads: int | None) -> int:
    """Bytes by which the process's peak while decoding exceeds what it held before (needs Linux's /proc)."""
    if threads is not None:
        torch.set_num_threads(threads)
    model, prompt = make_model(length), make_prompt(length)
    VARIANTS[variant](make_model(64), make_prompt(64), 1)  # libraries load and pools start outside of the measurement
    before = from_proc("/proc/self/status", "VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # sets the peak back to what is held now
    VARIANTS[variant](model, prompt, 4 if length < 8192 else 2)
    return max(0, from_proc("/proc/self/status", "VmHWM") - before)


def from_proc(file: str, field_name: str) -> int:
    """A size that Linux tells in kB, in bytes."""
    for line in Path(file).read_text().splitlines():
        if line.startswith(field_name + ":"):
            return int(line.split()[1]) * 1024
    raise FloatlensError(
        f"bench: {file} does not tell {field_name}; memory is measured on Linux only (use --no-memory)"
    )
