"""What `floatlens show` and `floatlens models` print: traces, families and checkpoints as tables for a terminal.

Everything is built of rich's `Text`, so nothing that a model or a file says is read as markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from floatlens.cli.tables import labelled_table, new_table
from floatlens.cli.terminal import clean, many, visible
from floatlens.core.errors import FloatlensError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from floatlens.analysis.measure import Measure
    from floatlens.models.compatibility import Compatible
    from floatlens.models.facts import Facts
    from floatlens.models.requirements import Requirements
    from floatlens.traces import Trace
    from floatlens_lab.scale.evaluation import Summary

__all__ = [
    "answer_view",
    "compatibility_view",
    "facts_view",
    "layers_view",
    "pairs",
    "requirements_view",
    "scale_view",
    "trace_view",
]

KINDS = {"arm": "autoregressive", "mdm": "masked diffusion"}
_TOKEN = 12  # characters of a token that are shown
_KEY = 16  # columns that a key takes at least
_BLOCKS = "▁▂▃▄▅▆▇█"


def pairs(rows: Iterable[tuple[str, str | Text]]) -> Table:
    """Names on the left, what they stand for on the right."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, Text(clean(value)) if isinstance(value, str) else value)
    return table


# -- models -------------------------------------------------------------------------------------------------------


def compatibility_view(rows: Sequence[Compatible]) -> Table:
    """The compatibility table without the checkpoints, which would not fit in 80 columns; "shift": the logits of a row
    decide the next position."""
    table = new_table("family", "mask", "shift", "sampler", "verified")
    for row in rows:
        cells = (row.mask, "yes" if row.shift else "no", row.sampler, row.verified)
        table.add_row(Text(clean(row.family), style="bold"), *(Text(clean(cell)) for cell in cells))
    return table


def checkpoints_view(rows: Sequence[Compatible]) -> Table:
    """Which checkpoints each family reads; families come in the order of the rows."""
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row.family, []).append(row.checkpoints)
    return pairs((family, "; ".join(checkpoints)) for family, checkpoints in found.items())


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
        ("attention", _attention(facts)),
        ("logits", "shifted: row i decides position i + 1" if facts.shift else "unshifted: row i decides position i"),
    ]
    if facts.mask_id is not None:
        rows.append(("mask token", f"{facts.mask_id}" + (f" {facts.mask_text}" if facts.mask_text else "")))
    rows.append(("tokenizer", facts.tokenizer or "none: token ids only"))
    return pairs(rows)


def _attention(facts: Facts) -> str:
    rule = str(facts.attention).replace("_", "-")
    return rule if facts.block_size is None else f"{rule}, blocks of {facts.block_size}"


def requirements_view(found: Requirements) -> Table:
    """What loading a checkpoint takes."""
    facts = found.facts
    rows = [
        ("model", facts.ref if facts.revision is None else f"{facts.ref} at {facts.revision}"),
        (
            "loads",
            f"{'once all files are there' if found.missing_files else 'yes'}, as {facts.family} ({KINDS[facts.kind]})",
        ),
        ("class", facts.architecture),
        ("attention", _attention(facts)),
        ("logits", "shifted" if facts.shift else "unshifted"),
        ("sampler", found.sampler),
    ]
    if facts.mask_id is not None:
        rows.append(("mask token", f"{facts.mask_id}" + (f" {facts.mask_text}" if facts.mask_text else "")))
    stored = ", ".join(f"{count} {dtype}" for dtype, count in sorted(found.stored.items()))
    compared = {"nothing": "not compared before loading"}.get(found.compared, f"{found.compared} fit the class")
    tensors = f"{found.tensors:,}" if found.tensors else "not listed"
    rows += [
        ("parameters", f"{found.parameters:,}"),
        ("tensors", f"{tensors}{f' ({stored})' if stored else ''}: {compared}"),
        ("memory", ", ".join(f"{_bytes(size)} in {dtype}" for dtype, size in found.memory.items()) + ", weights alone"),
    ]
    if found.missing_files:
        rows.append(("missing", f"{many(len(found.missing_files), 'weight file')}: {', '.join(found.missing_files)}"))
    return pairs(rows)


# -- scale models -------------------------------------------------------------------------------------------------


def scale_view(results: Mapping[str, Sequence[Summary]]) -> Group:
    """Accuracy of every model on every question set, then by the place of the gold document."""
    any_model = next(iter(results.values()))
    table = labelled_table(Text("accuracy, %"), [summary.which for summary in any_model])
    count = max((len(summary.places) for summary in any_model), default=0)
    places = labelled_table(Text("gold at"), [str(place) for place in range(count)])
    for ref, summaries in results.items():
        table.add_row(Text(clean(ref), style="bold"), *(f"{100 * summary.accuracy:.1f}" for summary in summaries))
        for summary in summaries:
            if summary.places:
                shares = (f"{100 * right / asked:.0f}" for right, asked in summary.places)
                places.add_row(Text(clean(ref), style="bold"), *shares)
    table.add_row("guessing", *(f"{100 * summary.chance:.1f}" for summary in any_model), style="dim")
    return Group(table, "", places) if places.rows else Group(table)


# -- traces -------------------------------------------------------------------------------------------------------


def answer_view(trace: Trace) -> Table:
    """Question and answer."""
    prompt, likelihood = trace.data.attrs["prompt"], trace.log_likelihood
    cut = prompt.get("hole") is not None
    return pairs(
        [
            ("question", prompt["question"] or f"(none: a {'passage with a hole' if cut else 'bare prompt'})"),
            ("forced" if trace.forced else "answer", Text(clean(trace.answer or "") or "(empty)", style="bold")),
            *([("log p", f"{likelihood:.3f} nats per token")] if likelihood is not None else []),
        ]
    )


