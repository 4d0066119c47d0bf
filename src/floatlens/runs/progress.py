"""Progress of `fl.run` on stderr: a bar on a terminal, a line every ten seconds elsewhere, or nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["Progress"]

_EVERY = 10.0


class Progress:
    """Example: `with Progress().over("items", 100, 0) as advance: advance()`"""

    def __init__(self, *, show: bool = True) -> None:
        self._show = show

    def say(self, message: str) -> None:
        """A line, if progress is shown."""
        if self._show:
            sys.stderr.write(f"floatlens: {' '.join(message.split())}\n")
            sys.stderr.flush()

    @contextmanager
    def over(self, what: str, total: int, done: int) -> Iterator[Callable[[], None]]:
        """Calls of what is given count one more item each."""
        if not self._show or done >= total:
            yield lambda: None
        elif sys.stderr.isatty():
            with self._bar(what, total, done) as advance:
                yield advance
        else:
            yield self._lines(what, total, done)

    @contextmanager
    def _bar(self, what: str, total: int, done: int) -> Iterator[Callable[[], None]]:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        with Bar(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=Console(stderr=True)) as bar:
            task = bar.add_task(what, total=total, completed=done)
            yield lambda: bar.advance(task)

    def _lines(self, what: str, total: int, done: int) -> Callable[[], None]:
        count, last = done, time.monotonic()
        self.say(f"{what}: {total - done} to do")

        def advance() -> None:
            nonlocal count, last
            count += 1
            if time.monotonic() - last >= _EVERY and count < total:
                last = time.monotonic()
                self.say(f"{what}: {count} of {total}")

        return advance

    def end(self, folder: Path, report: Path | None) -> None:
        self.say(f"done: {report or folder}")
