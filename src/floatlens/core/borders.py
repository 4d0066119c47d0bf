"""The border that files of others cross: regular files of bounded size, JSON and YAML of bounded depth and numbers.

What does not pass is one FloatlensError that names the file. Nothing here waits: a pipe or a device is refused before
it is read.
"""

from __future__ import annotations

import errno
import json
import math
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from floatlens.core.errors import FloatlensError

__all__ = [
    "MOST_DIGITS",
    "check_reference",
    "check_regular",
    "check_values",
    "parse_json",
    "read_bounded",
    "read_json",
    "refuse_special",
    "shown",
]

_MIB = 1 << 20
SETTINGS = 16 * _MIB
"""Bytes of the largest file of settings."""
DEEPEST = 64
"""Levels of lists and mappings in each other."""
MOST_DIGITS = 40
"""Digits of a whole number: published tokenizers state 10**30 as their longest text."""


def check_regular(path: Path, most: float) -> int:
    """The size of a regular file (or a link to one) of at most `most` bytes; anything else is refused."""
    try:
        found = path.stat()
    except OSError as error:
        raise _unreadable(path, error) from None
    if not stat.S_ISREG(found.st_mode):
        raise FloatlensError(f"{shown(path)}: not a regular file but {_kind(found.st_mode)}; give a file")
    if found.st_size > most:
        raise FloatlensError(
            f"{shown(path)}: {found.st_size / _MIB:,.0f} MB, and such a file has at most {most / _MIB:,.0f} MB"
        )
    return found.st_size


def refuse_special(path: Path) -> None:
    """Refuse a pipe, a socket or a device: the first is waited for, the last has no end. What is not there, or is a
    folder, is for the caller to say."""
    if path.exists() and not path.is_dir():
        check_regular(path, math.inf)


def check_reference(text: str) -> str:
    """A reference of data or a model, perhaps a path: no part of it is longer than the name of a file can be."""
    if len(text) > 4095 or any(len(part.encode("utf-8", "surrogatepass")) > 255 for part in text.split("/")):
        raise FloatlensError(f"{shown(text)}: no file has a name of {len(text):,} characters; give a shorter one")
    return text


def read_bounded(path: Path, most: int = SETTINGS) -> bytes:
    """The content of a regular file of at most `most` bytes, also where it grows while it is read."""
    check_regular(path, most)
    try:
        # not waiting for a pipe that took the place of the file since
        with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            content = file.read(most + 1)
    except OSError as error:
        raise _unreadable(path, error) from None
    if len(content) > most:
        raise FloatlensError(f"{shown(path)}: more than {most / _MIB:,.0f} MB, which such a file does not have")
    return content


def read_json(path: Path, most: int = SETTINGS) -> Any:
    """The value that a JSON file holds."""
    return parse_json(read_bounded(path, most), shown(path))


def parse_json(content: bytes, where: str) -> Any:
    """The value of a JSON text in UTF-8, within the bounds of `check_values`."""
    try:
        value = json.loads(content.decode("utf-8"))
    except RecursionError:
        raise FloatlensError(f"{where}: not valid JSON (nested too deeply)") from None
    except ValueError as error:  # not UTF-8, not JSON, or a number with thousands of digits
        raise FloatlensError(f"{where}: not valid JSON ({str(error)[:200]})") from None
    check_values(value, where)
    return value


def check_values(value: Any, where: str, digits: int = MOST_DIGITS) -> None:
    """Refuse values nested too deeply, whole numbers of too many digits, and text that is not Unicode."""
    level: list[Any] = [value]
    for _ in range(DEEPEST):
        for one in level:
            _check_scalar(one, where, digits)
        level = [inner for one in level for inner in _inside(one)]
        if not level:
            return
    raise FloatlensError(f"{where}: nested more than {DEEPEST} levels deep")


def shown(path: Path | str) -> str:
    """A path in a message: characters that are not Unicode are written as escapes, and a long one is shortened."""
    text = os.fsencode(str(path)).decode("utf-8", "backslashreplace") if isinstance(path, Path) else path
    return text if len(text) <= 300 else f"{text[:120]}...{text[-170:]}"


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return (*value.keys(), *value.values())
    return value if isinstance(value, list | tuple) else ()


def _check_scalar(value: Any, where: str, digits: int) -> None:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**digits:
        raise FloatlensError(f"{where}: a whole number of more than {digits} digits")
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise FloatlensError(
                f"{where}: text with half a character (\\u{ord(value[error.start]):04x}), which is not Unicode"
            ) from None


def _kind(mode: int) -> str:
    kinds = ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))
    return next((name for test, name in kinds if test(mode)), "a device")


def _unreadable(path: Path, error: OSError) -> FloatlensError:
    if error.errno == errno.ELOOP:
        return FloatlensError(f"{shown(path)}: a link that leads back to itself; give the file")
    return FloatlensError(f"{shown(path)}: {error.strerror or error}")
