"""A report of run folders: opens them, analyses their traces in one pass, and hands everything to `report`."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from floatlens import __version__
from floatlens.analysis import ANALYSES, Result, analyse
from floatlens.analysis.measure import Measure
from floatlens.analysis.registry import forget_optional, with_settings
from floatlens.analysis.sources import has_traces, trace_files, traced_runs
from floatlens.claims import answer_claims, claims
from floatlens.core.memory import enough_memory
from floatlens.records.store import is_run, open_answers, open_patching, read_manifest, read_records
from floatlens.report import Inputs, Made, RunAnswers, report
from floatlens.report.build import LARGEST
from floatlens.report.subjects import Seen, look, names_of, opened
from floatlens.traces import Trace, open_trace

__all__ = ["Analysed", "report_runs"]


@dataclass(frozen=True)
class Analysed:
    """Results of traces that were analysed before, and what was seen on the way."""

    results: Mapping[str, Result]
    traces: Sequence[Seen]
    skipped: Mapping[str, str] = field(default_factory=dict)


def report_runs(
    runs: Sequence[str | Path],
    out: str | Path = "report.html",
    *,
    examples: int = 12,
    rule: str | None = None,
    measure: Measure | None = None,
    by_run: bool = False,
    largest: int = LARGEST,
    each: Callable[[int, int], None] = lambda done, total: None,
    analysed: Analysed | None = None,
) -> Made:
    """Analyse the traces and answers of run folders, and write what they show as one HTML file.

    `rule` replaces the anchor rule of every analysis that has one, `measure` says what they count. Traces of one model
    with the same settings are pooled over runs, unless `by_run` sets the runs side by side. `examples` and `largest`
    limit the explorer and the file, see `report`. With `analysed` the traces are not analysed again.

    Example: `report_runs(["runs/llada", "runs/qwen"], "report.html")`
    """
    folders = [Path(run) for run in runs]
    known = analysed or _analysed(_traces(folders, by_run), rule, measure, each)
    skipped = dict(known.skipped)
    inputs = Inputs(
        known.results,
        claims(known.results),
        known.traces,
        list(_answers(folders, skipped)),
        skipped,
        [_facts(run) for run in folders],
        _made_by(folders, examples=examples, rule=rule, measure=measure, by_run=by_run, largest=largest),
    )
    with enough_memory("making the report", "give fewer --examples, or leave it out (--no-report)"):
        return report(inputs, out, examples=examples, rule=rule, measure=measure or "attention", largest=largest)


def _traces(folders: Sequence[Path], by_run: bool) -> list[Seen]:
    """Every trace of the runs that have any."""
    return [
        look(opened(open_trace(file)), file, run.resolve().name if by_run else None)
        for run in traced_runs(folders)
        for file in trace_files(run)
    ]


def _analysed(
    seen: Sequence[Seen], rule: str | None, measure: Measure | None, each: Callable[[int, int], None]
) -> Analysed:
    """Every analysis that the traces allow, in one pass; the others are skipped."""
    skipped: dict[str, str] = {}
    results = analyse(_walk(seen, each), with_settings(ANALYSES, rule, measure), skipped=skipped) if seen else {}
    forget_optional(skipped)
    return Analysed(results, seen, skipped)


def _walk(seen: Sequence[Seen], each: Callable[[int, int], None]) -> Iterator[Trace]:
    """Every trace in turn, its model under the name that sets it apart."""
    names = names_of(seen)
    for done, one in enumerate(seen, 1):
        trace, named = one.open(), _named(one, names)
        yield trace if named == one.model else Trace(trace.data.assign_attrs(model=named))
        each(done, len(seen))


def _named(one: Seen, names: Mapping[Any, str]) -> dict[str, Any]:
    """The model of a trace under its name in the report; a control is a control of the model with the same settings."""
    named = {**one.model, "ref": names[one.subject]}
    if one.is_control:
        of = one.model["control"]["of"]
        named["control"] = {**one.model["control"], "of": names.get((of, *one.subject[1:]), of)}
    if one.course is not None:
        apart = named["ref"].removeprefix(one.model["ref"])  # such as " · run b": another course for evolution
        origins = [name for key, name in names.items() if key[0] == one.course["origin"]]
        origin = next((name for name in origins if name.endswith(apart)), origins[0] if origins else None)
        named["course"] = {**one.course, "name": f"{one.course['name']}{apart}", "origin": origin}
    return named


def _answers(folders: Sequence[Path], skipped: dict[str, str]) -> Iterator[RunAnswers]:
    for run in folders:
        if not is_run(run):
            continue
        frame, manifest = open_answers(run)
        name, patched = run.resolve().name, open_patching(run)
        if not frame.empty or not patched.empty:
            yield RunAnswers(name, str(run), frame, manifest, answer_claims(frame), patched)
        elif not has_traces(run):
            skipped[name] = "no answer on record yet"


def _made_by(
    runs: Sequence[Path], *, examples: int, rule: str | None, measure: str | None, by_run: bool, largest: int
) -> dict[str, Any]:
    """The settings of the report, and the command that makes it again."""
    words = ["floatlens", "report", *map(str, runs), "--examples", str(examples), "--max-mb", f"{largest / 1e6:g}"]
    words += [
        *(["--rule", rule] if rule else []),
        *(["--measure", measure] if measure not in (None, "attention") else []),
    ]
    words += ["--by-run"] if by_run else []
    return {
        "floatlens": __version__,
        "runs": [str(run) for run in runs],
        "examples": examples,
        "rule": rule or "that of each analysis",
        "measure": measure or "attention",
        "by_run": by_run,
        "largest_bytes": largest,
        "command": shlex.join(words),
    }


def _facts(run: Path) -> dict[str, Any]:
    """Name, how many items are done and failed, and the manifest, or what the first trace says instead."""
    facts: dict[str, Any] = {"name": run.resolve().name, "path": str(run)}
    if is_run(run):
        records = read_records(run)
        done = Counter(record.what for record in records if record.status == "done")
        facts |= {"answers": done["answer"], "traces": done["trace"], "patched": done["patch"]}
        facts["source"] = "manifest.json"
        return facts | {"manifest": read_manifest(run), "outcomes": dict(Counter(one.status for one in records))}
    files = trace_files(run)
    data = open_trace(files[0]).data.attrs
    kept = {key: data[key] for key in ("model", "decoding", "prompt", "probes", "versions", "edits") if key in data}
    return facts | {"traces": len(files), "source": f"first trace, {files[0].name}", "manifest": kept}
