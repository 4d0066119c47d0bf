"""What a data format is: how it is recognised, and how one record becomes an `Example`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from floatlens.data.examples import Example
from floatlens.data.fields import Record

__all__ = ["Format"]


class Format(ABC):
    """One format of question files; a derived class needs `name`, `title`, `marks` and `read`.

    What a record does not say (which document is gold, for example) is left open.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    marks: ClassVar[tuple[str, ...]]
    """Fields that only records of this format have together."""
    needs: ClassVar[tuple[str, ...] | None] = None
    """Fields that every record must have; None: the marks."""
    fallback: ClassVar[bool] = False
    """Tried after all others."""

    def matches(self, record: Record) -> str | None:
        """Why a file that begins with this record is of this format; None if it is not."""
        return f'it has "{self.marks[-1]}"' if all(mark in record for mark in self.marks) else None

    @abstractmethod
    def read(self, record: Record, line: int) -> Example:
        """The example of a record; `line` is its line, the id of a record without one."""
