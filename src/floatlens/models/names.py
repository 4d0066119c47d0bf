"""Registered names such as `scale:llada`: the models of a package, by a prefix and a name.

The prefixes are entry points of the group "floatlens.subjects"; ours are declared in pyproject.toml like those of any
other package. A name that nobody registered is an error that lists what exists. It is never looked up on the network.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.core.registry import Registry

__all__ = ["SUBJECTS", "Subject", "is_registered_form", "registered_names", "resolve", "resolve_name"]

_FORM = re.compile(r"([a-z][a-z0-9_-]+):(.*)", re.DOTALL)  # two letters at least: a Windows drive is a path


@dataclass(frozen=True)
class Subject:
    """Models behind one prefix: `names()` lists them, `path(name)` gives the folder or file of one.

    Example: `Subject(names=lambda: ["tiny"], path=lambda name: ROOT / name)`
    """

    names: Callable[[], Iterable[str]]
    path: Callable[[str], Path]


SUBJECTS: Registry[Subject] = Registry("subject", "floatlens.subjects")


def registered_names() -> tuple[str, ...]:
    """Every registered name that can be loaded, with its prefix.

    >>> registered_names()[-4:]
    ('scale:dream', 'scale:llada', 'scale:llama', 'scale:qwen')
    """
    return tuple(f"{prefix}:{name}" for prefix in sorted(SUBJECTS) for name in sorted(SUBJECTS[prefix].names()))


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
    if prefix in SUBJECTS and name in set(SUBJECTS[prefix].names()):
        return SUBJECTS[prefix].path(name)
    names = registered_names()
    if not names:
        raise FloatlensError(f"no model is registered as {ref!r}, and no names are registered; run `make setup`")
    raise FloatlensError(f"no model is registered as {ref!r}{did_you_mean(ref, names)}")
