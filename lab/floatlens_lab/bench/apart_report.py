"""Tables of the parts that run only when they are named: loading at full size, long traces, and other tools."""

from __future__ import annotations

from pathlib import Path

from floatlens_lab.bench.load import LOAD_LIMIT, LoadMeasured
from floatlens_lab.bench.others import AGREEMENT, OTHERS, OthersMeasured, versions_in_words
from floatlens_lab.bench.report import conditions, save_as, table_of
from floatlens_lab.bench.stream import GROWTH_LIMIT, SETTLED, StreamMeasured

__all__ = [
    "load_as_markdown",
    "others_as_markdown",
    "save_load",
    "save_others",
    "save_stream",
    "stream_as_markdown",
]

Lines = list[tuple[str, ...]]
Files = tuple[Path, Path]


def _mib(size: int) -> str:
    return f"{size / 2**20:.1f}"


def _marked(text: str, over: bool) -> str:
    return f"**{text}**" if over else text


_LOAD_LEGEND = (
    "Checkpoints are stored in bfloat16, in shards of at most 1 GiB, with the published tensor names, widths and "
    "vocabulary and random weights; each is loaded by fl.load on the CPU in a fresh process; the worst round counts. "
    "needed: the highest anonymous memory while loading, or all that is resident afterwards, whichever is more. "
    "resident: the kernel's peak, VmHWM, which also counts pages of the files that were mapped to be converted; they "
    "are clean and dropped when memory is short. Both over the process before loading. In bold: more than "
    f"{LOAD_LIMIT} × the weights needed."
)


def load_as_markdown(results: list[LoadMeasured]) -> str:
    header = ("subject", "layers", "dtype", "weights, MiB", "needed ÷ weights", "resident ÷ weights")
    lines: Lines = [header, tuple("---:" for _ in header)]
    for one in results:
        ratio, resident = one.ratio(), max(one.resident) / one.size
        needed = _marked(f"{ratio:.3f}", ratio > LOAD_LIMIT)
        lines.append((one.subject, str(one.layers), one.dtype, _mib(one.size), needed, f"{resident:.3f}"))
    return f"{table_of(lines)}\n\n{len(results[0].needed)} rounds. {_LOAD_LEGEND}\n"


def save_load(results: list[LoadMeasured], folder: str | Path) -> Files:
    """Write `load.md` and `load.json` into a folder; returns both paths."""
    command = f"floatlens bench --part load --subject {results[0].subject} --layers {results[0].layers}"
    return save_as(f"# Memory of loading\n\n`{command}`\n\n{load_as_markdown(results)}", results, folder, "load")


_STREAM_LEGEND = (
    "Anonymous memory over that of the idle model, looked at when a step's token is committed, with all "
    "default probes of every layer and head; one token per step, in a fresh process whose allocator hands "
    "blocks of 16 KiB and more back at once. growth: the most that any later step holds over what step "
    f"{SETTLED} held; in bold above {GROWTH_LIMIT >> 20} MiB. saving: the peak while the finished trace is written to "
    "its file, over what was held before."
)


def stream_as_markdown(results: list[StreamMeasured]) -> str:
    last = len(results[0].held)
    looked = [step for step in (1, SETTLED, 32, 64, 96) if step < last] + [last]
    header = ("T", *(f"step {step}, MiB" for step in looked), "growth, MiB", "saving, MiB", "arrays, MiB", "file, MiB")
    lines: Lines = [header, tuple("---:" for _ in header)]
    for one in results:
        growth = _marked(_mib(one.growth()), one.growth() > GROWTH_LIMIT)
        rest = (growth, _mib(one.saving), _mib(one.arrays), _mib(one.file))
        lines.append((str(one.length), *(_mib(one.held[step - 1]) for step in looked), *rest))
    made = f"{results[0].subject}, {results[0].layers} layers with random weights, {last} steps."
    return f"{table_of(lines)}\n\n{made} {_STREAM_LEGEND}\n"


def save_stream(results: list[StreamMeasured], folder: str | Path) -> Files:
    """Write `stream.md` and `stream.json` into a folder; returns both paths."""
    command = f"floatlens bench --part stream --subject {results[0].subject} --layers {results[0].layers}"
    text = f"# Memory of a long trace\n\n`{command}`\n\n{stream_as_markdown(results)}"
    return save_as(text, results, folder, "stream")


_OTHERS_LEGEND = (
    "One causal forward pass with all logits over the bench model (8 layers, 8 heads, width 512). Ratios are to "
    "the plain pass with sdpa: median (smallest–largest) over rounds; after the semicolon the peak of memory over the "
    "process before the pass. floatlens: the probe received. TransformerLens: run_with_cache of the patterns of all "
    "layers, reduced after the pass. nnsight: eager weights, reduced layer by layer within its trace. difference: the "
    f"largest of received attention from floatlens's; in bold above {AGREEMENT:g}, where the tool did not compute what "
    "was asked for."
)


def others_as_markdown(results: list[OthersMeasured]) -> str:
    header = ("T", "plain, ms", *("floatlens", *OTHERS), *(f"{name}, difference" for name in OTHERS))
    lines: Lines = [header, tuple("---:" for _ in header)]
    for one in results:
        plain = sorted(one.seconds["plain"])[len(one.seconds["plain"]) // 2]
        cells = [_cost(one, name) for name in ("floatlens", *OTHERS)]
        lines.append((str(one.length), f"{1000 * plain:.0f}", *cells, *(_difference(one, name) for name in OTHERS)))
    reasons = dict.fromkeys(
        f"{name} not run at T = {one.length}: {why}." for one in results for name, why in one.skipped.items()
    )
    said = "".join(f"{reason}\n" for reason in reasons) + ("\n" if reasons else "")
    rounds = conditions(len(results[0].seconds["plain"]))
    return f"{table_of(lines)}\n\n{said}{rounds} {_OTHERS_LEGEND} Versions: {versions_in_words(results)}.\n"


def _cost(measured: OthersMeasured, name: str) -> str:
    if name not in measured.seconds:
        return "not run"
    middle, low, high = measured.ratio(name)
    memory = f"; {_mib(measured.memory[name])} MiB" if name in measured.memory else ""
    return f"{middle:.2f} ({low:.2f}–{high:.2f}){memory}"


def _difference(measured: OthersMeasured, name: str) -> str:
    found = measured.difference.get(name)
    return "–" if found is None else _marked(f"{found:.1e}", not found <= AGREEMENT)


def save_others(results: list[OthersMeasured], folder: str | Path) -> Files:
    """Write `others.md` and `others.json` into a folder; returns both paths."""
    command = "floatlens bench --part others --python PYTHON"
    text = f"# Beside TransformerLens and nnsight\n\n`{command}`\n\n{others_as_markdown(results)}"
    return save_as(text, results, folder, "others")
