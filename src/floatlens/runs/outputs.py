"""Tables, figures and verdicts of the answers and traces of runs, as files. It computes nothing.

OUT/figures holds one file per figure and format, OUT/tables one CSV and one Parquet file per analysis and one for the
claims, with provenance.json saying what those of traces rest on. Every file is written whole.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from floatlens.analysis import ANALYSES, Result, analyse
from floatlens.analysis.anchors import anchors
from floatlens.analysis.cache_schedule import Choose, cache_schedules
from floatlens.analysis.collection import collection_agreement, collection_rates, of_collection
from floatlens.analysis.conditions import edited
from floatlens.analysis.courses import with_training
from floatlens.analysis.effects import METRICS, edit_effects, effects_table, measured, moved
from floatlens.analysis.evolution import evolution_frame
from floatlens.analysis.measure import Measure, attention_layers, variable_of
from floatlens.analysis.patching import patching_tables, without_effect
from floatlens.analysis.qk import qk_maps
from floatlens.analysis.registry import forget_optional, with_settings
from floatlens.analysis.rules import DEFAULT_RULE
from floatlens.analysis.scores import gains, scores, table_one
from floatlens.analysis.sources import trace_files
from floatlens.analysis.stress import agreement, curves, curves_frame, misled_curves, robustness_frame
from floatlens.claims import Claim, claims, claims_frame, with_holm
from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.core.files import write_atomically
from floatlens.core.memory import enough_memory
from floatlens.core.text import in_csv
from floatlens.models.course import earlier
from floatlens.records.store import open_answers, open_patching
from floatlens.traces import Trace, open_trace

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from floatlens.analysis.headline import HeadlineRow
    from floatlens.analysis.stress import Curve
    from floatlens.analysis.tables import Table

__all__ = ["FORMATS", "Findings", "publish_answers", "publish_traces", "save_figure", "save_frame", "save_table"]

FORMATS = ("pdf", "svg", "png")
_ANSWERS = {"gains", "stress", "misled", "collection", "edits", "patching", "cache"}
"""What figures of answers need; those are drawn with the tables of answers."""


@dataclass
class Findings:
    """What was found and written. Parts that the run has nothing for stay empty."""

    table: Table | None = None
    gains: pd.DataFrame | None = None
    curves: Sequence[Curve] = ()
    misled: Sequence[Curve] = ()
    """Misled rates along the same curves, where wrong answers are named."""
    agreed: pd.DataFrame | None = None
    collection: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    """Tables of a changing collection by name."""
    effects: pd.DataFrame | None = None
    patching: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    """Tables of activation patching by name."""
    without_effect: Sequence[tuple[str, str, int, int]] = ()
    """Where patched questions have no effect: model, data set, how many, of how many."""
    cache: dict[str, pd.DataFrame] = field(default_factory=dict)
    """Tables of refresh schedules of a cache by name."""
    results: Mapping[str, Result] = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    report: Path | None = None
    courses: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)
    """The training course of each model that answered, for the tables."""
    unchanged: bool = False
    """Nothing has changed since the files were written, so they were left as they are."""

    @property
    def headline(self) -> list[HeadlineRow]:
        """The headline numbers of the traces: a row per number, with an estimate for each model."""
        from floatlens.analysis.headline import headline

        return headline(self.results)


def publish_answers(
    folder: Path,
    out: Path,
    *,
    paper: bool = False,
    cache: tuple[float, Choose] | None = None,
    formats: Sequence[str] = FORMATS,
) -> Findings:
    """Write tables and figures of the answers of a run folder into OUT; `cache` are the margin of `cache_schedules` and
    the questions that a schedule is chosen on, by default those of the run's study."""
    answers, manifest = open_answers(folder)
    output = manifest.get("output") or {}
    within, choose = cache or (output.get("within", 1.0), output.get("choose", "half"))
    made = Findings(courses={ref: facts.get("course") for ref, facts in manifest["models"].items()})
    plain = answers[answers["kind"].isin(["closed", "rag"])]
    if not plain.empty:
        columns = [(name, str(one["column"])) for name, one in manifest["data"].items() if name in set(plain["data"])]
        _publish_scores(plain, columns, out, made, paper=paper)
    stressed = answers[answers["kind"] == "stress"]
    if not stressed.empty:
        _publish_stress(stressed, out, made)
        _publish_collection(stressed, out, made)
    if (answers["kind"] == "edit").any():
        _publish_edits(edited(answers), out, made)
    _publish_patching(open_patching(folder), out, made)
    if not (tried := cache_schedules(answers, within, choose)).empty:
        made.cache["cache_schedules"] = tried
        made.files += save_frame(tried, out / "tables" / "cache_schedules")
    _draw(out, made, formats)
    return made


