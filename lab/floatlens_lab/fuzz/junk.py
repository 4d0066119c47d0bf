"""Damage that fits any input: flipped bits, and JSON with something unexpected somewhere in it."""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path
from random import Random
from typing import Any

__all__ = ["JUNK", "change_kind", "flipped", "replace_somewhere", "replaced_somewhere"]

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


def replace_somewhere(rng: Random, value: Any) -> None:
    """Replace, remove or double one part of the value, at any depth."""
    places = list(_places(value))
    if not places:
        return
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


def replaced_somewhere(rng: Random, value: Any) -> bytes:
    """JSON of the value with one part of it, at any depth, replaced, removed or doubled."""
    made = copy.deepcopy(value)
    replace_somewhere(rng, made)
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


def change_kind(rng: Random, path: Path) -> str:
    """Put something else where a file is: nothing, a folder, a pipe, a device, a link to itself or nowhere, nothing but
    zeros, or no byte at all."""
    path.unlink()
    kind = rng.choice(("gone", "folder", "pipe", "device", "link to itself", "link to nothing", "huge", "empty"))
    links = {"device": "/dev/zero", "link to itself": path.name, "link to nothing": "/no/such/file"}
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind in links:
        path.symlink_to(links[kind])
    elif kind != "gone":
        with path.open("wb") as file:
            file.truncate(1 << 33 if kind == "huge" else 0)
    return kind
