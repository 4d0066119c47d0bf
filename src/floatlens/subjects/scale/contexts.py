"""Contexts: a handful of documents about different subjects, and every question they answer, in one hop or two.

Training packs many questions of one context into a row; evaluation asks one. Both come from here, so they differ
only in who the people are and how many questions are asked. Text is rendered by the prompt template, never here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from floatlens.prompts import Document
from floatlens.subjects.scale.lexicon import VALUES
from floatlens.subjects.scale.wording import LINKS, PERSON, PLACE, QUESTIONS, SENTENCES
from floatlens.subjects.scale.world import Group, Subject, World

__all__ = ["Asked", "Context", "Kind", "ask", "draw_context"]

Kind = Literal["people", "places", "spouses", "homes"]
"""What a context is about: people, places, couples (X is married to Y), or people and the places they live in."""


@dataclass(frozen=True)
class Asked:
    """A question with its answer. `path` names the attributes it follows, `golds` the documents it needs, `between`
    what lies between the first hop and the second."""

    text: str
    answer: str
    subject: str
    path: tuple[str, ...]
    golds: tuple[int, ...]
    between: str = ""

    @property
    def spelt(self) -> str:
        """The answer with the way to it: "Karl Winter, Dunmere" to where the spouse of Ada Frost lives."""
        return f"{self.between}, {self.answer}" if self.between else self.answer


@dataclass(frozen=True)
class Context:
    """Subjects, the attributes that each one's document states, and the documents, all in one order."""

    subjects: tuple[Subject, ...]
    stated: tuple[tuple[str, ...], ...]
    documents: tuple[Document, ...]
    links: tuple[tuple[int, str, int], ...] = ()
    """(i, attribute, j): subject j is the value of that attribute of subject i, and its document says so."""

    def one_hop(self) -> list[tuple[int, str]]:
        """Every (subject, attribute) that a document states."""
        return [(i, attribute) for i, stated in enumerate(self.stated) for attribute in stated]

    def two_hop(self) -> list[tuple[int, str, int, str]]:
        """Every (subject, link, linked subject, attribute of it) that two documents state."""
        return [
            (i, link, j, attribute)
            for i, link, j in self.links
            for attribute in self.stated[j]
            if attribute != "spouse"
        ]

    def reordered(self, order: Sequence[int]) -> Context:
        """The same documents in another order: place k gets document order[k]."""
        place = {old: new for new, old in enumerate(order)}
        return Context(
            tuple(self.subjects[i] for i in order),
            tuple(self.stated[i] for i in order),
            tuple(self.documents[i] for i in order),
            tuple((place[i], link, place[j]) for i, link, j in self.links),
        )


def ask(random: np.random.Generator, context: Context, what: tuple[int, str] | tuple[int, str, int, str]) -> Asked:
    """One of `context.one_hop()` or `context.two_hop()` as a question in one of its wordings."""
    subject = target = context.subjects[what[0]]
    phrase, golds = subject.name, [what[0]]
    path = [what[1]] if len(what) == 2 else [what[1], what[3]]
    if len(what) == 4:
        target = context.subjects[what[2]]
        phrase = _pick(random, LINKS[what[1]]).format(s=subject.name)
        golds.append(what[2])
    text = _pick(random, QUESTIONS[path[-1]]).format(s=phrase)
    between = target.name if len(what) == 4 else ""
    return Asked(text, target.facts[path[-1]], subject.name, tuple(path), tuple(golds), between)


def draw_context(
    random: np.random.Generator,
    world: World,
    kind: Kind,
    count: int,
    *,
    group: Group = "unknown",
    similar: bool = False,
    altered: float = 0.0,
    evenly: bool = False,
) -> Context:
    """`count` documents in random order.

    All documents of a kind of subject state the same one or two attributes, so only the name tells them apart, and
    some state one more. Known people come as often as in training, or `evenly`; they keep their facts, but with
    probability `altered` each is changed (counterfactual).
    """
    subjects, links = _cast(random, world, kind, count, group, similar, altered, evenly)
    core = {"person": _core(random, PERSON), "place": _core(random, PLACE)}
    linked = {i: link for i, link, _ in links}
    stated = [_stated(random, subject, core[subject.kind], linked.get(i)) for i, subject in enumerate(subjects)]
    documents = [_document(random, subject, told) for subject, told in zip(subjects, stated, strict=True)]
    whole = Context(tuple(subjects), tuple(stated), tuple(documents), tuple(links))
    return whole.reordered(random.permutation(count).tolist())


def _cast(
    random: np.random.Generator,
    world: World,
    kind: Kind,
    count: int,
    group: Group,
    similar: bool,
    altered: float,
    evenly: bool,
) -> tuple[list[Subject], list[tuple[int, str, int]]]:
    """The subjects and the links between them: couples side by side, people before the places they live in."""
    if kind == "places":
        return world.draw_places(random, count), []
    homes = count // 2 if kind == "homes" else 0
    if group == "known":
        known = world.draw_known(random, count - homes, evenly=evenly)
        people = [_alter(random, who, altered) for who in known]
    else:
        people = world.draw_people(random, count - homes, group, similar=similar)
    if kind == "spouses":
        for i in range(0, count - 1, 2):
            people[i] = _with(people[i], "spouse", people[i + 1].name)
            people[i + 1] = _with(people[i + 1], "spouse", people[i].name)
        return people, [(i, "spouse", i + 1) for i in range(0, count - 1, 2)]
    if kind == "homes":
        places = world.draw_places(random, homes)
        people = [_with(who, "city", places[i].name) if i < homes else who for i, who in enumerate(people)]
        return people + places, [(i, "city", len(people) + i) for i in range(homes)]
    return people, []


def _with(subject: Subject, attribute: str, value: str) -> Subject:
    return replace(subject, facts={**subject.facts, attribute: value})


def _alter(random: np.random.Generator, subject: Subject, share: float) -> Subject:
    """The subject with some facts changed to another value of the same kind."""
    changed = {a: _pick(random, VALUES[a]) for a in subject.facts if a in VALUES and random.random() < share}
    return replace(subject, facts={**subject.facts, **changed})


def _core(random: np.random.Generator, attributes: Sequence[str]) -> list[str]:
    count = 1 if random.random() < 0.5 else 2
    return [attributes[i] for i in random.choice(len(attributes), count, replace=False).tolist()]


def _stated(random: np.random.Generator, subject: Subject, core: Sequence[str], link: str | None) -> tuple[str, ...]:
    """The attributes a document states, in the order in which it does: at least two."""
    told = list(core) if link is None or link in core else [*core, link]
    others = [a for a in subject.facts if a not in told]
    if len(told) < 2 or random.random() < 0.2:
        told.append(_pick(random, others))
    return tuple(told[i] for i in random.permutation(len(told)).tolist())


def _document(random: np.random.Generator, subject: Subject, told: Sequence[str]) -> Document:
    """One sentence per fact, each with the full name: names resemble one another, and part of one may fit two."""
    sentences = [_pick(random, SENTENCES[a]).format(s=subject.name, v=subject.facts[a]) for a in told]
    return Document(title=subject.name, text=" ".join(sentences))


def _pick(random: np.random.Generator, options: Sequence[str]) -> str:
    return options[int(random.random() * len(options))]
