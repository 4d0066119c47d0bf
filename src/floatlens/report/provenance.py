"""The end of the report: everything that is needed to repeat it, run by run."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from floatlens import __version__
from floatlens.analysis.sources import trace_files
from floatlens.records.store import read_records
from floatlens.report.answered import read_manifest
from floatlens.traces import open_trace

__all__ = ["made_by", "run_facts"]


def made_by(runs: Sequence[Path], *, examples: int, rule: str | None, by_run: bool, largest: int) -> dict[str, Any]:
    """What the report itself was asked for, and the command that asks for the same."""
    words = ["floatlens", "report", *map(str, runs), "--examples", str(examples), "--max-mb", f"{largest / 1e6:g}"]
    words += [*(["--rule", rule] if rule else []), *(["--by-run"] if by_run else [])]
    return {
        "floatlens": __version__,
        "runs": [str(run) for run in runs],
        "examples": examples,
        "rule": rule or "that of each analysis",
        "by_run": by_run,
        "largest_bytes": largest,
        "command": shlex.join(words),
    }


def run_facts(runs: Sequence[Path]) -> list[dict[str, Any]]:
    """Per run: its name, how many items are done and failed, and its manifest, or what its first trace says instead."""
    return [_facts(run) for run in runs]


def _facts(run: Path) -> dict[str, Any]:
    facts: dict[str, Any]
    manifest = read_manifest(run)
    if manifest is not None:
        records = read_records(run)
        done = Counter(record.what for record in records if record.status == "done")
        facts = {"name": run.resolve().name, "path": str(run), "answers": done["answer"], "traces": done["trace"]}
        facts |= {"source": "manifest.json", "manifest": manifest}
        return facts | {"outcomes": dict(Counter(record.status for record in records))}
    files = trace_files(run)
    facts = {"name": run.resolve().name, "path": str(run), "traces": len(files)}
    data = open_trace(files[0]).data.attrs
    kept = {key: data[key] for key in ("model", "decoding", "prompt", "probes", "versions", "edits") if key in data}
    return facts | {"source": f"first trace, {files[0].name}", "manifest": kept}
