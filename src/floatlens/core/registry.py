"""One registry for everything that can be added: families, samplers, probes, edits, stress tests, formats, analyses …

Built-in entries are named as "module:attribute" and imported when they are first used. Other packages add theirs
through entry points of the registry's group:

    [project.entry-points."floatlens.probes"]
    sharpness = "my_package:Sharpness"
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar, cast

from floatlens.core.errors import FloatlensError, did_you_mean

__all__ = ["Registry", "UnknownNameError"]

T = TypeVar("T")


class UnknownNameError(FloatlensError, KeyError):
    """No entry has this name; the message says which names are close, or which there are."""

    __str__ = FloatlensError.__str__


class Registry(Mapping[str, T], Generic[T]):
    """Entries by name, in the order: built-in, from other packages, added at run time.

    `what` is the word that messages use ("probe"), `group` the name of the entry-point group.

    Example: `Registry("probe", "floatlens.probes", {"received": "floatlens.probes.received:Received"})["received"]`
    """

    def __init__(self, what: str, group: str, builtin: Mapping[str, str] | None = None) -> None:
        self.what, self.group = what, group
        self._builtin = dict(builtin or {})
        self._loaded: dict[str, T] = {}
        self._added: dict[str, T] = {}

    @property
    def builtin(self) -> Collection[str]:
        """The names that come with floatlens."""
        return self._builtin.keys()

    def add(self, name: str, entry: T) -> T:
        """Add an entry for the life of this process; its name must be free."""
        if name in self:
            raise ValueError(f'the {self.what} "{name}" exists already')
        self._added[name] = entry
        return entry

    def remove(self, name: str) -> None:
        """Take back what `add` added."""
        del self._added[name]

    @cached_property
    def _foreign(self) -> dict[str, EntryPoint]:
        found: dict[str, EntryPoint] = {}
        for point in sorted(entry_points(group=self.group), key=lambda one: one.name):
            if point.name in self._builtin or point.name in found:
                raise FloatlensError(
                    f'{_package(point)} adds a {self.what} "{point.name}", and that name is taken; '
                    "rename it in that package's entry points"
                )
            found[point.name] = point
        return found

    def check_foreign(self, kind: type[T], names: Collection[str] | None = None) -> None:
        """Import the entries of other packages (or those named), so a broken one is found now instead of later.

        Example: `CLAIMS.check_foreign(ClaimRule)`
        """
        for name, point in self._foreign.items():
            if (names is None or name in names) and not isinstance(self[name], kind):
                found = type(self[name]).__name__
                raise FloatlensError(
                    f'the {self.what} "{name}" of {_package(point)} ({point.value}) has the type {found}; '
                    f"it must be a {kind.__name__} (docs/extending.md)"
                )

    def __getitem__(self, name: str) -> T:
        if name in self._added:
            return self._added[name]
        if name not in self._loaded:
            if name in self._builtin:
                module, _, attribute = self._builtin[name].partition(":")
                self._loaded[name] = getattr(import_module(module), attribute)
            elif name in self._foreign:
                self._loaded[name] = _load(self._foreign[name], self.what)
            else:
                raise UnknownNameError(f'no {self.what} "{name}"{did_you_mean(name, self)}')
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._builtin or name in self._added or name in self._foreign

    def __iter__(self) -> Iterator[str]:
        return iter([*self._builtin, *self._foreign, *self._added])

    def __len__(self) -> int:
        return len(self._builtin) + len(self._foreign) + len(self._added)


def _load(point: EntryPoint, what: str) -> Any:
    try:
        return cast("Any", point.load())
    except Exception as error:  # whatever another package raises on import, the user gets one line about it
        raise FloatlensError(
            f'the {what} "{point.name}" of {_package(point)} ({point.value}) cannot be imported: '
            f"{type(error).__name__}: {error}"
        ) from error


def _package(point: EntryPoint) -> str:
    return f"the package {point.dist.name}" if point.dist is not None else point.value
