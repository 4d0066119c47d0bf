"""What the command line says and how: messages, warnings, a progress bar on a terminal and plain lines elsewhere.

Text from data or models is cleaned before it is shown: it never becomes markup and never reaches the terminal as a
control sequence. Nothing here knows what is being done; rich is imported when a bar or a table is drawn.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from floatlens.core.errors import FloatlensWarning
from floatlens.core.text import clean, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

__all__ = [
    "Bar",
    "clean",
    "console",
    "duration",
    "forgiving_streams",
    "many",
    "progress",
    "say",
    "say_skipped",
    "visible",
    "warnings_shown",
]

_PLAIN_EVERY = 10.0
_SURE = 2.0
"""Seconds before the time left is shown: the first items say little about the others."""


def visible(piece: str) -> str:
    """A token's text with its spaces and line ends shown: " the" is "␣the"."""
    marked = piece.replace("\r\n", "⏎").replace("\n", "⏎").replace("\t", "⇥").replace(" ", "␣")
    return clean(marked) or "∅"


def duration(seconds: float) -> str:
    """Seconds as people say them: 4.2 s, 2:05, 1:02:05."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


def many(number: int, what: str) -> str:
    """A number with its noun: 1 pass, 2 passes, 1,024 keys."""
    return f"{number:,} {what}{'' if number == 1 else 'es' if what.endswith('s') else 's'}"


def say(message: str) -> None:
    """One line on stderr under the program's name; a live bar stays below it."""
    sys.stderr.write(f"floatlens: {clean(message)}\n")
    sys.stderr.flush()


def say_skipped(skipped: Mapping[str, str]) -> None:
    """What could not be made, with one line per reason."""
    for reason in dict.fromkeys(skipped.values()):
        names = ", ".join(name for name, why in skipped.items() if why == reason)
        say(f"skipped {names}: {reason}")


def console(*, stderr: bool = False) -> Console:
    """A console that takes no markup and no control character from text, whoever made it.

    Tables that go to a file or a pipe are 120 columns wide.
    """
    from rich.console import Console
    from rich.segment import Segment

    class SafeConsole(Console):
        def render(self, renderable: Any, options: Any = None) -> Iterator[Segment]:
            for one in super().render(renderable, options):
                yield one if one.control else Segment(printable(one.text), one.style)

    terminal = _is_terminal(sys.stderr if stderr else sys.stdout)
    width = None if terminal or "COLUMNS" in os.environ else 120
    return SafeConsole(stderr=stderr, markup=False, highlight=False, emoji=False, width=width)


@contextmanager
def warnings_shown(*, everything: bool) -> Iterator[None]:
    """Our warnings as one line each; those of libraries only when `everything` is asked for. Restored after."""
    with warnings.catch_warnings():
        if not everything:
            warnings.simplefilter("ignore")
        warnings.simplefilter("always", FloatlensWarning)
        library = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *rest: Any, **named: Any) -> None:
            if issubclass(category, FloatlensWarning):
                say(f"warning: {message}")
            else:
                library(message, category, *rest, **named)

        warnings.showwarning = show
        yield


def forgiving_streams() -> None:
    """A character that the terminal's encoding lacks is replaced, instead of ending the program."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


class Bar:
    """Progress over items. `part` moves within the item under way, `item` finishes it.

    `item` takes a note about the item, for a bar that is drawn, and the state, which plain lines show as well.
    """

    def __init__(self, total: int, done: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.total, self.done = total, done
        self._clock = clock
        self._began, self._fresh = clock(), 0.0
        self._state = ""

    def part(self, fraction: float) -> None:
        """How much of the item under way is done, 0 to 1."""
        self._fresh = int(self._fresh) + min(max(fraction, 0.0), 0.999)
        self._draw(None)

    def item(self, note: str = "", state: str = "") -> None:
        """One more item is done."""
        self.done += 1
        self._fresh = int(self._fresh) + 1.0
        self._state = clean(state)
        self._draw(clean(note))

    def start(self) -> None:
        """Count the time from the item that comes now: getting ready was part of it, and it says nothing of a rate."""
        self._began, self._fresh = self._clock(), -1.0

    def pace(self) -> str:
        """Rate and time left, from what this session did; empty before anything is known."""
        elapsed = self._clock() - self._began
        if self._fresh <= 0 or elapsed <= 0:
            return ""
        each = elapsed / self._fresh
        rate = f"{1 / each:.1f} per second" if each < 0.5 else f"{duration(each)} each"
        if self.done >= self.total or elapsed < _SURE:  # too early to tell how long the rest takes
            return rate
        left = (self.total - self.done - self._fresh % 1) * each
        return f"{rate}, {duration(left)} left"

    def _draw(self, note: str | None) -> None:
        """Show the state; `note` is None between items."""


class _PlainBar(Bar):
    """A line when ten seconds have passed since the last one."""

    _shown: float | None = None

    def _draw(self, note: str | None) -> None:
        now = self._clock()
        if self._shown is None:
            self._shown = self._began
        if note is not None and now - self._shown >= _PLAIN_EVERY and self.done < self.total:
            self._shown = now
            pace = self.pace()
            state = f"; {self._state}" if self._state else ""
            say(f"{self.done} of {self.total}" + (f" ({pace})" if pace else "") + state)


class _RichBar(Bar):
    """A bar that redraws itself in place, with the last note below it."""

    def __init__(self, total: int, done: int, update: Callable[..., None], note: Text) -> None:
        super().__init__(total, done)
        self._update, self._note = update, note

    def _draw(self, note: str | None) -> None:
        if note is not None:
            self._note.plain = " · ".join(filter(None, (self._state, note)))
        self._update(completed=self.done + self._fresh % 1, count=f"{self.done}/{self.total}", pace=self.pace())


@contextmanager
def progress(what: str, total: int, done: int = 0) -> Iterator[Bar]:
    """A bar over `total` items of which `done` were finished before: drawn on a terminal, plain lines elsewhere."""
    if not _is_terminal(sys.stderr):
        yield _PlainBar(total, done)
        return
    from rich.console import Group
    from rich.live import Live
    from rich.progress import BarColumn, Progress, TextColumn
    from rich.text import Text

    screen = console(stderr=True)
    words = [TextColumn(f"{{task.fields[{name}]}}", markup=False) for name in ("count", "pace")]
    bar = Progress(TextColumn(what, markup=False), BarColumn(), *words, console=screen)
    task = bar.add_task("", total=total, completed=done, count=f"{done}/{total}", pace="")
    note = Text(style="dim", no_wrap=True, overflow="ellipsis")
    with Live(Group(bar, note), console=screen, transient=True, refresh_per_second=8):
        yield _RichBar(total, done, lambda **fields: bar.update(task, **fields), note)


def _is_terminal(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM", "") not in ("dumb", "unknown")
