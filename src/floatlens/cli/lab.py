"""The commands that need the repository say so in one line where only the package is installed."""

from __future__ import annotations

from importlib.util import find_spec

from floatlens.core.errors import FloatlensError

__all__ = ["require_lab"]


def require_lab(command: str) -> None:
    """Refuse a command whose code (trainer, benchmarks) is in `lab/` of the repository and not installed."""
    if find_spec("floatlens_lab") is None:
        raise FloatlensError(
            f"{command}: its code is not part of the installed package; clone the repository and run `make setup`"
        )
