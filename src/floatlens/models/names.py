"""Registered names such as `scale:llada`: a prefix, and a resolver that gives the folder of each name behind it.

Only a register: the folders come from whoever registers a prefix. Rooms of floatlens that bring models register theirs
when they are first asked for. A name nobody registered is an error that lists what there is, and is never looked up on
the network.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from floatlens.core.errors import FloatlensError, did_you_mean

__all__ = ["is_registered_form", "register_name", "registered_names", "resolve", "resolve_name"]

_FORM = re.compile(r"([a-z][a-z0-9_-]+):(.*)", re.DOTALL)  # two letters at least, so that C:\models stays a path


@dataclass(frozen=True)
class _Entry:
    resolver: Callable[[str], Path]
    known: Callable[[], Iterable[str]]


_REGISTER: dict[str, _Entry] = {}
_OURS = ("floatlens.subjects.scale", "floatlens.subjects.natural")  # importing one of these registers its prefix


def register_name(prefix: str, resolver: Callable[[str], Path], *, known: Callable[[], Iterable[str]] = tuple) -> None:
    """Let `load("prefix:name")` read the folder that `resolver("name")` gives, for the names `known()` lists.

    Example: `register_name("scale", lambda name: ROOT / name, known=lambda: ["llada", "dream"])`
    """
    if _FORM.fullmatch(f"{prefix}:x") is None:
        raise ValueError(f"not a usable prefix: {prefix!r}")
    _REGISTER[prefix] = _Entry(resolver, known)


def registered_names() -> tuple[str, ...]:
    """Every name that can be loaded now, with its prefix."""
    for room in _OURS:
        import_module(room)
    return tuple(f"{prefix}:{name}" for prefix, entry in sorted(_REGISTER.items()) for name in sorted(entry.known()))


def is_registered_form(ref: str) -> bool:
    """Whether `ref` is written as a registered name (it may still be unknown)."""
    return _FORM.fullmatch(ref) is not None


def resolve(ref: str) -> str:
    """A reference with a registered name replaced by the path behind it."""
    return str(resolve_name(ref)) if is_registered_form(ref) else ref


def resolve_name(ref: str) -> Path:
    """The folder or file behind a registered name."""
    match = _FORM.fullmatch(ref)
    if match is None:
        raise ValueError(f"not a registered name: {ref!r}")
    prefix, name = match.groups()
    names = registered_names()
    entry = _REGISTER.get(prefix)
    if entry is not None and name in set(entry.known()):
        return entry.resolver(name)
    if not names:
        raise FloatlensError(f"no model is registered as {ref!r}, and no names are registered at all")
    raise FloatlensError(f"no model is registered as {ref!r}{did_you_mean(ref, names)}")
