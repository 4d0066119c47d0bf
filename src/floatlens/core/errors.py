"""The one error type for what a user can get wrong.

A `FloatlensError` is a single line: what is wrong, where, and what to do. The command line prints it as it is and keeps
the traceback for `--debug`. Anything else that is raised is a bug of ours.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["FloatlensError", "FloatlensWarning", "did_you_mean"]


class FloatlensError(Exception):
    """Something the user gave is wrong; the message is one line that says what, where and what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class FloatlensWarning(UserWarning):
    """A result is still given, but something about the input changed it (a document was cut to fit, say)."""


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """A hint such as `; did you mean "dream"?`, or the list of what is known when nothing is close."""
    names = sorted(known)
    close = difflib.get_close_matches(given, names, n=1)
    return f'; did you mean "{close[0]}"?' if close else f"; known: {', '.join(names)}"
