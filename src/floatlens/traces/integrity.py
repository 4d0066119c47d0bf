"""Integrity of a trace file: digests written with it, and the one decision whether a file is whole.

A file carries the SHA-256 of each piece of each array and of its attributes. `inspect` checks on opening that nothing
is missing, added or of an impossible size; `CheckedStore` checks each piece when it is first read. Nothing is
allocated, decoded or believed before that.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import struct
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr
from zarr.storage import ZipStore

from floatlens.core.errors import FloatlensError
from floatlens.traces.attributes import check_attributes, check_sizes
from floatlens.traces.schema import check_version

if TYPE_CHECKING:
    from zarr.abc.store import ByteRequest
    from zarr.core.buffer import Buffer, BufferPrototype

__all__ = ["DAMAGE", "CheckedStore", "Contents", "digest", "inspect", "seal", "sealed"]

_ROOT = "zarr.json"
_DIGESTS = "digests"
_FILE = re.compile(r"(?P<array>[^/]+)/(zarr\.json|c(?P<chunk>(/\d{1,9})*))")
_TYPES = {np.dtype(kind).name for kind in ("?", *"bhiqBHIQefd")}
_CODECS = [("bytes", ({}, {"endian": "little"})), ("zstd", ({"level": 0, "checksum": False},))]
_ATTRIBUTES = {"meaning", "coordinates", "_FillValue"}
_MIB = 1 << 20
_MOST_FILES, _LARGEST_ROOT, _LARGEST_DESCRIPTION = 2_000_000, 512 * _MIB, _MIB
_LARGEST_ARRAY = 1 << 44
_MOST_ABSENT = 512 * _MIB
"""Bytes that an array of a file without digests may lack: zarr leaves out pieces that hold only fill values."""
_POINTERS = {"answer_argmax": "key"}
"""Arrays whose numbers are places in a dimension; -1 where there is none. Small ones are checked by the schema."""
_ZSTD = b"\x28\xb5\x2f\xfd"

DAMAGE = (
    *(KeyError, IndexError, ValueError, TypeError, AttributeError, OSError, EOFError, OverflowError, RuntimeError),
    *(struct.error, zipfile.BadZipFile, zipfile.LargeZipFile, zarr.errors.BaseZarrError),
)
"""What zipfile, json and zarr raise at bytes that are not a trace."""


def seal(folder: Path) -> None:
    """Add the digests of every file of an unpacked trace to its root description."""
    root = folder / _ROOT
    files = {
        file.relative_to(folder).as_posix(): digest(file.read_bytes())
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file != root
    }
    root.write_text(json.dumps(sealed(json.loads(root.read_bytes()), files)))


def sealed(root: Mapping[str, Any], files: Mapping[str, str]) -> dict[str, Any]:
    """The root description with the digests of the other files, and one of itself."""
    made = {**root, "attributes": {**root["attributes"], _DIGESTS: {"algorithm": "sha256", "files": dict(files)}}}
    made["attributes"][_DIGESTS]["root"] = _root_digest(made)
    return made


@dataclass(frozen=True)
class _Array:
    """What a file says of one array."""

    shape: tuple[int, ...]
    chunk: tuple[int, ...]
    dims: tuple[str, ...]
    dtype: np.dtype[Any]

    @property
    def grid(self) -> tuple[int, ...]:
        return tuple(-(-size // part) for size, part in zip(self.shape, self.chunk, strict=True))

    @property
    def chunk_bytes(self) -> int:
        return math.prod(self.chunk) * self.dtype.itemsize


@dataclass(frozen=True)
class Contents:
    """A file that can be opened: its arrays by name, and the digest of each piece; None for an older file."""

    where: str
    arrays: dict[str, _Array]
    sizes: dict[str, int]
    digests: dict[str, str] | None


def inspect(archive: zipfile.ZipFile, where: str) -> Contents:
    """Decide whether a file is a whole trace, from its directory and descriptions; no array is read.

    Every failure is a FloatlensError in one line.
    """
    names = _names(archive, where)
    root = _json(_read(archive, _ROOT, _LARGEST_ROOT, where), _ROOT, where)
    attributes = root.get("attributes")
    if not isinstance(attributes, dict):
        raise _broken(where, "it has no attributes")
    check_version(attributes, where)
    digests = _digests(root, names, where)
    check_attributes(attributes, where)
    arrays, pieces = {}, _pieces(names)
    for name in sorted(pieces):
        file = f"{name}/{_ROOT}"
        content = _read(archive, file, _LARGEST_DESCRIPTION, where)
        _verify(file, content, digests, where)
        arrays[name] = _described(_json(content, file, where), name, where)
    sizes = _sizes(arrays, where)
    check_sizes(sizes, attributes, where)
    for name, array in arrays.items():
        _check_pieces(archive, name, array, pieces[name], whole=digests is not None, where=where)
    return Contents(where, arrays, sizes, digests)


class CheckedStore(ZipStore):
    """A zipped Zarr store whose pieces are held against their digests and decoded once before zarr sees them."""

    def __init__(self, path: Path, contents: Contents) -> None:
        super().__init__(path, mode="r")
        self._contents = contents
        self._checked: set[str] = set()

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        where = self._contents.where
        try:
            found = await super().get(key, prototype)
            if found is not None and key not in self._checked:
                self._check(key, found.to_bytes())
                self._checked.add(key)
            return found if byte_range is None else await super().get(key, prototype, byte_range)
        except DAMAGE as problem:
            raise _broken(where, f"{key} cannot be read") from problem

    def _check(self, key: str, content: bytes) -> None:
        contents = self._contents
        _verify(key, content, contents.digests, contents.where)
        named = _FILE.fullmatch(key)
        if named is None or named["chunk"] is None:
            return
        array = contents.arrays[named["array"]]
        _check_frame(key, content, array, contents.where)
        values = _decoded(key, content, array, contents.where)
        dim = _POINTERS.get(named["array"])
        keys = contents.sizes.get(dim, 0) if dim is not None else 0
        if dim is not None and values.size and not (values.min() >= -1 and values.max() < keys):
            raise _broken(contents.where, f"{key[:60]} points outside the {keys} entries of {dim}")


# -- one check each ---------------------------------------------------------------------------------------------------


def _names(archive: zipfile.ZipFile, where: str) -> set[str]:
    """The files in the archive: stored plainly, each once, all of them parts of a trace."""
    entries = archive.infolist()
    if len(entries) > _MOST_FILES:
        raise _broken(where, f"{len(entries):,} files in it")
    names = {entry.filename for entry in entries}
    if _ROOT not in names:
        raise _broken(where, f"no {_ROOT} in it")
    if len(names) < len(entries):
        raise _broken(where, "a file is in it twice")
    for entry in entries:
        if entry.filename != _ROOT and _FILE.fullmatch(entry.filename) is None:
            raise _broken(where, f"{entry.filename[:60]!r} is no part of a trace")
        plain = entry.compress_type == zipfile.ZIP_STORED and not entry.flag_bits & 1
        if not plain or entry.compress_size != entry.file_size:
            raise _broken(where, f"{entry.filename[:60]} is not stored plainly")
    return names


def _read(archive: zipfile.ZipFile, name: str, limit: int, where: str) -> bytes:
    try:
        if archive.getinfo(name).file_size > limit:
            raise _broken(where, f"{name[:60]} is larger than {limit // _MIB} MiB")
        return archive.read(name)
    except DAMAGE as problem:
        raise _broken(where, f"{name[:60]} is missing or damaged") from problem


def _json(content: bytes, name: str, where: str) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as problem:
        raise _broken(where, f"{name[:60]} is not JSON") from problem
    if not isinstance(found, dict):
        raise _broken(where, f"{name[:60]} is not a description")
    return found


def _digests(root: dict[str, Any], names: set[str], where: str) -> dict[str, str] | None:
    """The digests of all files but the root, which is checked here; None where the file has none."""
    held = root["attributes"].get(_DIGESTS)
    if held is None:
        return None
    files = held.get("files") if isinstance(held, dict) else None
    if not isinstance(files, dict) or held.get("algorithm") != "sha256":
        raise _broken(where, "its digests are damaged")
    if held.get("root") != _root_digest(root):
        raise _broken(where, "its attributes do not match their digest")
    for name in sorted(set(files) - names):
        raise _broken(where, f"{name[:60]} is missing")
    for name in sorted(names - set(files) - {_ROOT}):
        raise _broken(where, f"{name[:60]} was added")
    return files


def _described(described: dict[str, Any], name: str, where: str) -> _Array:
    """The description of one array, refused unless it is one that floatlens writes."""
    fault = _broken(where, f"the description of {name[:60]} is damaged")
    try:
        shape, chunk = described["shape"], described["chunk_grid"]["configuration"]["chunk_shape"]
        dims, codecs = described["dimension_names"], described["codecs"]
        fixed = (
            (described["node_type"], described["zarr_format"], described["chunk_grid"]["name"])
            == ("array", 3, "regular")
            and described["chunk_key_encoding"] == {"name": "default", "configuration": {"separator": "/"}}
            and described["data_type"] in _TYPES
            and not described.get("storage_transformers")
            and set(described["attributes"]) <= _ATTRIBUTES
        )
        known = len(codecs) == len(_CODECS) and all(
            one["name"] == kind and one.get("configuration", {}) in settings
            for one, (kind, settings) in zip(codecs, _CODECS, strict=True)
        )
    except DAMAGE as problem:
        raise fault from problem
    counts = isinstance(shape, list) and isinstance(chunk, list)
    counts = counts and all(type(n) is int and n < _LARGEST_ARRAY for n in [*shape, *chunk])
    if not (fixed and known and counts and isinstance(dims, list) and len(dims) == len(shape) == len(chunk)):
        raise fault
    if not all(isinstance(dim, str) for dim in dims) or min([*shape, *(n - 1 for n in chunk)], default=0) < 0:
        raise fault
    if len(set(dims)) < len(dims) or any(part < size for size, part in zip(shape[1:], chunk[1:], strict=True)):
        raise fault  # pieces are cut along the first dimension only
    dtype = np.dtype(described["data_type"])
    if max(math.prod(shape), math.prod(chunk)) * dtype.itemsize > _LARGEST_ARRAY:
        raise _broken(where, f"{name[:60]} says that it holds {'×'.join(map(str, shape))} numbers")
    return _Array(tuple(shape), tuple(chunk), tuple(dims), dtype)


def _sizes(arrays: Mapping[str, _Array], where: str) -> dict[str, int]:
    """The size of each dimension, on which all arrays have to agree."""
    sizes: dict[str, int] = {}
    for name, array in arrays.items():
        for dim, size in zip(array.dims, array.shape, strict=True):
            if sizes.setdefault(dim, size) != size:
                raise _broken(where, f"{name[:60]} has {size} entries in {dim[:60]}, others have {sizes[dim]}")
    return sizes


def _pieces(names: set[str]) -> dict[str, list[str]]:
    """The pieces that are there, by array, as their places in the grid (`c/0/1`)."""
    found: dict[str, list[str]] = {}
    for name in names - {_ROOT}:
        array, _, rest = name.partition("/")
        found.setdefault(array, []).extend([rest] if rest != _ROOT else [])
    return found


def _check_pieces(
    archive: zipfile.ZipFile, name: str, array: _Array, there: list[str], *, whole: bool, where: str
) -> None:
    """The pieces of an array: all of its grid and no others, the first as large as it is said to be."""
    for piece in there:
        place = [int(part) for part in piece.split("/")[1:]]
        if len(place) != len(array.grid) or any(at >= count for at, count in zip(place, array.grid, strict=True)):
            raise _broken(where, f"{name[:60]} has a piece outside its shape")
    wanted, held = math.prod(array.grid), len(there)
    if held < wanted and (whole or (wanted - held) * array.chunk_bytes > _MOST_ABSENT):
        raise _broken(where, f"{name[:60]} lacks {wanted - held:,} of {wanted:,} pieces")
    if there:
        first = f"{name}/{min(there)}"
        try:
            with archive.open(first) as file:
                _check_frame(first, file.read(18), array, where)
        except DAMAGE as problem:
            raise _broken(where, f"{first[:60]} cannot be read") from problem


def _check_frame(key: str, content: bytes, array: _Array, where: str) -> None:
    """Whether a piece is one Zstandard frame that says it holds as many bytes as the array's pieces have."""
    size = _frame_size(content)
    if size != array.chunk_bytes:
        raise _broken(where, f"{key[:60]} does not hold the {array.chunk_bytes:,} bytes that it should")


