"""The benchmark as a table: Markdown to read, JSON to compare."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict
from pathlib import Path

import torch

from floatlens.bench.run import Measured

__all__ = ["as_markdown", "rows", "save"]

HEADER = ("T", "steps", "plain, s per step", "ours ÷ plain", "ours ÷ eager", "eager ÷ plain", "memory of capture")

_LEGEND = (
    "Ratios are of the time per step: median (smallest–largest) over rounds. plain: sdpa and all logits at each step, "
    "as in the published samplers. eager: output_attentions=True reduced to received. ours: received, entropy, flow, "
    "answer_rows and qk of every step, layer and head. Memory: peak of ours over the same decoder without capture, "
    "each in a fresh process whose allocator hands large blocks back at once (MALLOC_MMAP_THRESHOLD_)."
)


def rows(results: list[Measured]) -> list[tuple[str, ...]]:
    """One row per length; ratios as median (smallest–largest) over rounds."""
    return [
        (
            str(m.length),
            str(m.steps),
            f"{sorted(m.seconds['plain'])[len(m.seconds['plain']) // 2]:.3f}",
            _ratio(m, "ours", "plain"),
            _ratio(m, "ours", "eager"),
            _ratio(m, "eager", "plain"),
            "–" if (extra := m.capture_memory()) is None else f"{extra / 2**20:.0f} MiB",
        )
        for m in results
    ]


def _ratio(measured: Measured, variant: str, base: str) -> str:
    found = measured.ratio(variant, base)
    if found is None:
        return next((f"not run: eager {why}" for why in measured.skipped.values()), "–")
    return f"{found[0]:.2f} ({found[1]:.2f}–{found[2]:.2f})"


def as_markdown(results: list[Measured]) -> str:
    lines = [HEADER, tuple("---:" for _ in HEADER), *rows(results)]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    conditions = (
        f"{len(results[0].seconds['plain'])} rounds, interleaved; {torch.get_num_threads()} threads, float32, "
        f"torch {torch.__version__}, {platform.machine()}."
    )
    return f"{table}\n\n{conditions} {_LEGEND}\n"


def save(results: list[Measured], folder: str | Path) -> tuple[Path, Path]:
    """Write `capture.md` and `capture.json` into a folder; returns both paths."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    table, numbers = target / "capture.md", target / "capture.json"
    table.write_text(f"# What capture costs\n\n`floatlens bench`\n\n{as_markdown(results)}")
    numbers.write_text(json.dumps([asdict(measured) for measured in results], indent=1) + "\n")
    return table, numbers
