"""What `floatlens show` and `floatlens models` print: traces, families and checkpoints as tables for a terminal.

Everything is built of rich's `Text`, so nothing that a model or a file says is read as markup. It looks; it does not
analyse: the one number computed here is a mean over steps and heads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from floatlens.errors import FloatlensError
from floatlens.terminal import clean, visible

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from floatlens.facts import Facts
    from floatlens.models.plan import Family
    from floatlens.traces import Trace

__all__ = ["answer_view", "facts_view", "families_view", "layers_view", "trace_view"]

KINDS = {"arm": "autoregressive", "mdm": "masked diffusion"}
_BLOCKS = "▁▂▃▄▅▆▇█"
_CELLS = 32


def _pairs(rows: Iterable[tuple[str, str | Text]]) -> Table:
    """Names on the left, what they stand for on the right."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, Text(clean(value)) if isinstance(value, str) else value)
    return table


def _columns(*titles: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="cyan")
    for title in titles:
        table.add_column(title, no_wrap=True)
    return table


# -- models -------------------------------------------------------------------------------------------------------


def families_view(families: Sequence[Family]) -> Table:
    """The families: kind, whose logits decide a position, and what they read."""
    table = _columns("family", "kind", "a position is decided by")
    table.add_column("reads", overflow="fold")
    for family in families:
        row = "the row before it" if family.shift else "its own row"
        table.add_row(Text(family.name, style="bold"), KINDS[family.kind], row, Text(family.about))
    return table


def facts_view(facts: Facts) -> Table:
    """What is known of a checkpoint without its weights."""
    heads = f"{facts.heads} per layer"
    if facts.kv_heads != facts.heads:
        heads += f", {facts.kv_heads} key/value heads"
    rows = [
        ("model", facts.ref if facts.revision is None else f"{facts.ref} at {facts.revision}"),
        ("family", f"{facts.family} ({KINDS[facts.kind]})"),
        ("read as", facts.architecture),
        ("layers", f"{facts.layers}" + (f" of width {facts.width}" if facts.width else "")),
        ("heads", heads),
        ("vocabulary", f"{facts.vocabulary:,}"),
        ("context", "not stated" if facts.context is None else f"{facts.context:,} tokens"),
        ("decided by", "the row before a position" if facts.shift else "a position's own row"),
    ]
    if facts.mask_id is not None:
        rows.append(("mask token", f"{facts.mask_id}" + (f" {facts.mask_text}" if facts.mask_text else "")))
    rows.append(("tokenizer", facts.tokenizer or "none: token ids only"))
    return _pairs(rows)


# -- traces -------------------------------------------------------------------------------------------------------


def answer_view(trace: Trace) -> Table:
    """Question and answer."""
    return _pairs(
        [
            ("question", trace.data.attrs["prompt"]["question"] or "(none: a bare prompt)"),
            ("answer", Text(clean(trace.answer or "") or "(empty)", style="bold")),
        ]
    )


def trace_view(trace: Trace, where: str) -> Table:
    """Where a trace comes from and what it holds."""
    attrs, model = trace.data.attrs, trace.model
    heads = f"{model['heads']} heads" + (f" on {model['kv_heads']}" if model["kv_heads"] != model["heads"] else "")
    decoding = attrs["decoding"]
    settings = ", ".join(f"{name} {value}" for name, value in decoding["settings"].items())
    versions = ", ".join(f"{name} {attrs['versions'][name]}" for name in ("floatlens", "torch", "transformers"))
    revision = "" if model["revision"] is None else f" at {model['revision']}"
    return _pairs(
        [
            ("trace", where),
            ("model", f"{model['ref']}{revision}"),
            ("", f"{model['family']}, {KINDS[model['kind']]}, {model['layers']} layers, {heads}, {model['dtype']}"),
            ("decoded by", f"{decoding['sampler']} in {decoding['forward_passes']} forward passes"),
            ("", settings),
            ("prompt", _prompt_line(trace)),
            *_held(trace),
            ("made with", versions),
        ]
    )


