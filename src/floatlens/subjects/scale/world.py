"""The scale world: people and places with attributes, all from one seed, and which of them occur in training.

- *known* people have fixed facts that training states again and again, the first of them most often and from early on,
  the rest rarely and only late, so a model knows some and not others;
- *unknown* people get new facts each time they appear in training, so only a document can tell them;
- *held-out* people never appear in training, in no document, question or answer; evaluation is about them.

A full name belongs to one group. First and last names are shared by all, so a held-out person is a new pair of familiar
words. Nothing here writes text: see `wording` and `contexts`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from floatlens.subjects.scale.lexicon import FIRST_NAMES, LAST_NAMES, PLACES, VALUES
from floatlens.subjects.scale.wording import PERSON, PLACE

__all__ = ["KNOWN", "WORLD_VERSION", "Group", "Subject", "World", "make_world"]

WORLD_VERSION = 2
"""Raised whenever a seed would give another world. Version 2 has 240 more known people; everybody else stayed."""

Group = Literal["known", "unknown", "heldout"]

KNOWN, _OLD_FRIENDS, _HELDOUT = 360, 120, 300
_NAMES = 1  # of the draw of names and facts: a larger group of known people leaves the others as they were


@dataclass(frozen=True)
class Subject:
    """A person or a place and what is true of it."""

    name: str
    kind: Literal["person", "place"]
    facts: dict[str, str]


class World:
    """Names by group, the facts of known people, and draws from both. Example: `make_world().known[0].facts["city"]`"""

    def __init__(self, seed: int = 0, known: int = KNOWN) -> None:
        """The first `known` of the known people; whoever else would be known is unknown in this one."""
        if not (_OLD_FRIENDS <= known <= KNOWN and known % 2 == 0):
            raise ValueError(f"known={known}: give an even number from {_OLD_FRIENDS} to {KNOWN}")
        self.seed = seed
        random = np.random.default_rng([seed, _NAMES])
        order = random.permutation(len(FIRST_NAMES) * len(LAST_NAMES))
        names = [f"{FIRST_NAMES[i // len(LAST_NAMES)]} {LAST_NAMES[i % len(LAST_NAMES)]}" for i in order.tolist()]
        rest = _OLD_FRIENDS + _HELDOUT
        late = rest + known - _OLD_FRIENDS
        self.names: dict[Group, list[str]] = {
            "known": names[:_OLD_FRIENDS] + names[rest:late],
            "heldout": names[_OLD_FRIENDS:rest],
            "unknown": names[late:],
        }
        self._sets = {group: frozenset(found) for group, found in self.names.items()}
        married = self.names["known"]
        spouses = {name: married[i ^ 1] for i, name in enumerate(married)}  # neighbours are
        self.known = tuple(Subject(name, "person", self._facts(random, spouses[name])) for name in married)
        weight = _met(known)
        self._known_cdf = np.cumsum(weight / weight.sum())

    def group_of(self, name: str) -> Group:
        """The group a full name belongs to."""
        return next(group for group, names in self._sets.items() if name in names)

    def number_of_values(self, attribute: str) -> int:
        """How many answers a question about an attribute can have."""
        return len(FIRST_NAMES) * len(LAST_NAMES) if attribute == "spouse" else len(VALUES[attribute])

    def draw_known(self, random: np.random.Generator, count: int, *, evenly: bool = False) -> list[Subject]:
        """Different known people, by how often they are met in training or `evenly`; no two share a last name."""
        found: dict[str, Subject] = {}
        while len(found) < count:
            drawn = random.random()
            place = int(drawn * len(self.known)) if evenly else int(np.searchsorted(self._known_cdf, drawn))
            who = self.known[min(place, len(self.known) - 1)]
            found.setdefault(_last(who.name), who)
        return list(found.values())

    def draw_people(
        self, random: np.random.Generator, count: int, group: Group, *, similar: bool = False
    ) -> list[Subject]:
        """Different people of a group with new facts; `similar`: most share their first name with another.

        Spouses have different last names, so a last name identifies one person.
        """
        names = self.draw_names(random, count, group, similar=similar)
        taken = {_last(name) for name in names}
        spouses = [self._draw_name(random, group, taken) for _ in names]
        return [
            Subject(name, "person", self._facts(random, spouse)) for name, spouse in zip(names, spouses, strict=True)
        ]

    def draw_places(self, random: np.random.Generator, count: int) -> list[Subject]:
        """Different places with new facts."""
        chosen = random.choice(len(PLACES), count, replace=False).tolist()
        return [Subject(PLACES[i], "place", {a: _one(random, VALUES[a]) for a in PLACE}) for i in chosen]

    def draw_names(self, random: np.random.Generator, count: int, group: Group, *, similar: bool = False) -> list[str]:
        """Full names of a group, no two with the same last name; `similar`: most share a first name with another."""
        found: dict[str, str] = {}
        while len(found) < count:
            name = self._draw_name(random, group, found)
            if similar and found and random.random() < 0.75:
                name = self._like(random, list(found.values()), group) or name
            found[_last(name)] = name
        return list(found.values())

    def _draw_name(self, random: np.random.Generator, group: Group, taken: Collection[str]) -> str:
        """A name of the group whose last name is not taken."""
        names = self.names[group]
        while True:
            name = names[int(random.integers(len(names)))]
            if _last(name) not in taken:
                return name

    def _like(self, random: np.random.Generator, names: Sequence[str], group: Group) -> str | None:
        """A name of the group with the first name of one of `names` and another last name, if a few draws find one."""
        first = names[int(random.integers(len(names)))].split()[0]
        taken = {_last(name) for name in names}
        for _ in range(20):
            last = _one(random, LAST_NAMES)
            if f"{first} {last}" in self._sets[group] and last not in taken:
                return f"{first} {last}"
        return None

    def _facts(self, random: np.random.Generator, spouse: str) -> dict[str, str]:
        return {a: spouse if a == "spouse" else _one(random, VALUES[a]) for a in PERSON}


def _met(known: int) -> NDArray[np.float64]:
    """How often each known person is met, as weights. The first ones alone: the first 16 times as often as the last.
    Once others have joined: half as often every 40 places, so some are remembered and some are not."""
    rank = np.arange(known, dtype=np.float64)
    return 1 / (rank + 8) if known == _OLD_FRIENDS else 2 ** (-rank / 40)


def _last(name: str) -> str:
    return name.rsplit(" ", 1)[-1]


def _one(random: np.random.Generator, values: Sequence[str]) -> str:
    return values[int(random.random() * len(values))]


@cache
def make_world(seed: int = 0, known: int = KNOWN) -> World:
    """The world of a seed; made once per process."""
    return World(seed, known)
