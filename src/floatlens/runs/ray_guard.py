"""A process that ends what is left of a Ray cluster when the process that started it is gone, however it went.

Ray's own agents notice the end of a killed driver only after a minute or more. This one is told by the end of its
input, which the system closes. It runs as a script, so it loads nothing but psutil.
"""

from __future__ import annotations

import select
import sys
from contextlib import suppress
from typing import Any

import psutil

__all__ = ["main"]

_SERVERS = ("gcs_server", "raylet")
_EVERY = 1.0


def main(pid: int) -> None:
    """Watch the Ray processes below `pid` until the input ends, then end those that are left after a moment."""
    seen: dict[int, Any] = {}
    while not select.select([sys.stdin], [], [], _EVERY)[0]:
        with suppress(psutil.Error):
            for one in psutil.Process(pid).children():
                if _is_ray(one):
                    seen |= {each.pid: each for each in (one, *one.children(recursive=True))}
    _, left = psutil.wait_procs(list(seen.values()), timeout=2.0)
    for one in left:
        with suppress(psutil.Error):
            one.kill()  # psutil looks whether the id still means the same process


def _is_ray(process: Any) -> bool:
    with suppress(psutil.Error):
        return process.name() in _SERVERS or any("/ray/" in part for part in process.cmdline()[1:3])
    return False


if __name__ == "__main__":
    main(int(sys.argv[1]))