def _frame_size(content: bytes) -> int | None:
    """The content size in the header of a Zstandard frame (RFC 8878, 3.1.1.1); None where there is none."""
    if content[:4] != _ZSTD or len(content) < 6:
        return None
    descriptor = content[4]
    single, flag = bool(descriptor & 0x20), descriptor >> 6
    start = 5 + (not single) + (0, 1, 2, 4)[descriptor & 3]
    width = (1 if single else 0, 2, 4, 8)[flag]
    if not width or len(content) < start + width:
        return None
    return int.from_bytes(content[start : start + width], "little") + (256 if flag == 1 else 0)


def _decoded(key: str, content: bytes, array: _Array, where: str) -> np.ndarray[Any, Any]:
    """The numbers of a piece: what cannot be decoded is refused here rather than by zarr, digests or not."""
    from numcodecs import Zstd  # type: ignore[import-untyped]

    found = Zstd().decode(content)
    if len(found) != array.chunk_bytes:
        raise _broken(where, f"{key[:60]} does not hold the {array.chunk_bytes:,} bytes that it should")
    return np.frombuffer(found, dtype=array.dtype.newbyteorder("<"))


def _verify(name: str, content: bytes, digests: Mapping[str, str] | None, where: str) -> None:
    if digests is not None and name != _ROOT and digest(content) != digests.get(name):
        raise _broken(where, f"{name[:60]} does not match its digest")


def digest(content: bytes) -> str:
    """SHA-256 of a piece of a trace, its first 128 bits in hexadecimal."""
    return hashlib.sha256(content).hexdigest()[:32]


def _root_digest(root: Mapping[str, Any]) -> str:
    """Of everything in the root description but this digest."""
    held = dict(root["attributes"][_DIGESTS])
    held.pop("root", None)
    content = {**root, "attributes": {**root["attributes"], _DIGESTS: held}}
    return digest(json.dumps(content, sort_keys=True).encode())


def _broken(where: str, fault: str) -> FloatlensError:
    return FloatlensError(f"{where}: not readable as a trace: {fault}; delete {where} and run again")
