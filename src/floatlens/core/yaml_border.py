"""YAML of others: how deep it is and how large its aliases make it are counted before any value is made.

A few hundred bytes of aliases can stand for billions of values, and an anchor can hold itself.
"""

from __future__ import annotations

from typing import Any

import yaml

from floatlens.core.borders import DEEPEST
from floatlens.core.errors import FloatlensError

__all__ = ["MOST_BYTES", "MOST_VALUES", "check_yaml", "load_yaml"]

MOST_BYTES = 1 << 20
"""Bytes of the largest YAML file."""
MOST_VALUES = 100_000
"""Values of a file with its aliases written out."""


def check_yaml(text: str, where: str) -> None:
    """Refuse a text nested too deeply, too large with its aliases written out, or with an anchor that holds itself.

    Text that is not YAML passes: the reader that follows says where it is wrong.
    """
    if len(text) > MOST_BYTES:
        raise FloatlensError(f"{where}: more than {MOST_BYTES >> 20} MB, which such a file does not have")
    counts = _Counts(where)
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            counts.take(event)
    except (yaml.YAMLError, RecursionError, ValueError, IndexError):
        return


def load_yaml(text: str, where: str) -> Any:
    """The value of a YAML text; what is wrong with it is one line."""
    check_yaml(text, where)
    try:
        return yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f":{error.problem_mark.line + 1}"
        raise FloatlensError(f"{where}{line}: not valid YAML: {str(error.problem)[:200]}") from None
    except (yaml.YAMLError, RecursionError, ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        # `!!int abc`, the 45th of the month, a list as a key
        raise FloatlensError(f"{where}: not valid YAML: {str(error)[:200]}") from None


class _Counts:
    """Values that a document stands for, while its events pass."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._total = 0
        self._open: list[tuple[str | None, int]] = []  # anchor and total before, of every collection that is open
        self._sizes: dict[str, int] = {}

    def take(self, event: Any) -> None:
        """Count one event."""
        if isinstance(event, yaml.AliasEvent):
            if any(anchor == event.anchor for anchor, _ in self._open):
                raise FloatlensError(f'{self._where}:{_line(event)}: the anchor "{event.anchor}" holds itself')
            self._add(self._sizes.get(str(event.anchor), 1), event)
        elif isinstance(event, yaml.ScalarEvent):
            self._add(1, event)
            if event.anchor is not None:
                self._sizes[event.anchor] = 1
        elif isinstance(event, yaml.CollectionStartEvent):
            self._open.append((event.anchor, self._total))
            self._add(1, event)
            if len(self._open) > DEEPEST:
                raise FloatlensError(f"{self._where}:{_line(event)}: nested more than {DEEPEST} levels deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = self._open.pop()
            if anchor is not None:
                self._sizes[anchor] = self._total - before

    def _add(self, count: int, event: Any) -> None:
        self._total += count
        if self._total > MOST_VALUES:
            raise FloatlensError(
                f"{self._where}:{_line(event)}: with its aliases written out it has more than {MOST_VALUES:,} values"
            )


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1
