"""The end of the report: everything that is needed to repeat it, run by run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from floatlens.analysis.sources import trace_files
from floatlens.report.answered import read_manifest
from floatlens.study.answers import has_answers
from floatlens.study.records import AnswerRecord, Record, StudyRecord, read_records
from floatlens.traces import open_trace

__all__ = ["run_facts"]


def run_facts(runs: Sequence[Path]) -> list[dict[str, Any]]:
    """Per run: its name, how many items are done and failed, and its manifest, or what its first trace says instead."""
    return [_facts(run) for run in runs]


def _facts(run: Path) -> dict[str, Any]:
    facts: dict[str, Any]
    manifest = read_manifest(run)
    if manifest is not None and has_answers(run):
        kind = StudyRecord if manifest["kind"] in StudyRecord.runs else AnswerRecord
        records = read_records(run / "records.jsonl", kind)
        traces = sum(isinstance(record, StudyRecord) and record.what == "trace" for record in records)
        facts = {"name": run.resolve().name, "path": str(run), "answers": len(records) - traces}
        facts |= {"traces": traces, "source": "manifest.json", "manifest": manifest}
        return facts | {"outcomes": dict(Counter(record.status for record in records))}
    files = trace_files(run)
    facts = {"name": run.resolve().name, "path": str(run), "traces": len(files)}
    if run.is_dir():
        facts["outcomes"] = dict(Counter(record.status for record in read_records(run / "records.jsonl", Record)))
    if manifest is not None:
        return facts | {"source": "manifest.json", "manifest": manifest}
    data = open_trace(files[0]).data.attrs
    kept = {key: data[key] for key in ("model", "decoding", "prompt", "probes", "versions", "edits") if key in data}
    return facts | {"source": f"first trace, {files[0].name}", "manifest": kept}