def _draw(out: Path, made: Findings, formats: Sequence[str]) -> None:
    """Every figure that the statistics allow."""
    from floatlens.plots.drawing import draw
    from floatlens.plots.registry import FIGURES, describe_figures

    patched = made.patching.get("patching")
    data = {"gains": made.gains, "stress": made.curves, "misled": made.misled, "edits": made.effects}
    data |= {"patching": patched, "collection": made.collection.get("collection")}
    data |= {"cache": made.cache.get("cache_schedules")}
    wanted = [name for name, kind in FIGURES.items() if set(kind.needs) <= set(data)]
    for name, figure in describe_figures(data, wanted).figures.items():
        with enough_memory(f"drawing {name}", _FEWER):
            made.files += save_figure(draw(figure), out / "figures" / name, formats)


def _publish_scores(
    answers: pd.DataFrame,
    columns: Sequence[tuple[str, str]],
    out: Path,
    made: Findings,
    *,
    paper: bool,
) -> None:
    made.table = table_one(answers, columns, paper=paper, labels=_labels(answers))
    gained = gains(answers)
    made.files += save_table(made.table, out / "tables" / "table1")
    for name, frame in (("scores", scores(answers)), ("gains", gained)):
        made.files += save_frame(with_training(frame, made.courses), out / "tables" / name)
    made.gains = gained.assign(
        kind=gained["model"].map(dict(zip(answers["model"], answers["model_kind"], strict=True)))
    )


def _publish_stress(answers: pd.DataFrame, out: Path, made: Findings) -> None:
    found = made.curves = curves(answers)
    made.misled, made.agreed = misled_curves(answers), agreement(answers)
    frames = {"curves": curves_frame([*found, *made.misled]), "robustness": robustness_frame(found)}
    for name, frame in frames.items():
        made.files += save_frame(with_training(frame, made.courses), out / "tables" / name)
    made.files += save_frame(made.agreed, out / "tables" / "agreement")


def _publish_collection(answers: pd.DataFrame, out: Path, made: Findings) -> None:
    """Nothing where no answer was given at a snapshot."""
    if of_collection(answers).empty:
        return
    rates, agreed = collection_rates(answers), collection_agreement(answers)
    made.collection = {"collection": rates, "collection_agreement": agreed}
    for name, frame in made.collection.items():
        made.files += save_frame(frame, out / "tables" / name)


def _publish_edits(answers: pd.DataFrame, out: Path, made: Findings) -> None:
    """Nothing where no edit can be compared with unedited answers."""
    from floatlens.plots.registry import file_name

    made.effects = edit_effects(answers)
    if made.effects.empty:
        return
    told = made.effects.drop(columns="condition")
    told = with_training(told.assign(dose=told["dose"].map(_dose)), made.courses)
    made.files += save_frame(told, out / "tables" / "effects")
    for name, frame in (("measured", measured(answers)), ("moved", moved(answers))):
        if not frame.empty:
            made.files += save_frame(frame, out / "tables" / name)
    sets = list(dict.fromkeys(made.effects["data"]))
    for data in sets:
        own = made.effects[made.effects["data"] == data]
        for metric in METRICS:
            name = file_name(f"edits-{metric}", data if len(sets) > 1 else "", [])
            made.files += save_table(effects_table(own, metric, _labels(answers)), out / "tables" / name)


