"""`open_run`: a run folder as an object to look into.

run = fl.open_run("runs/demo")
run.tables["claims"], run.records, next(run.traces())
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from floatlens.core.errors import did_you_mean
from floatlens.records.store import open_answers, open_patching, read_manifest, read_records

if TYPE_CHECKING:
    import pandas as pd

    from floatlens.records.record import Record
    from floatlens.traces import Trace

__all__ = ["Run", "Tables", "open_run"]


class Run:
    """A run folder to look into; nothing is written, and nothing is read before it is asked for.

    Example: `open_run("runs/demo").tables["gains"]`
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest = read_manifest(path)

    @property
    def records(self) -> list[Record]:
        """Every record, in the order in which items were done."""
        return read_records(self.path)

    @property
    def failed(self) -> list[Record]:
        """Records of items that failed; running again tries them again."""
        return [record for record in self.records if record.status == "failed"]

    @property
    def answers(self) -> pd.DataFrame:
        """The answers frame: one row per answered question, see `floatlens.records.frame`."""
        return open_answers(self.path)[0]

    @property
    def patching(self) -> pd.DataFrame:
        """The patching frame: one row per patched question and layer, see `floatlens.records.frame`."""
        return open_patching(self.path)

    def traces(self) -> Iterator[Trace]:
        """Every trace in turn; nothing where there are none."""
        from floatlens.analysis.sources import each_trace, has_traces

        yield from each_trace(self.path) if has_traces(self.path) else ()

    @property
    def tables(self) -> Tables:
        """Tables by name, such as scores, gains, curves, effects, patching, drift, claims."""
        return Tables(self.path / "tables")

    @property
    def claims(self) -> pd.DataFrame:
        """The verdict on every claim that the run can test, one row each."""
        return self.tables["claims"]

    @property
    def report(self) -> Path | None:
        """The report, where there is one."""
        path = self.path / "report.html"
        return path if path.is_file() else None

    def __repr__(self) -> str:
        name = self.manifest.get("study", {}).get("name", "study")
        return f"Run({str(self.path)!r}: {name}, {len(self.records)} records)"


class Tables(Mapping[str, "pd.DataFrame"]):
    """The tables of a run by name, each read when it is asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @cached_property
    def _names(self) -> list[str]:
        return sorted(path.stem for path in self._folder.glob("*.parquet"))

    def __getitem__(self, name: str) -> pd.DataFrame:
        import pandas as pd

        if name not in self._names:
            hint = did_you_mean(name, self._names) if self._names else "; it has none yet"
            raise KeyError(f'{self._folder}: no table "{name}"{hint}')
        return pd.read_parquet(self._folder / f"{name}.parquet")

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def open_run(path: str | Path) -> Run:
    """Look into a run folder. Example: `open_run("runs/demo").claims`"""
    return Run(Path(path))
