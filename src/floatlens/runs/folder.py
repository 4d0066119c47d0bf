"""The folder of a run: one process writes into it at a time; what it was made for, and which items are done.

It knows nothing of models: items are identities, records and files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from floatlens.core.errors import FloatlensError
from floatlens.core.files import locked, write_atomically
from floatlens.records.record import Record
from floatlens.records.store import RECORDS, append_records, is_run, read_manifest, read_records, write_records
from floatlens.runs.manifest import merged

__all__ = ["RunFolder"]

_OWN = {".lock"}


def _own(name: str) -> bool:
    """Whether a file can be there before the manifest is: the lock, or something that a killed run was writing."""
    return name in _OWN or (name.startswith(".") and name.endswith(".new"))


class RunFolder:
    """A run folder that is open for writing; made by `RunFolder.open`.

    Example: `with RunFolder.open("runs/a") as run: run.settle(manifest); run.done(item)`
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records: dict[str, Record] = {}
        """By item."""
        self._left: tuple[int, int] | None = None  # which file the records are in, and its size, as we left it

    @staticmethod
    @contextmanager
    def open(path: str | Path) -> Iterator[RunFolder]:
        """Make the folder if need be, lock it, and read what is there. A folder that is not a run is refused."""
        run = RunFolder(Path(path))
        run._check_place()
        refusal = f"{run.path}: another floatlens is writing into it; wait for it, or give another folder (--out)"
        with locked(run.path / ".lock", refusal):
            for left in (run.path / "traces").rglob(".*.new"):  # what a killed run was writing
                left.unlink()
            run.records = {record.item: record for record in read_records(run.path)}
            run._left = run._now()
            yield run

    @property
    def manifest(self) -> dict[str, Any] | None:
        """What the folder was made for; None in a new one."""
        return read_manifest(self.path) if is_run(self.path) else None

    def check(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """The manifest with which the run is continued; one that contradicts what is on record is refused.

        A folder in which nothing is done takes any manifest.
        """
        before = self.manifest
        begun = any(record.status == "done" for record in self.records.values())
        return merged(before, manifest, str(self.path)) if before is not None and begun else dict(manifest)

    def settle(self, manifest: Mapping[str, Any]) -> None:
        """Check the manifest and write it."""
        content = json.dumps(self.check(manifest), indent=2, ensure_ascii=False) + "\n"
        # before anything else: a folder that holds other files and no manifest is not taken for a run
        write_atomically(self.path / "manifest.json", content.encode())
        if not any(record.status == "done" for record in self.records.values()):
            self.forget(lambda record: True)  # failures of what was asked before

    def done(self, item: str) -> bool:
        """Whether an item has its record and its file."""
        record = self.records.get(item)
        return record is not None and record.complete(self.path)

    def forget(self, again: Callable[[Record], bool]) -> None:
        """Drop the records of items that will be done again, and repair a torn last line."""
        self.records = {item: record for item, record in self.records.items() if not again(record)}
        self.check_untouched()
        write_records(self.path, self.records.values())
        self._left = self._now()

    def check_untouched(self) -> None:
        """An error where somebody else wrote into the records, or removed them or the lock, since we last wrote.

        Without it a run would end with fewer records on file than it counts.
        """
        if self._now() != self._left:
            raise FloatlensError(
                f"{self.path / RECORDS}: changed or removed by somebody else while this run was writing it; "
                "run it again: what is not on record is done again"
            )
        if not (self.path / ".lock").exists():
            raise FloatlensError(
                f"{self.path / '.lock'}: removed by somebody else while this run was writing; run it again to check it"
            )

    def _now(self) -> tuple[int, int] | None:
        try:
            found = (self.path / RECORDS).stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_size

    def add(self, records: Sequence[Record], contents: Mapping[str, bytes] | None = None) -> list[Record]:
        """Put outcomes on record in one write, after their files; gives those that were not done before.

        `contents` are trace files by name, relative to the folder. A kill in the middle loses these items, no more.
        """
        new = {record.item: record for record in records}
        new = {item: record for item, record in new.items() if not self.done(item)}
        for name, content in (contents or {}).items():
            target = self.path / name
            target.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(target, content)
        self.check_untouched()
        append_records(self.path, new.values())
        self._left = self._now()
        self.records |= new
        return list(new.values())

    def _check_place(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise FloatlensError(f"{self.path}: a run is a folder, and this is a file; give another --out")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            found = {entry.name for entry in self.path.iterdir() if not _own(entry.name)}
        except OSError as error:
            raise FloatlensError(f"{self.path}: cannot be made or read ({error.strerror})") from None
        if found and "manifest.json" not in found:
            raise FloatlensError(f"{self.path}: not empty and not a run (no manifest.json); give another --out")
        if found:
            read_manifest(self.path)  # refuses one of an older floatlens before anything is written
