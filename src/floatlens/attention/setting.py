"""Settings of an edit as they are written (`k=5`, `layers=0-3`) and how each is read. Imports no torch."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from floatlens.core.errors import FloatlensError

__all__ = [
    "BackendName",
    "ControlKind",
    "RowGroup",
    "Setting",
    "read_heads",
    "read_number",
    "read_span",
    "read_whole",
    "read_word",
    "span",
]

BackendName = Literal["auto", "rows", "fused"]
"""How attention is captured: streamed rows of weights, fused passes, or whichever suits the device."""
ControlKind = Literal["count", "mass"]
"""What a random control has in common with its edit: the number of keys or heads, or the attention that is moved."""
RowGroup = Literal["all", "answer", "last"]
"""Rows whose received attention defines anchors: all, those of the answer, or the last one."""


@dataclass(frozen=True)
class Setting:
    """One setting. `read` turns text into a value that JSON can hold; `argument` turns that into the constructor's.

    `default` applies where neither this setting nor one named by `instead` is given; None: left to the class.

    Example: `Setting("k", read_whole, 5, instead="rule", about="keys per head")`
    """

    name: str
    read: Callable[[str], Any]
    default: Any = None
    instead: str | tuple[str, ...] = ()
    about: str = ""
    argument: Callable[[Any], Any] = lambda value: value


def read_whole(text: str) -> int:
    return int(_matched(text, r"-?\d+", "a whole number"))


def read_number(text: str) -> float:
    return float(_matched(text, r"-?(\d+\.?\d*|\.\d+)(e-?\d+)?", "a number"))


def read_word(text: str) -> str:
    return _matched(text, r"\S+", "a word")


def read_span(text: str) -> str:
    """A number or an inclusive range, kept as written; `span` makes a range of it."""
    wanted = "a number or a range, such as 0-3"
    if not span(_matched(text, r"\d+(-\d+)?", wanted)):
        raise FloatlensError(f'wants {wanted}, got "{text}"')
    return text


def read_heads(text: str) -> tuple[tuple[int, int], ...]:
    pairs = _matched(text, r"\d+\.\d+(\+\d+\.\d+)*", "layer.head, several with +, such as 5.3+7.0").split("+")
    return tuple((int(layer), int(head)) for layer, head in (pair.split(".") for pair in pairs))


def span(written: str) -> range:
    """`2` or `0-3` as a range; both ends are included."""
    first, _, last = written.partition("-")
    return range(int(first), int(last or first) + 1)


def _matched(text: str, pattern: str, wanted: str) -> str:
    if re.fullmatch(pattern, text, re.ASCII) is None:
        raise FloatlensError(f'wants {wanted}, got "{text}"')
    return text
