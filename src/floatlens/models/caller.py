"""One caller at a time: passes of one model follow each other, and a capture belongs to the thread that opened it.

Hooks and observers belong to the module, so two passes at once would see each other's; a copy made during a capture
would carry its hooks away.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from floatlens.core.errors import FloatlensError

__all__ = ["OneCaller", "alone"]

P = ParamSpec("P")
T = TypeVar("T")
M = TypeVar("M", bound="OneCaller")


@dataclass(eq=False, repr=False)
class OneCaller:
    """What a model has for it: a lock that a pass holds, and the thread whose capture or edit context is open."""

    captured_by: int | None = field(default=None, init=False)
    running: threading.RLock = field(default_factory=threading.RLock, init=False)

    @property
    def _name(self) -> str:
        return str(self.__dict__.get("ref"))

    def check_caller(self) -> None:
        """Refuse a thread while another one captures or edits this model."""
        if self.captured_by not in (None, threading.get_ident()):
            raise FloatlensError(
                f"{self._name} is being captured or edited in another thread; wait until that ends, or load "
                "it again for this thread"
            )

    def __getstate__(self) -> dict[str, Any]:
        if self.captured_by is not None:
            raise FloatlensError(
                f"{self._name} is being captured or edited, and a copy would be too; copy or pickle it afterwards"
            )
        return {name: value for name, value in self.__dict__.items() if name != "running"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, running=threading.RLock())


def alone(run: Callable[Concatenate[M, P], T]) -> Callable[Concatenate[M, P], T]:
    """A method that runs once at a time, and not from another thread while a capture is open."""

    @wraps(run)
    def one(model: M, *args: P.args, **kwargs: P.kwargs) -> T:
        with model.running:
            model.check_caller()
            return run(model, *args, **kwargs)

    return cast("Callable[Concatenate[M, P], T]", one)
