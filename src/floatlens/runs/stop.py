"""Ctrl-C during a run: the first stops taking tasks, the second interrupts, never in the middle of writing."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

__all__ = ["Stop"]

T = TypeVar("T")


class Stop:
    """Whether the user wants to stop; `on_ask` is called at the first Ctrl-C.

    Example: `with Stop(say).listening() as stop: …`
    """

    def __init__(self, on_ask: Callable[[], Any] = lambda: None) -> None:
        self.times = 0
        self._on_ask = on_ask
        self._writing = False

    @property
    def asked(self) -> bool:
        return self.times > 0

    @contextmanager
    def listening(self) -> Iterator[Stop]:
        """Handle Ctrl-C inside the block. Only the main thread receives signals; elsewhere nothing changes."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        before = signal.getsignal(signal.SIGINT)
        signal.signal(signal.SIGINT, self._heard)
        try:
            yield self
        finally:
            signal.signal(signal.SIGINT, before)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        self.times += 1
        if self.times == 1:
            self._on_ask()
        elif not self._writing:
            raise KeyboardInterrupt

    @contextmanager
    def writing(self) -> Iterator[None]:
        """The block is finished before a second Ctrl-C interrupts."""
        self._writing = True
        try:
            yield
        finally:
            self._writing = False
        if self.times > 1:
            raise KeyboardInterrupt

    def until(self, tasks: Iterable[T]) -> Iterator[T]:
        """The tasks, up to the moment when stopping was asked for."""
        source = iter(tasks)
        while not self.asked:  # before a task is made: that may be work, or may fail
            task = next(source, None)
            if task is None:
                return
            yield task
