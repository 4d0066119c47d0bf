"""Files as streams of bytes: plain, or packed as gzip, bzip2, xz or Zstandard, which are recognised by content."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from floatlens.core.borders import refuse_special
from floatlens.core.errors import FloatlensError

__all__ = ["BOM", "LONGEST", "PACKED", "check_whole", "open_bytes", "read_head", "read_lines"]

BOM = b"\xef\xbb\xbf"
PACKED = (".gz", ".bz2", ".xz", ".zst")
_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "Zstandard"}
_HEAD = 1 << 16
LONGEST = 64 << 20
"""Bytes of the longest line or record: a packed file of a few MB may unpack to one line of gigabytes."""


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """The unpacked bytes of a file; a damaged or unreadable one is a FloatlensError, also while it is read."""
    name = ""
    refuse_special(path)
    try:
        with path.open("rb") as file:
            start = file.read(8)
        name = next((name for magic, name in _MAGIC.items() if start.startswith(magic)), "")
        with _opened(path, name) as stream:
            yield stream
    except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise FloatlensError(f"{path}: the {name} file is damaged or cut short ({error}); copy it again") from error
    except OSError as error:
        if name and error.errno is None:  # how bz2 and pyarrow report damaged content
            raise FloatlensError(f"{path}: the {name} file is damaged or cut short ({error}); copy it again") from error
        raise FloatlensError(f"{path}: {error.strerror or error}; give a .jsonl or .jsonl.gz file") from error


def _opened(path: Path, name: str) -> BinaryIO:
    if name == "gzip":
        return cast(BinaryIO, gzip.open(path))
    if name == "bzip2":
        return cast(BinaryIO, bz2.open(path))
    if name == "xz":
        return cast(BinaryIO, lzma.open(path))
    if name == "Zstandard":
        import pyarrow as pa  # unpacks Zstandard, so no further package is needed

        return io.BufferedReader(pa.input_stream(str(path), compression="zstd"))
    return path.open("rb")


def read_head(path: Path) -> bytes:
    """The first 64 KiB of the unpacked content, without a byte-order mark."""
    with open_bytes(path) as stream:
        return stream.read(_HEAD).removeprefix(BOM)


def read_lines(path: Path, stream: BinaryIO) -> Iterator[bytes]:
    """The lines of a stream; one that is too long to be a record is refused before it is in memory."""
    number = 0
    while line := stream.readline(LONGEST + 1):
        number += 1
        if len(line) > LONGEST:
            raise FloatlensError(
                f"{path}:{number}: a line of more than {LONGEST >> 20} MB, which is no record of a question"
            )
        yield line


def check_whole(path: Path) -> None:
    """Refuse a packed file that is damaged after the part that was read: its checksum is at the end."""
    with path.open("rb") as file:
        packed = file.read(8).startswith(tuple(_MAGIC))
    if packed:
        with open_bytes(path) as stream:
            while stream.read(1 << 20):
                pass
