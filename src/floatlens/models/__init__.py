"""Models of every family behind one face: `load` a checkpoint, get a `LanguageModel`.

Weights go into transformers' own classes, never through code that a checkpoint brings. torch and transformers are
imported when something is loaded, not when this package is, so that listing families is quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .names import register_name, registered_names
from .registry import families

if TYPE_CHECKING:
    from .base import Kind, LanguageModel, Pass, PassObserver
    from .loading import load

__all__ = [
    "Kind",
    "LanguageModel",
    "Pass",
    "PassObserver",
    "families",
    "load",
    "register_name",
    "registered_names",
]

_LATER = {"Kind": "base", "LanguageModel": "base", "Pass": "base", "PassObserver": "base", "load": "loading"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_LATER[name]}", __name__), name)
