"""Figures, tables and verdicts from the traces of one or more runs, written into one folder. It computes nothing.

OUT/figures holds one file per figure and format, OUT/tables one CSV and one Parquet file per analysis and one for the
claims, with provenance.json saying what they rest on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from floatlens.analysis import ANALYSES, Result, analyse
from floatlens.analysis.anchors import anchors
from floatlens.analysis.qk import qk_maps
from floatlens.analysis.registry import with_rule
from floatlens.analysis.sources import trace_files
from floatlens.claims import Claim, claims, claims_frame
from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.core.files import write_atomically
from floatlens.runs.outputs import FORMATS, save_figure, save_frame
from floatlens.traces import Trace, open_trace

__all__ = ["Published", "publish_traces"]

_ANSWERS = {"gains", "stress", "edits"}
"""What figures of answers need; those are drawn with the tables of answers."""


class Published:
    """What was written: results by analysis, verdicts, files, and what was skipped with the reason."""

    def __init__(self, results: Mapping[str, Result], found: Sequence[Claim], skipped: Mapping[str, str]) -> None:
        self.results = dict(results)
        self.claims = list(found)
        self.files: list[Path] = []
        self.skipped = dict(skipped)


def publish_traces(
    runs: Sequence[Path],
    out: Path,
    *,
    only: Sequence[str] = (),
    formats: Sequence[str] = FORMATS,
    rule: str | None = None,
    analyses: Sequence[str] | None = None,
    more: Sequence[Claim] = (),
    each: Callable[[int, int], None] = lambda done, total: None,
    see: Callable[[Trace, Path], object] = lambda trace, file: None,
) -> Published:
    """Analyse the traces of runs in one pass, and write what they show. `each` is called after every trace.

    `only` names figures; tables are then those of the analyses behind them. `analyses` limits the analyses. `rule`
    replaces the anchor rule of every analysis that has one. `more` are verdicts on answers, for the same table. `see`
    is called with every trace.
    """
    from floatlens.plots.drawing import draw
    from floatlens.plots.registry import FIGURES, describe_figures

    _check(only, list(FIGURES), "figure")
    _check(formats, FORMATS, "format")
    files = [file for run in runs for file in trace_files(run)]
    wanted = dict.fromkeys(need for name in only for need in FIGURES[name].needs if need in ANALYSES)
    first: dict[str, Path] = {}
    skipped: dict[str, str] = {}
    settings = with_rule(wanted if only else ANALYSES if analyses is None else analyses, rule)
    results = analyse(_walk(files, first, each, see), settings, skipped=skipped)
    found = [*claims(results), *more]
    made = Published(results, found, skipped)
    figures = out / "figures"
    for folder in (figures, out / "tables"):
        folder.mkdir(parents=True, exist_ok=True)
    reasons: dict[str, str] = {}
    data = {**results, **_of_first(first, only, rule, reasons)}
    described = describe_figures(data, only or [n for n in FIGURES if not set(FIGURES[n].needs) & _ANSWERS])
    for name, figure in described.figures.items():
        made.files += save_figure(draw(figure), figures / name, formats)
    told = {name: why for name, why in described.skipped.items() if name not in ("anchors", "qk_maps")}
    made.skipped = told | reasons | made.skipped  # of an analysis the reason is the better one
    frames = {name: result.to_frame() for name, result in results.items()} | {"claims": claims_frame(found)}
    for name, frame in frames.items():
        made.files += save_frame(frame, out / "tables" / name)
    provenance = {name: result.provenance for name, result in results.items()}
    write_atomically(out / "tables" / "provenance.json", json.dumps(provenance, indent=1, ensure_ascii=False).encode())
    return made


def _check(given: Iterable[str], known: Sequence[str], what: str) -> None:
    for name in given:
        if name not in known:
            raise FloatlensError(f'no {what} "{name}"{did_you_mean(name, known)}')


def _walk(
    files: Sequence[Path],
    first: dict[str, Path],
    each: Callable[[int, int], None],
    see: Callable[[Trace, Path], object],
) -> Iterator[Trace]:
    for done, file in enumerate(files, 1):
        trace = open_trace(file)
        first.setdefault(trace.model["ref"], file)
        see(trace, file)
        yield trace
        each(done, len(files))


def _of_first(
    first: Mapping[str, Path], only: Sequence[str], rule: str | None, skipped: dict[str, str]
) -> dict[str, dict[str, Any]]:
    """What figures of one trace show, the first of each model: its anchors, and its q·k maps where it kept any."""
    from floatlens.plots.style import label_of

    found: dict[str, dict[str, Any]] = {"anchors": {}, "qk_maps": {}}
    for model, file in first.items():
        trace, label = open_trace(file), label_of(model, first)
        if only and not {"anchors", "qk_maps"} & set(only):
            break
        if "received" in trace.data:
            found["anchors"][label] = anchors(trace, rule=rule or "zscore")
        elif not only or "anchors" in only:
            skipped[f"anchors of {model}"] = 'the trace holds no "received"; trace again with that probe on'
        if "qk_matrix" in trace.data:
            kept = trace.data["qk_matrix"]
            head = int(kept["qk_matrix_head"].values[0])
            for layer in kept["qk_matrix_layer"].values.tolist():
                maps = qk_maps(trace, layer, head, rule=rule or "zscore")
                found["qk_maps"][f"{label}-layer{layer}-head{head}"] = maps
        elif "qk_maps" in only:
            skipped[f"qk_maps of {model}"] = "the trace kept no q·k heatmaps (see QK(heatmaps=…))"
    return found
