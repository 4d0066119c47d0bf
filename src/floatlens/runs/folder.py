"""The folder of a run: who may write into it, what was asked for, and what is already done.

One process writes at a time. A manifest that asks for something else is refused by the name of the first key that
differs. It knows nothing of models; items are names, records and files.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from floatlens.core.errors import FloatlensError
from floatlens.core.files import locked, write_atomically
from floatlens.runs.records import BaseRecord, append_record, read_records, write_records

__all__ = ["RunFolder"]

_ABSENT = object()
R = TypeVar("R", bound=BaseRecord)


class RunFolder(Generic[R]):
    """A run folder that is open for writing; make one with `RunFolder.open`.

    Example: `with RunFolder.open("runs/a", Record) as run: run.settle({"seed": 0}); run.done("00000-ab12")`
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.traces = path / "traces"
        self.records: dict[str, R] = {}
        self._manifest, self._lines = path / "manifest.json", path / "records.jsonl"

    @staticmethod
    @contextmanager
    def open(path: str | Path, kind: type[R]) -> Iterator[RunFolder[R]]:
        """Make the folder if need be, keep others out of it, and read what is there. A foreign folder is refused."""
        run: RunFolder[R] = RunFolder(Path(path))
        run._check_place()
        run._check_kind(kind)  # before anything is put into it
        busy = f"{path}: another floatlens process is writing to it; wait for it, or give another --out"
        with locked(run.path / ".lock", busy):
            for left in run.traces.glob(".floatlens-*"):  # what a killed run was writing
                shutil.rmtree(left)
            run._check_kind(kind)
            run.records = {record.item: record for record in read_records(run._lines, kind)}
            yield run

    # -- what was asked for ---------------------------------------------------------------------------------------

    @property
    def manifest(self) -> dict[str, Any] | None:
        """What the folder was made for; None in a new one."""
        if not self._manifest.is_file():
            return None
        try:
            found = json.loads(self._manifest.read_bytes())
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            raise FloatlensError(f"{self._manifest}: not valid JSON ({error}); start a new folder") from None
        if not isinstance(found, dict):
            raise FloatlensError(f"{self._manifest}: not a manifest; start a new folder")
        return found

    def check(
        self, manifest: Mapping[str, Any], *, free: Collection[str] = (), why: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Refuse a manifest that differs from the folder's; keys in `free` ("data.path") may differ or be absent.

        `why` has, for the last part of a key ("path"), the reason that the refusal gives.

        A folder in which nothing is done yet takes any manifest: there is nothing that it could contradict.
        """
        there = self.manifest
        if there is None or not self._begun:
            return
        manifest = json.loads(json.dumps(manifest))  # as it would be read back
        found = _first_difference(there, manifest, free)
        if found is not None:
            key, was, now = found
            because = why.get(key.rpartition(".")[2])
            raise FloatlensError(
                f"{self.path}: this run was made with {key} = {_short(was)}, now it is {_short(now)}"
                f"{f' ({because})' if because else ''}; "
                "give the old value to continue it, or another folder with --out"
            )

    def settle(self, manifest: Mapping[str, Any], *, free: Collection[str] = ()) -> None:
        """Check the manifest and write it."""
        self.check(manifest, free=free)
        if not self._begun:
            self.forget(lambda record: True)  # failures of what was asked before
        write_atomically(self._manifest, (json.dumps(manifest, indent=2, ensure_ascii=False) + "\n").encode())

    # -- what is done ---------------------------------------------------------------------------------------------

    def done(self, item: str) -> bool:
        """Whether an item has its record and its file."""
        record = self.records.get(item)
        return record is not None and record.complete(self.path)

    def forget(self, again: Callable[[R], bool]) -> None:
        """Drop the records of items that will be done again, and repair a torn last line, before new ones come."""
        self.records = {item: record for item, record in self.records.items() if not again(record)}
        write_records(self._lines, self.records.values())

    def add(self, record: R) -> None:
        """Put an outcome on record; its files are in place already."""
        append_record(self._lines, record)
        self.records[record.item] = record

    def add_all(self, records: Sequence[R]) -> None:
        """Put several outcomes on record in one write: a kill in the middle of it loses the rest of them, no more."""
        append_record(self._lines, *records)
        self.records |= {record.item: record for record in records}

    @property
    def _begun(self) -> bool:
        return any(record.status == "done" for record in self.records.values())

    # -- inside ---------------------------------------------------------------------------------------------------

    def _check_place(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise FloatlensError(f"{self.path}: a run is a folder, and this is a file; give another --out")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            found = {entry.name for entry in self.path.iterdir()} - {".lock", ".manifest.json.new"}
        except OSError as error:
            raise FloatlensError(f"{self.path}: cannot be made or read ({error.strerror})") from None
        if found and "manifest.json" not in found:
            raise FloatlensError(f"{self.path}: not empty and not a run (no manifest.json); give another --out")

    def _check_kind(self, kind: type[R]) -> None:
        manifest = self.manifest
        if manifest is None:
            return
        named, wanted = manifest.get("kind"), " or ".join(kind.runs)
        if named is None:
            raise FloatlensError(
                f"{self.path}: its manifest.json is not that of a run (it names no kind); give another --out"
            )
        if named not in kind.runs:
            raise FloatlensError(f"{self.path}: a run of kind {named!r}, not {wanted}; give another --out")


def _first_difference(old: Any, new: Any, free: Collection[str], at: str = "") -> tuple[str, Any, Any] | None:
    """The key, what stood there and what stands there now. A key is not taken apart: names of data may hold dots."""
    if at in free:
        return None
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in dict.fromkeys((*new, *old)):
            inner = f"{at}.{name}" if at else str(name)
            found = _first_difference(old.get(name, _ABSENT), new.get(name, _ABSENT), free, inner)
            if found is not None:
                return found
        return None
    return None if old == new and isinstance(old, bool) == isinstance(new, bool) else (at, old, new)


def _short(value: Any) -> str:
    text = "not set" if value is _ABSENT else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."
