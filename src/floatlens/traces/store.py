"""One trace, one file: a Dataset in a zipped Zarr v3 store, written under a temporary name and renamed. No pickle.

All readers come through `read`, which opens whole traces only (see `floatlens.traces.integrity`).
"""

from __future__ import annotations

import os
import tempfile
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from zarr.storage import LocalStore

from floatlens.core.errors import FloatlensError, FloatlensWarning
from floatlens.traces.integrity import DAMAGE, CheckedStore, Contents, inspect, seal
from floatlens.traces.schema import validate

__all__ = ["SUFFIX", "read", "write"]

SUFFIX = ".zarr.zip"
_UNSEALED: set[Path] = set()
"""Folders of which it has been said that they hold traces without digests."""


def write(data: xr.Dataset, path: str | Path) -> Path:
    """Save a trace and return its path; the suffix `.zarr.zip` is added where it is missing."""
    target = Path(path)
    if not target.name.endswith(SUFFIX):
        target = target.with_name(target.name + SUFFIX)
    validate(data, str(target))
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".floatlens-", dir=target.parent, ignore_cleanup_errors=True) as folder:
        plain = data.drop_vars([c for c in data.coords if data[c].dtype.kind not in "biuf"])
        encoding = {str(name): {"chunks": _chunks(plain[name])} for name in plain.data_vars if plain[name].size}
        store = LocalStore(Path(folder) / "trace")
        # A piece that holds only fill values is written too: one that is not there is missing.
        plain.to_zarr(store, mode="w", consolidated=False, zarr_format=3, encoding=encoding, write_empty_chunks=True)
        seal(Path(folder) / "trace")
        packed = Path(folder) / "packed"
        _zip(Path(folder) / "trace", packed)
        os.replace(packed, target)
    return target


def read(path: str | Path) -> xr.Dataset:
    """Open a trace; arrays are read when they are used."""
    source = Path(path)
    if not source.is_file():
        raise FloatlensError(f"{source}: no such trace file")
    contents = _inspected(source)
    store = CheckedStore(source, contents)
    try:
        data = xr.open_zarr(store, consolidated=False, chunks=None, mask_and_scale=False)
    except DAMAGE as problem:
        raise FloatlensError(f"{source}: not readable as a trace; delete {source} and run again") from problem
    if contents.digests is None:
        _say_unsealed(source)
    data.attrs.pop("digests", None)
    for variable in data.variables.values():
        variable.attrs.pop("_FillValue", None)  # zarr's, not the trace's
    validate(data, str(source))
    return with_labels(data)


def _inspected(source: Path) -> Contents:
    try:
        with zipfile.ZipFile(source) as archive:
            return inspect(archive, str(source))
    except DAMAGE as problem:
        raise FloatlensError(
            f"{source}: not a trace (a {SUFFIX} file), or cut short; delete {source} and run again"
        ) from problem


def _say_unsealed(source: Path) -> None:
    """Once for a folder: a run has hundreds of traces, and each is opened several times."""
    folder = source.resolve().parent
    if folder not in _UNSEALED:
        _UNSEALED.add(folder)
        warnings.warn(
            f"{source}: has no digests (written by an older floatlens), so damaged numbers would go unnoticed; other "
            "traces like it in this folder open without this line",
            FloatlensWarning,
            stacklevel=3,
        )


def with_labels(data: xr.Dataset) -> xr.Dataset:
    """Add the coordinates that are words (regions, token texts) from the attributes that hold them."""
    regions = np.array(data.attrs["regions"], dtype=str)
    text = np.array(data.attrs["token_text"], dtype=object)
    labels: dict[str, Any] = {"region": ("region", regions)}
    if "from_region" in data.dims:
        labels["from_region"] = ("from_region", regions)
    if len(text):
        labels["token_text"] = ("key", text)
    return data.assign_coords({name: value for name, value in labels.items() if set(value[:1]) <= set(data.dims)})


def _chunks(array: xr.DataArray) -> tuple[int, ...]:
    """One chunk per step of large arrays, so reading one step reads no other."""
    first = 1 if array.dims[0] == "step" and array.nbytes > 1 << 20 else max(1, array.shape[0])
    return (first, *(max(1, n) for n in array.shape[1:]))


def _zip(folder: Path, target: Path) -> None:
    """Pack without compression: chunks are compressed already."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for file in sorted(p for p in folder.rglob("*") if p.is_file()):
            archive.write(file, file.relative_to(folder).as_posix())
