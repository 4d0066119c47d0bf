"""Memory that runs out where nothing is halved by itself: one line that says what to leave out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from floatlens.core.errors import FloatlensError

__all__ = ["enough_memory"]


@contextmanager
def enough_memory(what: str, instead: str) -> Iterator[None]:
    """A FloatlensError where memory runs out inside. Records and traces are not touched: they were written before.

    Example: `with enough_memory("drawing drift", "leave it out with --only"): draw(figure)`
    """
    try:
        yield
    except MemoryError as error:
        raise FloatlensError(f"memory ran out while {what}; {instead}; records and traces are kept") from error
