"""`PassObserver`: what is told when a pass of a model begins and when it has ended. Capture implements it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from floatlens.models.base import Pass

__all__ = ["PassObserver"]


class PassObserver(Protocol):
    """What capture implements to be told when a pass begins and when it has ended."""

    def begin(self, info: Pass) -> None: ...

    def end(self) -> None: ...