def _publish_patching(frame: pd.DataFrame, out: Path, made: Findings) -> None:
    made.patching, made.without_effect = patching_tables(frame), without_effect(frame)
    for name, table in made.patching.items():
        made.files += save_frame(table, out / "tables" / name)


def _dose(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.12g}"


def _labels(answers: pd.DataFrame) -> dict[str, str]:
    from floatlens.plots.style import label_of

    models = list(dict.fromkeys(answers["model"]))
    return {model: label_of(model, models) for model in models}


# -- traces -------------------------------------------------------------------------------------------------------


def publish_traces(
    runs: Sequence[Path],
    out: Path,
    *,
    only: Sequence[str] = (),
    formats: Sequence[str] = FORMATS,
    rule: str | None = None,
    measure: Measure | None = None,
    analyses: Sequence[str] | None = None,
    more: Sequence[Claim] = (),
    each: Callable[[int, int], None] = lambda done, total: None,
    see: Callable[[Trace, Path], object] = lambda trace, file: None,
) -> Findings:
    """Analyse the traces of runs in one pass, and write what they show. `each` is called after every trace.

    `only` names figures; tables are then those of the analyses behind them. `analyses` limits the analyses. `rule`
    replaces the anchor rule of every analysis that has one, `measure` says what they count. `more` are verdicts on
    answers, for the same table. `see` is called with every trace.
    """
    from floatlens.plots.drawing import draw
    from floatlens.plots.registry import FIGURES, describe_figures

    _check(only, list(FIGURES), "figure")
    _check(formats, FORMATS, "format")
    files = [file for run in runs for file in trace_files(run)]
    wanted = dict.fromkeys(need for name in only for need in FIGURES[name].needs if need in ANALYSES)
    first: dict[str, Path] = {}
    courses: dict[str, Mapping[str, Any] | None] = {}
    skipped: dict[str, str] = {}
    settings = with_settings(wanted if only else ANALYSES if analyses is None else analyses, rule, measure)
    results = analyse(_walk(files, first, courses, each, see), settings, skipped=skipped)
    for model in earlier(courses):  # of a course, the last snapshot stands for the model
        del first[model]
    if analyses is None and not only:
        forget_optional(skipped)
    found = with_holm([*claims(results), *more])
    made = Findings(results=results, claims=found, skipped=skipped)
    figures = out / "figures"
    for folder in (figures, out / "tables"):
        folder.mkdir(parents=True, exist_ok=True)
    reasons: dict[str, str] = {}
    data = {**results, **_of_first(first, only, rule, measure, reasons)}
    described = describe_figures(data, only or _figures_of([*results, *skipped]))
    for name, figure in described.figures.items():
        with enough_memory(f"drawing {name}", _FEWER):
            made.files += save_figure(draw(figure), figures / name, formats)
    told = {name: why for name, why in described.skipped.items() if name not in ("anchors", "qk_maps")}
    made.skipped = told | reasons | made.skipped  # of an analysis the reason is the better one
    frames = {name: result.to_frame() for name, result in results.items()} | {"claims": claims_frame(found)}
    frames |= {} if (evolved := evolution_frame(results)) is None else {"evolution": evolved}
    for name, frame in frames.items():
        made.files += save_frame(frame, out / "tables" / name)
    provenance = {name: result.provenance for name, result in results.items()}
    write_atomically(out / "tables" / "provenance.json", json.dumps(provenance, indent=1).encode())
    return made


_FEWER = "draw fewer figures (--only), or fewer formats (output.figures, --format)"


def _check(given: Iterable[str], known: Sequence[str], what: str) -> None:
    for name in given:
        if name not in known:
            raise FloatlensError(f'no {what} "{name}"{did_you_mean(name, known)}')


def _figures_of(analyses: Iterable[str]) -> list[str]:
    """Figures of traces that need no analysis but these: of what was not asked for nothing is drawn or said."""
    from floatlens.plots.registry import FIGURES

    others = (_ANSWERS | set(ANALYSES)) - set(analyses)
    return [name for name, figure in FIGURES.items() if not others & set(figure.needs)]