def trace_view(trace: Trace, where: str) -> Table:
    """Where a trace comes from and what it holds."""
    attrs, model = trace.data.attrs, trace.model
    heads = many(model["heads"], "head") + (f" on {model['kv_heads']}" if model["kv_heads"] != model["heads"] else "")
    sizes = (model.get("family"), KINDS[model["kind"]], many(model["layers"], "layer"), heads, model.get("dtype"))
    decoding, made = attrs["decoding"], attrs["versions"]
    settings = ", ".join(f"{name} {value}" for name, value in decoding.get("settings", {}).items())
    versions = ", ".join(f"{name} {made[name]}" for name in ("floatlens", "torch", "transformers") if name in made)
    how = f"{decoding.get('sampler', '(unknown)')} in {many(decoding['forward_passes'], 'forward pass')}"
    revision = "" if model.get("revision") is None else f" at {model['revision']}"
    return pairs(
        [
            ("trace", where),
            ("model", f"{model['ref']}{revision}"),
            ("", ", ".join(filter(None, sizes))),
            ("decoded by", how),
            ("", settings),
            ("prompt", _prompt_line(trace)),
            *_held(trace),
            ("made with", versions),
        ]
    )


def _prompt_line(trace: Trace) -> str:
    attrs = trace.data.attrs
    prompt, length = attrs["prompt"], attrs["decoding"].get("prompt_length", trace.data.sizes["key"])
    region_of = trace.data["region_of"].values[:length].tolist()
    gold = None if prompt["gold"] is None else f"doc{prompt['gold'] + 1}"
    counted = [(name, region_of.count(i)) for i, name in enumerate(trace.regions)]
    regions = ", ".join(f"{name}{' (gold)' * (name == gold)} {count}" for name, count in counted if count)
    line = f"{length} tokens: {regions}"
    if prompt.get("template") is not None:
        line = f"{prompt['template']}{', as a chat message' * bool(prompt.get('chat'))}; {line}"
    if prompt.get("dropped_documents"):
        line += f"; {prompt['dropped_documents']} documents dropped to fit"
    marked = int(trace.data["evidence"].values.sum())
    return line + (
        f"; evidence: {many(marked, 'token')} ({prompt.get('evidence_kind')})" if marked else "; no evidence marked"
    )


def _held(trace: Trace) -> list[tuple[str, str]]:
    """One line per probe: its variables that are there, with the sizes of the first."""
    sizes = trace.data.sizes
    lines = [("sizes", ", ".join(many(sizes[dim], dim) for dim in ("step", "layer", "head", "key") if dim in sizes))]
    for probe, names in trace.by_probe.items():
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


def layers_view(trace: Trace, *, step: int | None = None, top: int | None = None, width: int = 120) -> Group:
    """For each layer, a strip of attention over the sequence and the keys that receive the most; contribution where
    some layers have no attention.

    `width` is that of the terminal; by default as many keys are named as fit.
    """
    shares = _shares(trace, step)
    cells = 32 if width >= 110 else 16
    named = [_top(trace, share, top or max(1, width // _KEY)) for share in shares]
    count = top or _fitting(named, width - cells - 9)
    table = new_table("layer", "sequence", *("top keys" if i == 0 else "" for i in range(count)))
    table.columns[0].justify = "right"
    for layer, share, keys in zip(trace.data["layer"].values.tolist(), shares, named, strict=True):
        table.add_row(str(layer), _strip(share, cells), *keys[:count])
    heads = "heads" if trace.data.attrs["heads"] == "mean" else many(trace.data.sizes["head"], "head")
    steps = many(trace.data.sizes["step"], "step")
    when = f", mean over {steps} and {heads}" if step is None else f" in step {step}, mean over {heads}"
    return Group(Text(f"{_shown_measure(trace)} received{when}; keys as share, token, position, region"), table)


def _fitting(named: Sequence[Sequence[Text]], width: int) -> int:
    """How many columns of keys fit, at least one."""
    used = 0
    for count, column in enumerate(zip(*named, strict=False)):
        used += max(key.cell_len for key in column) + 2
        if used > width:
            return max(count, 1)
    return max(map(len, named))


def _shown_measure(trace: Trace) -> Measure:
    held = trace.data.variables
    return (
        "contribution" if "contribution" in held and ("reach" in trace.model or "received" not in held) else "attention"
    )


def _shares(trace: Trace, step: int | None) -> NDArray[np.float64]:
    """(layer, key): share of attention received; keys that did not exist yet have received nothing."""
    import numpy as np

    from floatlens.analysis.measure import variable_of

    name = variable_of(_shown_measure(trace), "received")
    trace.require(name)
    received = trace.data[name]
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


def _strip(share: NDArray[np.float64], cells: int) -> Text:
    """The sequence from left to right in a few cells, each as high as its share compared with the highest."""
    import numpy as np

    parts = np.array([part.sum() for part in np.array_split(share, min(cells, len(share)))])
    height = np.ceil(parts / max(parts.max(), 1e-12) * len(_BLOCKS)).astype(int).clip(1, len(_BLOCKS))
    return Text("".join(_BLOCKS[h - 1] for h in height), style="green")


def _top(trace: Trace, share: NDArray[np.float64], count: int) -> list[Text]:
    tokens, region_of = trace.tokens, trace.data["region_of"].values
    cells = []
    for position in (-share).argsort(kind="stable")[:count].tolist():
        token = visible(tokens[position]) if tokens else f"id {int(trace.data['final'].values[position])}"
        token = token if len(token) <= _TOKEN else f"{token[: _TOKEN - 1]}…"
        region = trace.regions[int(region_of[position])]
        cells.append(Text.assemble(f"{share[position]:5.1%} ", (token, "bold"), (f" {position} {region}", "dim")))
    return cells
