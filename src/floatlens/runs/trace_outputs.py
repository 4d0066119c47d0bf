"""Figures, tables and verdicts from the traces of one or more runs, written into one folder. It computes nothing.

OUT/figures holds one file per figure and format, OUT/tables one CSV and one Parquet file per analysis and one for the
claims, with provenance.json saying what they rest on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from floatlens.analysis import ANALYSES, Anchors, Result, analyse, anchors
from floatlens.analysis.qk_picture import qk_picture
from floatlens.analysis.sources import trace_files
from floatlens.claims import Claim, claims, claims_frame
from floatlens.claims.runs import with_rule
from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.core.files import write_atomically
from floatlens.runs.outputs import FORMATS, save_figure, save_frame
from floatlens.traces import Trace, open_trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PICTURES", "Published", "publish_traces"]

PICTURES = ("heatmap", "qk_maps")
"""Figures of one trace, the first of each model: received attention step by step, and q·k where it was kept."""


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
    from floatlens.plots.registry import FIGURES

    _check(only, [*FIGURES, *PICTURES], "figure")
    _check(formats, FORMATS, "format")
    files = [file for run in runs for file in trace_files(run)]
    wanted = dict.fromkeys(need for name in only if name in FIGURES for need in FIGURES[name].needs)
    first: dict[str, Path] = {}
    skipped: dict[str, str] = {}
    settings = with_rule(wanted if only else ANALYSES if analyses is None else analyses, rule)
    results = analyse(_walk(files, first, each, see), settings, skipped=skipped)
    found = [*claims(results), *more]
    made = Published(results, found, skipped)
    figures = out / "figures"
    for folder in (figures, out / "tables"):
        folder.mkdir(parents=True, exist_ok=True)
    for name, figure in _figures(made, first, only, rule):
        made.files += save_figure(figure, figures / name, formats)
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


def _figures(
    made: Published, first: Mapping[str, Path], only: Sequence[str], rule: str | None
) -> Iterator[tuple[str, Figure]]:
    from floatlens.plots import plot_drift, plot_qk
    from floatlens.plots.registry import FIGURES, draw_figures, file_name
    from floatlens.plots.style import label_of

    drawn = draw_figures(made.results, [name for name in only if name in FIGURES] if only else None)
    made.skipped = drawn.skipped | made.skipped  # of an analysis the reason is the better one
    yield from drawn.figures.items()
    taken: list[str] = []
    for model, file in first.items():
        trace = open_trace(file)
        if (not only or "heatmap" in only) and "received" not in trace.data:
            made.skipped[f"heatmap of {model}"] = 'the trace holds no "received"; trace again with that probe on'
        elif not only or "heatmap" in only:
            found: Anchors = anchors(trace, rule=rule or "zscore")
            layers = found.share["layer"].values.tolist()
            for layer in dict.fromkeys((layers[0], layers[-1])):
                taken.append(file_name("heatmap", f"{label_of(model, first)}-layer{layer}", taken))
                yield taken[-1], plot_drift(found, layer=layer)
        if "qk_matrix" not in trace.data:
            if "qk_maps" in only:
                made.skipped[f"qk_maps of {model}"] = "the trace kept no q·k heatmaps (see QK(heatmaps=…))"
            continue
        if not only or "qk_maps" in only:
            kept = trace.data["qk_matrix"]
            for layer in kept["qk_matrix_layer"].values.tolist():
                head = int(kept["qk_matrix_head"].values[0])
                taken.append(file_name("qk_maps", f"{label_of(model, first)}-layer{layer}-head{head}", taken))
                yield taken[-1], plot_qk(qk_picture(trace, layer, head, rule=rule or "zscore"))