def _prompt_line(trace: Trace) -> str:
    attrs = trace.data.attrs
    prompt, length = attrs["prompt"], attrs["decoding"]["prompt_length"]
    region_of = trace.data["region_of"].values[:length].tolist()
    gold = None if prompt["gold"] is None else f"doc{prompt['gold'] + 1}"
    counted = [(name, region_of.count(i)) for i, name in enumerate(trace.regions)]
    regions = ", ".join(f"{name}{' (gold)' * (name == gold)} {count}" for name, count in counted if count)
    line = f"{length} tokens: {regions}"
    if prompt["template"] is not None:
        line = f"{prompt['template']}{', as a chat message' * bool(prompt['chat'])}; {line}"
    if prompt["dropped_documents"]:
        line += f"; {prompt['dropped_documents']} documents dropped to fit"
    marked = int(trace.data["evidence"].values.sum())
    return line + (f"; {marked} tokens of evidence ({prompt['evidence_kind']})" if marked else "; no evidence marked")


def _held(trace: Trace) -> list[tuple[str, str]]:
    """One line per probe: its variables that are there, with the sizes of the first."""
    from floatlens.traces.schema import BY_PROBE

    sizes = trace.data.sizes
    lines = [("sizes", ", ".join(f"{sizes[dim]} {dim}s" for dim in ("step", "layer", "head", "key") if dim in sizes))]
    for probe, table in BY_PROBE.items():
        names = [name for name in table if name in trace.data.variables]
        if names:
            size = sum(trace.data[name].nbytes for name in names)
            label = "holds" if len(lines) == 1 else ""
            lines.append((label, f"{probe}: {', '.join(names)} ({_bytes(size)})"))
    return lines if len(lines) > 1 else [*lines, ("holds", "nothing from probes")]


def _bytes(count: int) -> str:
    size, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.0f} {unit}" if size >= 10 or unit == "B" else f"{size:.1f} {unit}"


def layers_view(trace: Trace, *, step: int | None = None, top: int = 4) -> Table:
    """For each layer where attention goes: a strip over the sequence, and the keys that receive most."""
    shares = _shares(trace, step)
    over = f"step {step}" if step is not None else f"{trace.data.sizes['step']} steps"
    table = _columns("layer", f"received, mean of heads and {over}")
    table.columns[0].justify = "right"
    table.add_column(f"top {top} keys: share, token, position, region", overflow="ellipsis", no_wrap=True)
    for layer, share in zip(trace.data["layer"].values.tolist(), shares, strict=True):
        table.add_row(str(layer), _strip(share), _top(trace, share, top))
    return table


def _shares(trace: Trace, step: int | None) -> NDArray[np.float64]:
    """(layer, key): share of attention received; keys that did not exist yet have received nothing."""
    import numpy as np

    trace.require("received")
    received = trace.data["received"]
    steps = received["step"].values.tolist()
    if step is not None and step not in steps:
        raise FloatlensError(f"--step {step}: this trace holds steps {steps[0]} to {steps[-1]} ({len(steps)} of them)")
    chosen = range(len(steps)) if step is None else [steps.index(step)]
    total = np.zeros((received.sizes["layer"], received.sizes["key"]))
    for i in chosen:  # one at a time: all steps at once may not fit into memory
        one = np.nan_to_num(received.isel(step=i).values.astype(np.float64))
        total += one.mean(axis=1) if one.ndim == 3 else one
    shares: NDArray[np.float64] = total / len(chosen)
    return shares


def _strip(share: NDArray[np.float64]) -> Text:
    """The sequence from left to right in a few cells, each as high as its share compared with the highest."""
    import numpy as np

    cells = np.array([part.sum() for part in np.array_split(share, min(_CELLS, len(share)))])
    height = np.ceil(cells / max(cells.max(), 1e-12) * len(_BLOCKS)).astype(int).clip(1, len(_BLOCKS))
    return Text("".join(_BLOCKS[h - 1] for h in height), style="green")


def _top(trace: Trace, share: NDArray[np.float64], count: int) -> Text:
    tokens, regions = trace.tokens, trace.regions
    region_of = trace.data["region_of"].values
    line = Text()
    for position in (-share).argsort(kind="stable")[:count].tolist():
        token = visible(tokens[position]) if tokens else f"id {int(trace.data['final'].values[position])}"
        line.append(f"{share[position]:6.1%} ")
        line.append(token, style="bold")
        line.append(f" {position} {regions[int(region_of[position])]} ", style="dim")
    return line
