"""Where traces come from: one, several, files, a folder or a run; one is in memory at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from floatlens.core.errors import FloatlensError
from floatlens.records.store import is_run
from floatlens.traces import Trace, open_trace

__all__ = ["Traces", "each_trace", "has_traces", "trace_files", "traced_runs"]

Traces = Trace | str | Path | Iterable[Trace | str | Path]
"""A trace, a file, a folder of them, a run folder, or any iterable of these."""


def each_trace(traces: Traces) -> Iterator[Trace]:
    """Every trace in turn; files are opened one after the other, by name."""
    if isinstance(traces, Trace):
        yield traces
    elif isinstance(traces, str | Path):
        for path in trace_files(Path(traces)):
            yield open_trace(path)
    else:
        for one in traces:
            yield from each_trace(one)


def has_traces(run: Path) -> bool:
    """Whether a run folder holds any trace; one of answers alone has none."""
    return next((run / "traces").rglob("*.zarr.zip"), None) is not None


def traced_runs(runs: Iterable[Path]) -> list[Path]:
    """Those with traces to be read: all but run folders without any."""
    return [run for run in runs if not is_run(run) or has_traces(run)]


def trace_files(path: Path) -> list[Path]:
    """The trace files that a file, a folder of traces or a run folder stands for."""
    if not path.is_dir():
        return [path]
    folder = path / "traces" if (path / "traces").is_dir() else path
    found = sorted(folder.rglob("*.zarr.zip"))
    if not found:
        raise FloatlensError(f"{folder}: no traces in it (*.zarr.zip); make some with: floatlens trace")
    return found