def _walk(
    files: Sequence[Path],
    first: dict[str, Path],
    courses: dict[str, Mapping[str, Any] | None],
    each: Callable[[int, int], None],
    see: Callable[[Trace, Path], object],
) -> Iterator[Trace]:
    """Every trace in turn. `first` gets the first file of each model that is no control, `courses` its course."""
    for done, file in enumerate(files, 1):
        trace = open_trace(file)
        if "control" not in trace.model:
            first.setdefault(trace.model["ref"], file)
            courses.setdefault(trace.model["ref"], trace.model.get("course"))
        see(trace, file)
        yield trace
        each(done, len(files))


def _of_first(
    first: Mapping[str, Path],
    only: Sequence[str],
    rule: str | None,
    measure: Measure | None,
    skipped: dict[str, str],
) -> dict[str, dict[str, Any]]:
    """What figures of one trace show, the first of each model: its anchors, and its q·k maps where it kept any."""
    from floatlens.plots.style import label_of

    found: dict[str, dict[str, Any]] = {"anchors": {}, "qk_maps": {}}
    for model, file in first.items():
        trace, label = open_trace(file), label_of(model, first)
        if only and not {"anchors", "qk_maps"} & set(only):
            break
        name = variable_of(measure or "attention", "received")
        if name in trace.data:
            found["anchors"][label] = anchors(trace, rule=rule or DEFAULT_RULE, measure=measure or "attention")
        elif not only or "anchors" in only:
            other = "trace again with that probe on" if attention_layers(trace.model) else "give measure=contribution"
            skipped[f"anchors of {model}"] = f'the trace holds no "{name}"; {other}'
        if "qk_matrix" in trace.data:
            kept = trace.data["qk_matrix"]
            head = int(kept["qk_matrix_head"].values[0])
            for layer in kept["qk_matrix_layer"].values.tolist():
                maps = qk_maps(trace, layer, head, rule=rule or DEFAULT_RULE)
                found["qk_maps"][f"{label}-layer{layer}-head{head}"] = maps
        elif "qk_maps" in only:
            skipped[f"qk_maps of {model}"] = "the trace kept no q·k heatmaps (see QK(heatmaps=…))"
    return found


# -- files --------------------------------------------------------------------------------------------------------


def save_figure(figure: Figure, path: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """A figure in every format; `path` has no suffix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    files = []
    for kind in formats:
        held = io.BytesIO()
        figure.savefig(held, format=kind, dpi=160, metadata={"Date": None} if kind == "svg" else None)
        files.append(path.parent / f"{path.name}.{kind}")
        write_atomically(files[-1], held.getvalue())
    return files


def _cell(value: object) -> object:
    """Text as a spreadsheet may see it; everything else as it is."""
    return in_csv(value) if isinstance(value, str) else value


def save_frame(frame: pd.DataFrame, path: Path) -> list[Path]:
    """A table of numbers as CSV and Parquet; `path` has no suffix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    as_csv, as_parquet = path.with_suffix(".csv"), path.with_suffix(".parquet")
    shown = frame.rename(columns=lambda name: in_csv(str(name)))
    texts = [name for name in shown.columns if shown[name].dtype.kind not in "biufc"]
    shown = shown.assign(**{name: shown[name].map(_cell) for name in texts})
    write_atomically(as_csv, shown.to_csv(index=False).encode(errors="replace"))
    held = io.BytesIO()
    frame.to_parquet(held, index=False)
    write_atomically(as_parquet, held.getvalue())
    return [as_csv, as_parquet]


def save_table(table: Table, path: Path) -> list[Path]:
    """A table for readers as Markdown, CSV and LaTeX; `path` has no suffix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = {".md": table.to_markdown(), ".csv": table.to_csv(), ".tex": table.to_latex()}
    for suffix, text in texts.items():
        write_atomically(path.with_suffix(suffix), text.encode())
    return [path.with_suffix(suffix) for suffix in texts]
