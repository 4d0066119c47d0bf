"""The end of the report: everything that is needed to repeat it, run by run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from floatlens.analysis.sources import trace_files
from floatlens.errors import FloatlensError
from floatlens.study.records import Record, StudyRecord, read_records
from floatlens.traces import open_trace

__all__ = ["is_study", "run_facts"]


def is_study(run: Path) -> bool:
    """Whether a folder is of `floatlens run`, which holds answers beside its traces."""
    manifest = _manifest(run / "manifest.json") if (run / "manifest.json").is_file() else None
    return isinstance(manifest, dict) and manifest.get("kind") == "study"


def run_facts(runs: Sequence[Path]) -> list[dict[str, Any]]:
    """Per run: its name, how many items are done and failed, and its manifest, or what its first trace says instead."""
    return [_facts(run) for run in runs]


def _facts(run: Path) -> dict[str, Any]:
    files = trace_files(run)
    facts: dict[str, Any] = {"name": run.resolve().name, "path": str(run), "traces": len(files)}
    if run.is_dir():
        records: Sequence[Record | StudyRecord] = read_records(
            run / "records.jsonl", StudyRecord if is_study(run) else Record
        )
        facts["outcomes"] = dict(Counter(record.status for record in records))
    if (run / "manifest.json").is_file():
        return facts | {"source": "manifest.json", "manifest": _manifest(run / "manifest.json")}
    data = open_trace(files[0]).data.attrs
    kept = {key: data[key] for key in ("model", "decoding", "prompt", "probes", "versions", "edits") if key in data}
    return facts | {"source": f"first trace, {files[0].name}", "manifest": kept}


def _manifest(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise FloatlensError(f"{path}: not valid JSON ({error}); was the file changed?") from None
