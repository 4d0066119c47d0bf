"""Damage that fits any input: flipped bits, and JSON with something unexpected somewhere in it."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any

__all__ = ["JUNK", "flipped", "replaced_somewhere"]

_DEEP = "@deep@"
_DIGITS = "@digits@"
JUNK: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 2**31, 2**63, -(2**63), 10**30, 1.5, 1e308, float("nan"), float("inf")),
    *("", "a", "null", "\x00", "\ud800", "\u202e", "\x1b[31m", "=1+1", "x" * 10_000, "../..", "1e5"),
    *([], {}, [[]], [None], {"": None}, [1] * 1000, {"a": {"a": {"a": []}}}, ["a", 1, None], _DEEP, _DIGITS),
)
"""Values where others are expected; the last two become a deep nesting and a number of 5,000 digits."""


def flipped(rng: Random, content: bytes) -> bytes:
    """The content with one bit changed; empty content stays."""
    if not content:
        return content
    at = rng.randrange(len(content))
    return content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :]


def replaced_somewhere(rng: Random, value: Any) -> bytes:
    """JSON of the value with one part of it, at any depth, replaced, removed or doubled."""
    made = copy.deepcopy(value)
    places = list(_places(made))
    if places:
        holder, key = rng.choice(places)
        what = rng.random()
        if what < 0.7:
            holder[key] = copy.deepcopy(rng.choice(JUNK))
        elif what < 0.9:
            del holder[key]
        elif isinstance(holder, list):
            holder.insert(key, copy.deepcopy(holder[key]))
        else:
            holder[f"{key} "] = holder[key]
    text = json.dumps(made)
    return text.replace(f'"{_DEEP}"', "[" * 5000 + "]" * 5000).replace(f'"{_DIGITS}"', "9" * 5000).encode()


def _places(value: Any) -> Any:
    """Every (container, key) in a value."""
    items = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    for key, inner in items:
        yield value, key
        yield from _places(inner)
