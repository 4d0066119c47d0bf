"""The scale world: people and places with attributes, all from one seed, and which of them a model may ever meet.

- *known* people have fixed facts that training states again and again, the first of them most often;
- *unknown* people get new facts each time they appear in training, so only a document can tell them;
- *held-out* people never appear in training, in no document, question or answer; evaluation is about them.

A full name belongs to one group. First and last names are shared by all, so a held-out person is a new pair of familiar
words. Nothing here writes text: see `wording` and `contexts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

from floatlens.scale.lexicon import FIRST_NAMES, LAST_NAMES, PLACES, VALUES
from floatlens.scale.wording import PERSON, PLACE

__all__ = ["WORLD_VERSION", "Group", "Subject", "World", "make_world"]

WORLD_VERSION = 1
"""Raised whenever a seed would give another world."""

Group = Literal["known", "unknown", "heldout"]

_KNOWN, _HELDOUT = 120, 300
_RANK_OFFSET = 8.0  # known person r is met with weight 1 / (r + offset): the first 16 times as often as the last


@dataclass(frozen=True)
class Subject:
    """A person or a place and what is true of it."""

    name: str
    kind: Literal["person", "place"]
    facts: dict[str, str]

    @property
    def short(self) -> str:
        """The last word of a person's name, or the place's name."""
        return self.name.rsplit(" ", 1)[-1]


class World:
    """Names by group, the facts of known people, and draws from both. Example: `make_world().known[0].facts["city"]`"""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        random = np.random.default_rng([seed, WORLD_VERSION])
        order = random.permutation(len(FIRST_NAMES) * len(LAST_NAMES))
        names = [f"{FIRST_NAMES[i // len(LAST_NAMES)]} {LAST_NAMES[i % len(LAST_NAMES)]}" for i in order.tolist()]
        self.names: dict[Group, list[str]] = {
            "known": names[:_KNOWN],
            "heldout": names[_KNOWN : _KNOWN + _HELDOUT],
            "unknown": names[_KNOWN + _HELDOUT :],
        }
        self._sets = {group: frozenset(found) for group, found in self.names.items()}
        known = self.names["known"]
        spouses = {name: known[i ^ 1] for i, name in enumerate(known)}  # neighbours are married
        self.known = tuple(Subject(name, "person", self._facts(random, spouses[name])) for name in known)
        weight = 1.0 / (np.arange(_KNOWN) + _RANK_OFFSET)
        self._known_cdf = np.cumsum(weight / weight.sum())

    def group_of(self, name: str) -> Group:
        """The group a full name belongs to."""
        return next(group for group, names in self._sets.items() if name in names)

    def number_of_values(self, attribute: str) -> int:
        """How many answers a question about an attribute can have."""
        return len(FIRST_NAMES) * len(LAST_NAMES) if attribute == "spouse" else len(VALUES[attribute])

    def draw_known(self, random: np.random.Generator, count: int) -> list[Subject]:
        """Different known people, by how often they are met in training."""
        found: dict[int, None] = {}
        while len(found) < count:
            found[min(int(np.searchsorted(self._known_cdf, random.random())), _KNOWN - 1)] = None
        return [self.known[i] for i in found]

    def draw_people(
        self, random: np.random.Generator, count: int, group: Group, *, similar: bool = False
    ) -> list[Subject]:
        """Different people of a group with new facts; `similar`: most share a first or last name with another."""
        names = self.draw_names(random, count, group, similar=similar)
        return [Subject(name, "person", self._facts(random, self.draw_names(random, 1, group)[0])) for name in names]

    def draw_places(self, random: np.random.Generator, count: int) -> list[Subject]:
        """Different places with new facts."""
        chosen = random.choice(len(PLACES), count, replace=False).tolist()
        return [Subject(PLACES[i], "place", {a: _one(random, VALUES[a]) for a in PLACE}) for i in chosen]

    def draw_names(self, random: np.random.Generator, count: int, group: Group, *, similar: bool = False) -> list[str]:
        """Different full names of a group; `similar`: three quarters share a word with one that came before."""
        names = self.names[group]
        found: dict[str, None] = {}
        while len(found) < count:
            name = names[int(random.integers(len(names)))]
            if similar and found and random.random() < 0.75:
                name = self._like(random, list(found), group) or name
            found[name] = None
        return list(found)

    def _like(self, random: np.random.Generator, names: Sequence[str], group: Group) -> str | None:
        """A name of the group that shares the first or the last word with one of `names`, if a few draws find one."""
        first, last = names[int(random.integers(len(names)))].split()
        for _ in range(20):
            other = (
                f"{first} {_one(random, LAST_NAMES)}"
                if random.random() < 0.5
                else f"{_one(random, FIRST_NAMES)} {last}"
            )
            if other in self._sets[group] and other not in names:
                return other
        return None

    def _facts(self, random: np.random.Generator, spouse: str) -> dict[str, str]:
        return {a: spouse if a == "spouse" else _one(random, VALUES[a]) for a in PERSON}


def _one(random: np.random.Generator, values: Sequence[str]) -> str:
    return values[int(random.random() * len(values))]


@cache
def make_world(seed: int = 0) -> World:
    """The world of a seed; made once per process."""
    return World(seed)
