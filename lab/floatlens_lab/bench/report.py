"""The benchmark as tables: Markdown to read, JSON to compare."""

from __future__ import annotations

import json
import platform
import statistics
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from floatlens_lab.bench.contribution import ContributionMeasured
from floatlens_lab.bench.digests import DigestsMeasured
from floatlens_lab.bench.edits import EditsMeasured
from floatlens_lab.bench.run import Measured

__all__ = [
    "as_markdown",
    "contribution_as_markdown",
    "digests_as_markdown",
    "edit_rows",
    "edits_as_markdown",
    "rows",
    "save",
    "save_contribution",
    "save_digests",
    "save_edits",
]

HEADER = ("T", "steps", "plain, s per step", "ours ÷ plain", "ours ÷ eager", "eager ÷ plain", "memory of capture")

_LEGEND = (
    "Ratios are of the time per step: median (smallest–largest) over rounds. plain: sdpa and all logits at each step, "
    "as in the published samplers. eager: output_attentions=True reduced to received. ours: all "
    "default probes, of every step, layer and head. Memory: peak of ours over the same decoder without capture, "
    "each in a fresh process whose allocator hands large blocks back at once (MALLOC_MMAP_THRESHOLD_)."
)


LIMIT = 1.3
"""What an edit may cost, times the captured run; what costs more is marked."""
_KINDS = {"mdm": "diffusion", "arm": "autoregressive"}
_EDITS_LEGEND = (
    "edited ÷ captured: median (smallest–largest) over rounds, both from one round, with the default probes of every "
    "step, layer and head. Diffusion: the passes after the first, which edits that go by the step before leave alone. "
    "Autoregressive: the whole decode with a cache, prompt and tokens; after the semicolon the median of its tokens "
    "alone, without the prompt. Edits act on all layers and heads, but ablate_heads on 2 of 8 heads in every layer and "
    "freeze_layers on 4 of 8 layers, with a quarter of the vocabulary structural."
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
    table = table_of([HEADER, tuple("---:" for _ in HEADER), *rows(results)])
    return f"{table}\n\n{conditions(len(results[0].seconds['plain']))} {_LEGEND}\n"


def save(results: list[Measured], folder: str | Path) -> tuple[Path, Path]:
    """Write `capture.md` and `capture.json` into a folder; returns both paths."""
    return save_as(f"# What capture costs\n\n`floatlens bench`\n\n{as_markdown(results)}", results, folder, "capture")


def edit_rows(results: list[EditsMeasured]) -> list[tuple[str, ...]]:
    """One row per edit, one cell per model and length; above the limit in bold."""
    return [(name, *(_edit_cell(m, name) for m in results)) for name in results[0].later if name != "captured"]


def _edit_cell(measured: EditsMeasured, name: str) -> str:
    middle, low, high = measured.ratio(name)
    text = f"{middle:.2f} ({low:.2f}–{high:.2f})"
    text += f"; {measured.per_token(name):.2f}" if measured.kind == "arm" else ""
    return f"**{text}**" if round(middle, 2) > LIMIT else text


def edits_as_markdown(results: list[EditsMeasured]) -> str:
    header = ("edit", *(f"{_KINDS[m.kind]}, T = {m.length}, {m.passes} passes" for m in results))
    table = table_of([header, (":---", *("---:" for _ in results)), *edit_rows(results)])
    ratios = [m.ratio(name)[0] for m in results for name in m.later if name != "captured"]
    within = sum(round(ratio, 2) <= LIMIT for ratio in ratios)
    found = f"{within} of {len(ratios)} are at most {LIMIT} × the captured run"
    found += "; others are in bold." if within < len(ratios) else "."
    rounds = len(results[0].later["captured"])
    return f"{table}\n\n{found}\n\n{conditions(rounds)} {_EDITS_LEGEND}\n"


def save_edits(results: list[EditsMeasured], folder: str | Path) -> tuple[Path, Path]:
    """Write `edits.md` and `edits.json` into a folder; returns both paths."""
    text = f"# What edits cost\n\n`floatlens bench --part edits`\n\n{edits_as_markdown(results)}"
    return save_as(text, results, folder, "edits")


DIGEST_LIMIT = 0.02
"""What digests may cost, as a share of the time of a trace; what costs more is marked."""
_DIGESTS_LEGEND = (
    "digests ÷ trace: seconds to write and to check the digests of a trace, over the seconds to decode, capture and "
    "save it without them; median (smallest–largest) over rounds, all parts from one round."
)


def digests_as_markdown(results: list[DigestsMeasured]) -> str:
    header = ("T", "steps", "file", "trace, s", "write digests, ms", "check digests, ms", "digests ÷ trace")
    lines = [header, tuple("---:" for _ in header), *(_digest_row(measured) for measured in results)]
    return f"{table_of(lines)}\n\n{conditions(len(results[0].traced))} {_DIGESTS_LEGEND}\n"


def _digest_row(measured: DigestsMeasured) -> tuple[str, ...]:
    middle, low, high = measured.ratio()
    text = f"{middle:.2%} ({low:.2%}–{high:.2%})"
    return (
        str(measured.length),
        str(measured.steps),
        f"{measured.size / 2**20:.1f} MiB",
        f"{statistics.median(measured.traced):.2f}",
        f"{1000 * statistics.median(measured.written):.1f}",
        f"{1000 * statistics.median(measured.checked):.1f}",
        f"**{text}**" if middle > DIGEST_LIMIT else text,
    )


def save_digests(results: list[DigestsMeasured], folder: str | Path) -> tuple[Path, Path]:
    """Write `digests.md` and `digests.json` into a folder; returns both paths."""
    text = f"# Cost of digests\n\n`floatlens bench --part digests`\n\n{digests_as_markdown(results)}"
    return save_as(text, results, folder, "digests")


CONTRIBUTION_LIMIT = 1.1
"""What contributions may cost in attention, over capture without them; what costs more is marked."""
_CONTRIBUTION_LEGEND = (
    "contribution ÷ capture: seconds per step with the probe over seconds without it, 8 layers of attention; median "
    "(smallest–largest) over rounds. Mamba: one pass of 2 layers, width 128, state 16, both directions; memory: its "
    "peak over that of a pass without the probe."
)


def contribution_as_markdown(results: list[ContributionMeasured]) -> str:
    header = ("T", "steps", "capture, ms/step", "with contribution", "contribution ÷ capture", "Mamba, s", "memory")
    lines = [header, tuple("---:" for _ in header), *(_contribution_row(measured) for measured in results)]
    return f"{table_of(lines)}\n\n{conditions(len(results[0].without))} {_CONTRIBUTION_LEGEND}\n"


def _contribution_row(measured: ContributionMeasured) -> tuple[str, ...]:
    middle, low, high = measured.ratio()
    text = f"{middle:.2f} ({low:.2f}–{high:.2f})"
    return (
        str(measured.length),
        str(measured.steps),
        f"{1000 * statistics.median(measured.without):.0f}",
        f"{1000 * statistics.median(measured.with_it):.0f}",
        f"**{text}**" if round(middle, 2) > CONTRIBUTION_LIMIT else text,
        f"{statistics.median(measured.mamba):.2f}" if measured.mamba else "–",
        "–" if measured.memory is None else f"{measured.memory / 2**20:.0f} MiB",
    )


def save_contribution(results: list[ContributionMeasured], folder: str | Path) -> tuple[Path, Path]:
    """Write `contribution.md` and `contribution.json` into a folder; returns both paths."""
    table = contribution_as_markdown(results)
    text = f"# Cost of contributions\n\n`floatlens bench --part contribution`\n\n{table}"
    return save_as(text, results, folder, "contribution")


# -- what all tables share ---------------------------------------------------------------------------------------


def table_of(lines: list[tuple[str, ...]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def conditions(rounds: int) -> str:
    threads = f"{torch.get_num_threads()} threads, float32"
    return f"{rounds} rounds, interleaved; {threads}, torch {torch.__version__}, {platform.machine()}."


def save_as(text: str, results: list[Any], folder: str | Path, name: str) -> tuple[Path, Path]:
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    table, numbers = target / f"{name}.md", target / f"{name}.json"
    table.write_text(text)
    numbers.write_text(json.dumps([asdict(measured) for measured in results], indent=1) + "\n")
    return table, numbers
