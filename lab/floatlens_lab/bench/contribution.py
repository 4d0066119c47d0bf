"""Cost of contributions: in attention, capture with the probe beside capture without it; in Mamba, time and memory.

Memory is the peak of a pass in which contributions are measured over the peak of one in which they are not, each in a
process of its own. Linear growth is what methods §15 asks for; time grows with the square, since every pair is looked
at.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch

from floatlens.attention.session import capture
from floatlens.core.errors import FloatlensError
from floatlens.models.base import LanguageModel
from floatlens.probes import make_probes
from floatlens_lab.bench.run import LINUX, fresh_process, from_proc
from floatlens_lab.bench.subject import PROBES, captured, make_model, make_prompt

__all__ = ["ContributionMeasured", "ContributionPlan", "make_mamba", "run_contribution"]

_WIDTH, _STATE, _LAYERS = 128, 16, 2


@dataclass(frozen=True)
class ContributionPlan:
    """What to measure: attention at `lengths`, Mamba up to `longest`."""

    lengths: tuple[int, ...] = (512, 1024, 2048)
    rounds: int = 3
    threads: int | None = None
    memory: bool = LINUX
    longest: int = 2048
    most_steps: int = 8
    clock: Callable[[], float] = time.perf_counter

    def __post_init__(self) -> None:
        if self.rounds < 1 or any(length < 64 for length in self.lengths):
            raise FloatlensError("bench: lengths start at 64 and rounds at 1")


@dataclass
class ContributionMeasured:
    """One length: seconds per step of capture `without` and `with_it`, of a Mamba pass, and its memory in bytes."""

    length: int
    steps: int
    without: list[float] = field(default_factory=list)
    with_it: list[float] = field(default_factory=list)
    mamba: list[float] = field(default_factory=list)
    memory: int | None = None

    def ratio(self) -> tuple[float, float, float]:
        """Median, smallest and largest over rounds of capture with contributions ÷ capture without."""
        found = [a / b for a, b in zip(self.with_it, self.without, strict=True)]
        return statistics.median(found), min(found), max(found)


def run_contribution(plan: ContributionPlan, say: Callable[[str], None] = lambda _: None) -> list[ContributionMeasured]:
    """Measure every length of the plan; `say` gets a line of progress now and then."""
    if plan.threads is not None:
        torch.set_num_threads(plan.threads)
    return [_measure(plan, length, say) for length in plan.lengths]


def _measure(plan: ContributionPlan, length: int, say: Callable[[str], None]) -> ContributionMeasured:
    model, prompt = make_model(length), make_prompt(length)
    found = ContributionMeasured(length, min(plan.most_steps, max(2, 8192 // length)))
    variants = {"without": PROBES, "with_it": (*PROBES, "contribution")}
    for probes in variants.values():  # first calls are not measured
        captured(model, prompt, 1, probes=probes)
    for number in range(plan.rounds):
        for name, probes in variants.items():
            began = plan.clock()
            captured(model, prompt, found.steps, probes=probes)
            getattr(found, name).append((plan.clock() - began) / found.steps)
        say(f"T = {length}: round {number + 1} of {plan.rounds}, contribution costs {found.ratio()[0]:.2f} ×")
    if length <= plan.longest:
        mamba = make_mamba()
        _pass(mamba, 64, measured=True)
        for _ in range(plan.rounds):
            began = plan.clock()
            _pass(mamba, length, measured=True)
            found.mamba.append(plan.clock() - began)
        if plan.memory:
            peaks = [_peak(length, measured, plan.threads) for measured in (True, False)]
            found.memory = peaks[0] - peaks[1]
    return found


def make_mamba() -> LanguageModel:
    """2 layers, width 128, state 16: bidirectional, with random weights."""
    from floatlens.models.bimamba import CaduceusConfig, CaduceusForMaskedLM

    torch.manual_seed(0)
    config = CaduceusConfig(
        vocab_size=512, hidden_size=_WIDTH, state_size=_STATE, num_hidden_layers=_LAYERS, use_conv_bias=True
    )
    module = CaduceusForMaskedLM(config)
    return LanguageModel(module, "caduceus", "mdm", "bench:mamba", shift=False, mask_id=511)


def _pass(model: LanguageModel, length: int, *, measured: bool) -> None:
    ids = torch.randint(0, 511, (1, length), generator=torch.Generator().manual_seed(length))
    with capture(model, make_probes(["contribution"] if measured else []), length=length):
        model.forward(ids)


def _peak(length: int, measured: bool, threads: int | None) -> int:
    return fresh_process(
        "floatlens_lab.bench.contribution", "peak_of_pass", [length, measured, threads], f"Mamba at T = {length}"
    )


def peak_of_pass(length: int, measured: bool, threads: int | None) -> int:
    """Bytes by which the peak of a pass exceeds what the process held before (needs Linux's /proc)."""
    if threads is not None:
        torch.set_num_threads(threads)
    model = make_mamba()
    _pass(model, 64, measured=measured)
    before = from_proc("/proc/self/status", "VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    _pass(model, length, measured=measured)
    return max(0, from_proc("/proc/self/status", "VmHWM") - before)
