"""What is right at a date: the answers that documents state now, those they no longer state, and what has changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from floatlens.data.collection.versions import DatedCollection, Version
from floatlens.data.matching import normalise

__all__ = ["View", "view_at"]


@dataclass(frozen=True)
class View:
    """A question at a date.

    `current` are the answers of the documents that are live; `earlier` those that documents stated before and none
    states now; `withdrawn` those of them that only documents stated which have been withdrawn. `changes` says what
    happened to its documents since the date before ("added", "corrected", "withdrawn"); None: there is no such date.
    """

    date: str
    current: tuple[str, ...]
    earlier: tuple[str, ...]
    withdrawn: tuple[str, ...]
    changes: tuple[str, ...] | None
    gold: tuple[Version, ...]
    """The documents that state a current answer."""


def view_at(collection: DatedCollection, question: str, date: str, since: str | None = None) -> View:
    """A question at a date; `since` is the date that it is compared with.
    Example: `view_at(collection, "q1", "2022-01-01").current`"""
    known = [version for version in collection.about(question) if version.start <= date]
    live = [version for version in known if version.is_live(date)]
    ended = [version for version in known if not version.is_live(date)]
    gone = {id for id, end in collection.withdrawn.items() if end <= date}
    current = _stated(live, question)
    earlier = _without(_stated(ended, question), current)
    others = _stated([version for version in ended if version.id not in gone], question)
    return View(
        date,
        current,
        earlier,
        withdrawn=_without(_stated([one for one in ended if one.id in gone], question), (*current, *others)),
        changes=None if since is None else _changes(known, since, date),
        gold=tuple(live),
    )


def _stated(versions: Iterable[Version], question: str) -> tuple[str, ...]:
    """Each answer once, by the normalisation of scores."""
    found: dict[str, str] = {}
    for version in versions:
        for answer in version.answers[question]:
            found.setdefault(normalise(answer), answer)
    return tuple(found.values())


def _without(answers: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    left = {normalise(one) for one in others}
    return tuple(answer for answer in answers if normalise(answer) not in left)


def _changes(versions: Sequence[Version], since: str, date: str) -> tuple[str, ...]:
    """What happened after one date and up to another. A version that came and went in between counts."""
    found = {"corrected" if one.corrects else "added" for one in versions if since < one.start}
    found |= {"withdrawn" for one in versions if one.withdrawn and one.end is not None and since < one.end <= date}
    ended = any(one.end is not None and since < one.end <= date and not one.withdrawn for one in versions)
    return tuple(sorted(found | ({"corrected"} if ended else set())))
