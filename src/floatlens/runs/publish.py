"""What a run came to, written beside its records: tables, figures, verdicts and the report. It computes nothing itself.

What is published follows from the answers and traces there are. Traces are read once for everything that needs them.
Nothing is done again where nothing has changed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from floatlens import __version__
from floatlens.analysis.cache_schedule import cache_layers
from floatlens.analysis.sources import has_traces, trace_files
from floatlens.claims import answer_claims, claims_frame
from floatlens.core.files import digest_of_file, write_atomically
from floatlens.records.store import open_answers
from floatlens.runs.outputs import Findings, publish_answers, publish_traces, save_frame
from floatlens.runs.study import Output

if TYPE_CHECKING:
    from floatlens.report.subjects import Seen
    from floatlens.traces import Trace

__all__ = ["Findings", "publish_study"]

_STATE = "published.json"
"""What the tables, figures and the report of a run folder were made from."""


def publish_study(
    folder: Path,
    output: Output | None = None,
    *,
    analyses: Sequence[str] | None = None,
    each: Callable[[int, int], None] = lambda done, total: None,
    force: bool = False,
) -> Findings:
    """Tables, figures, claims and report of everything that is on record. `each` is called after every trace.

    Where nothing has changed since the last time, nothing is done, unless with `force`.
    """
    output = output or Output()
    inputs = _inputs(folder, output, analyses)
    if not force and (before := _published(folder, inputs)) is not None:
        return before
    cache = (output.within, output.choose)
    made = publish_answers(folder, folder, paper=output.paper, cache=cache, formats=output.figures)
    seen: list[Seen] = []
    if has_traces(folder):
        _publish_traces(folder, output, analyses, each, made, seen)
    else:
        made.claims = answer_claims(open_answers(folder)[0])
        made.files += save_frame(claims_frame(made.claims), folder / "tables" / "claims")
    answered = made.table is not None or made.curves or made.effects is not None or made.patching
    if output.report and (seen or answered):
        _write_report(folder, output, made, seen)
    state = {"inputs": inputs, "files": [str(file.relative_to(folder)) for file in made.files]}
    write_atomically(folder / _STATE, (json.dumps(state, indent=1) + "\n").encode())
    return made


def _inputs(folder: Path, output: Output, analyses: Sequence[str] | None) -> str:
    """A digest of everything that published files depend on."""
    records = folder / "records.jsonl"
    files = trace_files(folder) if has_traces(folder) else []
    parts = {
        "floatlens": __version__,
        "output": output.model_dump(mode="json"),
        "analyses": None if analyses is None else list(analyses),
        "records": digest_of_file(records) if records.is_file() else None,
        "traces": [(str(file.relative_to(folder)), file.stat().st_size) for file in files],
    }
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _published(folder: Path, inputs: str) -> Findings | None:
    """What was published before from the same inputs; None where something has changed or a file is gone."""
    state = folder / _STATE
    try:
        found = json.loads(state.read_bytes()) if state.is_file() else {}
        files = [folder / name for name in found["files"]] if found.get("inputs") == inputs else []
    except (ValueError, KeyError, TypeError, AttributeError):  # the file was changed by somebody
        return None
    if not files or not all(file.is_file() for file in files):
        return None
    report = folder / "report.html"
    return Findings(files=files, report=report if report in files else None, unchanged=True)


def _publish_traces(
    folder: Path,
    output: Output,
    analyses: Sequence[str] | None,
    each: Callable[[int, int], None],
    made: Findings,
    seen: list[Seen],
) -> None:
    from floatlens.report.subjects import look, opened

    def see(trace: Trace, file: Path) -> None:
        seen.append(look(opened(trace), file))

    found = publish_traces(
        [folder],
        folder,
        formats=output.figures,
        rule=output.rule,
        measure=output.measure,
        analyses=analyses,
        more=answer_claims(open_answers(folder)[0]),
        each=each,
        see=see,
    )
    made.results, made.skipped, made.claims = found.results, found.skipped, found.claims
    made.files += found.files
    if made.cache and "cacheability" in made.results:
        made.cache["cache_layers"] = cache_layers(made.results["cacheability"], made.cache["cache_schedules"])
        made.files += save_frame(made.cache["cache_layers"], folder / "tables" / "cache_layers")


def _write_report(folder: Path, output: Output, made: Findings, seen: Sequence[Seen]) -> None:
    from floatlens.runs.reporting import Analysed, report_runs

    wrote = report_runs(
        [folder],
        folder / "report.html",
        examples=output.examples,
        rule=output.rule,
        measure=output.measure,
        largest=int(output.max_mb * 1e6),
        analysed=Analysed(made.results, seen, made.skipped),
    )
    made.report = wrote.path
    made.files.append(wrote.path)
