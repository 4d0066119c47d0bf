"""Facts of the scale world that change: `scale:changing`, a dated collection and questions about it, from a seed.

Every known person has one document, which says at first what training said. In turn people are left untouched, have one
fact corrected, or have their document withdrawn or added late, at a drawn snapshot; the question is about the fact that
a correction changes. So a stale answer can come from what a model remembers. All words are those of the world.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from floatlens.core.errors import FloatlensError
from floatlens.data import Example
from floatlens.data.collection import DatedCollection, Version
from floatlens.data.collection.made import FATES, snapshot_dates, versions_of
from floatlens.prompts import Document
from floatlens.subjects.scale.lexicon import VALUES
from floatlens.subjects.scale.wording import QUESTIONS, SENTENCES
from floatlens.subjects.scale.world import KNOWN, WORLD_VERSION, Subject, make_world

__all__ = ["MOST_QUESTIONS", "changing"]

MOST_QUESTIONS = KNOWN
"""One for each known person."""
_SET = 100  # sets this apart from the question sets, which are numbered from 0


def changing(count: int | None, *, snapshots: int = 4, seed: int = 0) -> tuple[list[Example], DatedCollection]:
    """`count` questions (None: one about each person), and the collection, which is the same for any count.

    Example: `changing(100)[1].sentence()`
    """
    if snapshots < 2:
        raise FloatlensError(f"snapshots={snapshots}: expected at least 2, as nothing changes within one")
    if count is not None and count > MOST_QUESTIONS:
        raise FloatlensError(f"limit={count}: there are {MOST_QUESTIONS} known people to ask about")
    world, dates = make_world(), snapshot_dates(snapshots)
    random = np.random.default_rng([seed, WORLD_VERSION, _SET])
    examples: list[Example] = []
    versions: list[Version] = []
    for number, place in enumerate(random.permutation(len(world.known)).tolist()):
        own = np.random.default_rng([seed, WORLD_VERSION, _SET, number])
        subject = world.known[place]
        fate, when = FATES[number % len(FATES)], dates[int(own.integers(1, snapshots))]
        id = f"changing-{seed}-{number:05d}"
        asked, made = _person(own, subject, id, fate, when, dates[0])
        versions += made
        last = made[-1]
        answer, document = last.answers[id], Document(title=last.title, text=last.text, is_gold=True)
        meta = {
            "subject": subject.name,
            "path": [asked],
            "gold": [0],
            "chance": 1 / world.number_of_values(asked),
            "world": [world.seed, WORLD_VERSION],
            "fate": fate,
        }
        question = _pick(own, QUESTIONS[asked]).format(s=subject.name)
        examples.append(Example(id=id, question=question, answers=list(answer), documents=[document], meta=meta))
    return examples[:count], DatedCollection(versions)


def _person(
    random: np.random.Generator, subject: Subject, id: str, fate: str, when: str, first: str
) -> tuple[str, list[Version]]:
    """The attribute that is asked for, and the versions of a person's document, which states it and another one."""
    attributes = [attribute for attribute in subject.facts if attribute in VALUES]  # a spouse is a person
    told = [attributes[i] for i in random.choice(len(attributes), 2, replace=False).tolist()]
    asked = told[int(random.integers(2))]
    wordings = {attribute: _pick(random, SENTENCES[attribute]) for attribute in told}
    others = [value for value in VALUES[asked] if value not in subject.facts.values()]
    changed = replace(subject, facts={**subject.facts, asked: _pick(random, others)})

    def version(who: Subject) -> Version:
        sentences = [wordings[attribute].format(s=who.name, v=who.facts[attribute]) for attribute in told]
        answers = {id: (who.facts[asked],)}
        return Version(id=f"person-{id}", title=who.name, text=" ".join(sentences), start=first, answers=answers)

    return asked, versions_of(version(subject), fate, when, version(changed))


def _pick(random: np.random.Generator, options: tuple[str, ...] | list[str]) -> str:
    return options[int(random.random() * len(options))]
