"""Cost of digests: what writing and checking them takes, beside tracing and saving the same trace, in one run.

Digests are written once with a trace (`seal`) and checked when it is read (`inspect`, the digest of each piece, and
whether it decodes). Both are timed on the file that was just written, so the ratio holds for the machine it was
measured on.
"""

from __future__ import annotations

import statistics
import tempfile
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from numcodecs import Zstd  # type: ignore[import-untyped]

from floatlens.core.errors import FloatlensError
from floatlens.models.base import LanguageModel
from floatlens.traces.integrity import digest, inspect, seal
from floatlens.traces.tracing import trace
from floatlens_lab.bench.subject import GENERATED, PROBES, make_model, make_prompt

__all__ = ["DigestPlan", "DigestsMeasured", "run_digests"]


@dataclass(frozen=True)
class DigestPlan:
    """What to measure; the steps are those of the capture benchmark, fewer for longer sequences."""

    lengths: tuple[int, ...] = (512, 1024, 2048)
    rounds: int = 3
    threads: int | None = None
    most_steps: int = 8
    clock: Callable[[], float] = time.perf_counter

    def __post_init__(self) -> None:
        if self.rounds < 1 or any(length < 64 for length in self.lengths):
            raise FloatlensError("bench: lengths start at 64 and rounds at 1")


@dataclass
class DigestsMeasured:
    """One length: bytes of the file, and seconds of each round for tracing and saving, and for digests."""

    length: int
    steps: int
    size: int = 0
    traced: list[float] = field(default_factory=list)
    written: list[float] = field(default_factory=list)
    checked: list[float] = field(default_factory=list)

    def ratio(self) -> tuple[float, float, float]:
        """Median, smallest and largest over rounds of digests (written and checked) ÷ the trace itself."""
        parts = zip(self.traced, self.written, self.checked, strict=True)
        found = [(written + checked) / (traced - written) for traced, written, checked in parts]
        return statistics.median(found), min(found), max(found)


def run_digests(plan: DigestPlan, say: Callable[[str], None] = lambda _: None) -> list[DigestsMeasured]:
    """Measure every length of the plan; `say` gets a line of progress now and then."""
    if plan.threads is not None:
        torch.set_num_threads(plan.threads)
    return [_measure(plan, length, say) for length in plan.lengths]


def _measure(plan: DigestPlan, length: int, say: Callable[[str], None]) -> DigestsMeasured:
    model = make_model(length)
    found = DigestsMeasured(length, min(plan.most_steps, max(2, 8192 // length)))
    with tempfile.TemporaryDirectory(prefix="floatlens-") as folder:
        _one(model, 64, 1, Path(folder), DigestsMeasured(64, 1), plan.clock)  # first calls are not measured
        for number in range(plan.rounds):
            _one(model, length, found.steps, Path(folder), found, plan.clock)
            say(f"T = {length}: round {number + 1} of {plan.rounds}, digests are {found.ratio()[0]:.2%} of the trace")
    return found


def _one(
    model: LanguageModel, length: int, steps: int, folder: Path, found: DigestsMeasured, clock: Callable[[], float]
) -> None:
    began = clock()
    made = trace(
        model, prompt_ids=make_prompt(length), probes=PROBES, sampler="llada", gen_length=GENERATED, steps=steps
    )
    file = made.save(folder / "trace")
    found.traced.append(clock() - began)
    found.size = file.stat().st_size
    with tempfile.TemporaryDirectory(dir=folder) as unpacked, zipfile.ZipFile(file) as archive:
        archive.extractall(unpacked)
        began = clock()
        seal(Path(unpacked))
        found.written.append(clock() - began)
        pieces = [archive.read(name) for name in archive.namelist()]
    packed = [piece for piece in pieces if not piece.startswith(b"{")]
    began = clock()
    with zipfile.ZipFile(file) as archive:
        inspect(archive, str(file))
    for piece in pieces:
        digest(piece)
    for piece in packed:
        Zstd().decode(piece)
    found.checked.append(clock() - began)
