"""Memory of this process (Linux): anonymous memory, its peak while something runs, and the peak of all resident pages.

Anonymous memory is what a process holds for itself and what has to fit. Pages of a mapped file also count as resident
(VmHWM) while they are mapped, but the kernel drops them whenever memory is needed.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from floatlens_lab.bench.run import from_proc

__all__ = ["Peak", "anonymous"]

_STATUS = "/proc/self/status"
_SECONDS = 0.002


def anonymous() -> int:
    """Bytes of anonymous memory that are resident now."""
    return from_proc(_STATUS, "RssAnon")


@dataclass
class Peak:
    """A context that measures by how many bytes memory grows inside it: `anonymous`, looked at every 2 ms, and
    `resident`, kept by the kernel.

    Example: `with Peak() as peak: load(folder)`, then `peak.anonymous`
    """

    anonymous: int = 0
    resident: int = 0

    def __enter__(self) -> Peak:
        self._before = anonymous(), from_proc(_STATUS, "VmRSS")
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        Path("/proc/self/clear_refs").write_text("5")  # sets the kernel's peak back to what is held now
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()
        self._look()
        self.resident = max(0, from_proc(_STATUS, "VmHWM") - self._before[1])

    def _watch(self) -> None:
        while not self._ended.wait(_SECONDS):
            self._look()

    def _look(self) -> None:
        self.anonymous = max(self.anonymous, anonymous() - self._before[0])
