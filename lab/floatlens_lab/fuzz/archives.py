"""Trace files as their entries: taken apart, changed, and put together again with or without digests."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

from floatlens.traces.integrity import digest, sealed

__all__ = ["entries_of", "resealed", "root_of", "unsealed", "with_root", "write_entries"]

_ROOT = "zarr.json"

Entries = dict[str, bytes]


def entries_of(path: Path) -> Entries:
    """Every entry of a zip file by name."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_entries(entries: Entries, path: Path) -> Path:
    """A zip file of these entries, stored plainly."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return path


def root_of(entries: Entries) -> dict[str, Any]:
    """The root description; its `attributes` are the trace's."""
    found: dict[str, Any] = json.loads(entries[_ROOT])
    return found


def with_root(entries: Entries, root: dict[str, Any]) -> Entries:
    """The entries with another root description."""
    return entries | {_ROOT: json.dumps(root).encode()}


def unsealed(entries: Entries) -> Entries:
    """As an older floatlens wrote them: without digests."""
    root = root_of(entries)
    root["attributes"].pop("digests", None)
    return with_root(entries, root)


def resealed(entries: Entries) -> Entries:
    """With digests of what is there now, as somebody who knows the format would forge them."""
    bare = unsealed(entries)
    files = {name: digest(content) for name, content in bare.items() if name != _ROOT}
    return with_root(bare, sealed(root_of(bare), files))
