"""Contexts: what documents state, that every question is answered by the documents it names and by no other."""

from __future__ import annotations

import numpy as np
import pytest

from floatlens.subjects.scale.contexts import ask, draw_context
from floatlens.subjects.scale.lexicon import VALUES
from floatlens.subjects.scale.wording import QUESTIONS
from floatlens.subjects.scale.world import make_world

KINDS = ["people", "places", "spouses", "homes"]


def contexts(kind, count=10, tries=40, **options):
    for seed in range(tries):
        yield draw_context(np.random.default_rng([seed, 5]), make_world(), kind, count, **options)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 2, 7, 12])
def test_every_subject_has_one_document_that_states_what_it_says(kind, count):
    for context in contexts(kind, count, tries=10, similar=True):
        assert len({subject.name for subject in context.subjects}) == count == len(context.documents)
        for subject, stated, document in zip(context.subjects, context.stated, context.documents, strict=True):
            assert document.title == subject.name
            assert len(set(stated)) == len(stated) >= 2
            assert all(subject.facts[attribute] in document.text for attribute in stated)
            assert document.text.count(".") == len(stated)


@pytest.mark.parametrize("kind", KINDS)
def test_documents_share_an_attribute_so_that_only_the_name_decides(kind):
    for context in contexts(kind, group="heldout"):
        for sort in ("person", "place"):
            stated = [set(s) for s, who in zip(context.stated, context.subjects, strict=True) if who.kind == sort]
            assert not stated or set.intersection(*stated)


@pytest.mark.parametrize("kind", KINDS)
def test_answers_stand_in_the_documents_that_are_named(kind):
    for context in contexts(kind, similar=True):
        random = np.random.default_rng(1)
        for what in (*context.one_hop(), *context.two_hop()):
            asked = ask(random, context, what)
            assert asked.subject in asked.text
            assert asked.answer in context.documents[asked.golds[-1]].text
            assert len(asked.golds) == len(asked.path)
            on_the_way = context.documents[asked.golds[-1]].title if len(what) == 4 else ""
            assert asked.between == on_the_way
            assert asked.spelt == (f"{on_the_way}, {asked.answer}" if on_the_way else asked.answer)
            assert context.documents[asked.golds[0]].title == asked.subject


@pytest.mark.parametrize(("kind", "link"), [("spouses", "spouse"), ("homes", "city")])
def test_two_hops_lead_over_a_document_that_names_the_second(kind, link):
    for context in contexts(kind):
        assert len(context.links) == 5
        for i, name, j in context.links:
            assert name == link
            assert context.subjects[j].name in context.documents[i].text
            assert context.subjects[i].facts[link] == context.subjects[j].name
        for i, _, j, attribute in context.two_hop():
            assert context.subjects[j].facts[attribute] in context.documents[j].text
            assert i != j


def test_only_linked_contexts_ask_two_hops():
    assert all(not context.two_hop() for kind in ("people", "places") for context in contexts(kind, tries=5))


def test_gold_stands_anywhere():
    first = [context.links[0][0] for context in contexts("spouses", tries=200)]
    assert set(first) == set(range(10))


def test_reordering_moves_documents_with_everything_about_them():
    context = next(contexts("homes"))
    order = [3, 1, 0, 2, *range(4, 10)]
    moved = context.reordered(order)
    assert [d.title for d in moved.documents] == [context.documents[i].title for i in order]
    assert moved.subjects[0] == context.subjects[3]
    for i, link, j in moved.links:
        assert moved.subjects[i].facts[link] == moved.subjects[j].name
    back = moved.reordered(np.argsort(order).tolist())
    assert back == context


def test_known_people_keep_their_facts_unless_altered():
    known = {who.name: who.facts for who in make_world().known}
    for context in contexts("people", group="known", tries=10):
        assert all(subject.facts == known[subject.name] for subject in context.subjects)
    changed = [
        subject.facts[attribute] != known[subject.name][attribute]
        for context in contexts("people", group="known", altered=1.0)
        for subject in context.subjects
        for attribute in VALUES
        if attribute in subject.facts
    ]
    assert 0.9 < np.mean(changed) < 1.0  # a new value may happen to be the old one


def test_questions_come_in_every_wording():
    random = np.random.default_rng(2)
    context = next(context for context in contexts("people") if ("city" in context.stated[0]))
    found = {ask(random, context, (0, "city")).text for _ in range(60)}
    assert found == {wording.format(s=context.subjects[0].name) for wording in QUESTIONS["city"]}
