"""Questions of the scale world as `Example`s, for evaluation, tracing and stress tests; the same for the same seed.

Held-out people, unless the question is about what known people are known for. Gold documents are at the given
place, or evenly spread over all places.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from floatlens.core.errors import FloatlensError
from floatlens.data import Example
from floatlens.subjects.scale.contexts import Asked, Context, Kind, ask, draw_context
from floatlens.subjects.scale.sets import ALL_SETS, QuestionSet, known_set
from floatlens.subjects.scale.wording import PERSON, QUESTIONS
from floatlens.subjects.scale.world import WORLD_VERSION, World, make_world

__all__ = ["MOST_DOCUMENTS", "accepted", "chance", "questions"]

MOST_DOCUMENTS = 12


def questions(
    which: QuestionSet, count: int, *, documents: int = 10, gold: int | None = None, seed: int = 0
) -> list[Example]:
    """`count` questions of one set.

    `rag`: one hop, held-out people, `documents` passages of which one is gold, at place `gold` (0-based) or, if that is
    not given, at every place in turn. `two-hop`: two gold passages, anywhere; the models say what lies between as well
    ("Karl Winter, Dunmere"), see `accepted`. `closed-known`: no passages, people that training told about.
    `closed-unknown`: no passages, held-out people, so nobody can know. `counterfactual`: as `rag`, but about a known
    person whose passage says something else than training did; the passage is right. `known`: as `rag`, about known
    people, each as likely as any other, and as training told it, so that a question can be asked with passages and
    without.

    Example: `questions("rag", 100, gold=4)[0].documents[4].is_gold  # True`
    """
    which = known_set(which)
    fewest = 2 if which == "two-hop" else 1
    if not fewest <= documents <= MOST_DOCUMENTS:
        raise FloatlensError(f"documents={documents}: the scale models were trained on {fewest} to {MOST_DOCUMENTS}")
    if gold is not None and (which not in ("rag", "counterfactual", "known") or not 0 <= gold < documents):
        raise FloatlensError(
            f"gold={gold}: give a place from 0 to {documents - 1}, for rag, known or counterfactual questions"
        )
    return list(_draw(make_world(), which, count, documents, gold, seed))


def accepted(example: Example) -> tuple[str, ...]:
    """What counts as right: the answer, and in two hops also with the way to it, as the models were taught to say it.

    The latter is not among the question's answers: no document tells it, and read without punctuation it could stand
    across the end of a sentence.
    """
    return (*example.answers, *([example.meta["spelt"]] if "spelt" in example.meta else []))


def chance(example: Example) -> float:
    """The probability of hitting the answer by guessing among all values of its kind."""
    return float(example.meta["chance"])


def _draw(
    world: World, which: QuestionSet, count: int, documents: int, gold: int | None, seed: int
) -> Iterator[Example]:
    for i in range(count):
        random = np.random.default_rng([seed, WORLD_VERSION, ALL_SETS.index(which), i])
        place = i % documents if gold is None else gold
        if which.startswith("closed"):
            asked, context = _closed(random, world, known=which == "closed-known"), None
        elif which == "two-hop":
            asked, context = _two_hop(random, world, documents, "spouses" if i % 2 else "homes")
        else:
            asked, context = _one_hop(random, world, which, documents, place)
        yield _example(world, f"{which}-{seed}-{i:05d}", asked, context)


def _one_hop(
    random: np.random.Generator, world: World, which: QuestionSet, documents: int, place: int
) -> tuple[Asked, Context]:
    counterfactual = which == "counterfactual"
    similar = bool(random.random() < 0.5)
    while True:
        group: Literal["known", "heldout"] = "heldout" if which == "rag" else "known"
        evenly = which == "known"
        context = draw_context(
            random, world, "people", documents, group=group, similar=similar, altered=counterfactual, evenly=evenly
        )
        options = [(i, a) for i, a in context.one_hop() if not counterfactual or _changed(world, context, i, a)]
        if options:
            break
    chosen = options[int(random.integers(len(options)))]
    order = [i for i in range(documents) if i != chosen[0]]
    order.insert(place, chosen[0])
    moved = context.reordered(order)
    return ask(random, moved, (place, chosen[1])), moved


def _changed(world: World, context: Context, index: int, attribute: str) -> bool:
    subject = context.subjects[index]
    true = next(who for who in world.known if who.name == subject.name)
    return subject.facts[attribute] != true.facts[attribute]


def _two_hop(random: np.random.Generator, world: World, documents: int, kind: Kind) -> tuple[Asked, Context]:
    context = draw_context(random, world, kind, documents, group="heldout", similar=bool(random.random() < 0.5))
    while not context.two_hop():  # a couple's second document may state nothing but the marriage
        context = draw_context(random, world, kind, documents, group="heldout")
    options = context.two_hop()
    return ask(random, context, options[int(random.integers(len(options)))]), context


def _closed(random: np.random.Generator, world: World, *, known: bool) -> Asked:
    people = world.known if known else world.draw_people(random, 1, "heldout")
    who = people[int(random.integers(len(people)))]
    attribute = PERSON[int(random.integers(len(PERSON)))]
    text = QUESTIONS[attribute][int(random.integers(len(QUESTIONS[attribute])))].format(s=who.name)
    return Asked(text, who.facts[attribute], who.name, (attribute,), ())


def _example(world: World, id: str, asked: Asked, context: Context | None) -> Example:
    documents = [] if context is None else list(context.documents)
    for gold in asked.golds:
        documents[gold] = documents[gold].model_copy(update={"is_gold": True})
    meta: dict[str, Any] = {
        "subject": asked.subject,
        "path": list(asked.path),
        "gold": list(asked.golds),
        "chance": 1 / world.number_of_values(asked.path[-1]),
        "world": [world.seed, WORLD_VERSION],
    }
    if asked.between:
        meta["spelt"] = asked.spelt
    return Example(id=id, question=asked.text, answers=[asked.answer], documents=documents, meta=meta)
