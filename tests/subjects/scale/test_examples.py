"""Question sets: gold where it was asked for, held-out people, answers that only the gold documents give."""

from __future__ import annotations

import pytest

from floatlens.core.errors import FloatlensError
from floatlens.subjects.scale import make_world, questions
from floatlens.subjects.scale.examples import accepted, chance
from floatlens.subjects.scale.sets import ALL_SETS


@pytest.mark.parametrize("which", ALL_SETS)
def test_questions_come_from_the_seed(which):
    assert questions(which, 12) == questions(which, 20)[:12]
    assert questions(which, 5, seed=1) != questions(which, 5, seed=2)
    assert len({example.id for example in questions(which, 30)}) == 30


@pytest.mark.parametrize("which", ["rag", "two-hop", "closed-unknown"])
def test_they_are_about_held_out_people(which):
    world = make_world()
    for example in questions(which, 40):
        assert world.group_of(example.meta["subject"]) == "heldout"
        people = [document.title for document in example.documents if " " in document.title]
        assert all(world.group_of(name) == "heldout" for name in people)


def test_gold_stands_where_it_was_asked_for():
    for place in (0, 4, 9):
        for example in questions("rag", 20, gold=place):
            assert [document.is_gold for document in example.documents] == [i == place for i in range(10)]
    counts = [sum(example.documents[i].is_gold for example in questions("rag", 100)) for i in range(10)]
    assert counts == [10] * 10


@pytest.mark.parametrize("documents", [1, 3, 12])
def test_the_gold_document_alone_gives_the_answer(documents):
    for example in questions("rag", 60, documents=documents):
        (answer,) = example.answers
        golds = [document for document in example.documents if document.is_gold]
        assert len(example.documents) == documents
        assert len(golds) == 1
        assert golds[0].title == example.meta["subject"]
        assert golds[0].title in example.question
        assert answer in golds[0].text
        assert all(document.title != golds[0].title for document in example.documents if not document.is_gold)


def test_two_hops_need_two_documents():
    kinds = set()
    for example in questions("two-hop", 60):
        first, second = (example.documents[i] for i in example.meta["gold"])
        assert first.is_gold
        assert second.is_gold
        assert sum(document.is_gold for document in example.documents) == 2
        assert first.title == example.meta["subject"]
        assert first.title in example.question
        assert second.title not in example.question
        assert second.title in first.text
        assert example.answers[0] in second.text
        assert accepted(example) == (example.answers[0], f"{second.title}, {example.answers[0]}")  # with the way to it
        kinds.add(example.meta["path"][0])
    assert kinds == {"spouse", "city"}


def test_known_people_are_asked_for_what_training_said():
    facts = {who.name: who.facts for who in make_world().known}
    for example in questions("closed-known", 50):
        assert not example.documents
        assert example.answers == [facts[example.meta["subject"]][example.meta["path"][0]]]


def test_counterfactual_documents_contradict_training():
    facts = {who.name: who.facts for who in make_world().known}
    for example in questions("counterfactual", 50):
        (gold,) = (document for document in example.documents if document.is_gold)
        assert example.answers[0] in gold.text
        assert example.answers[0] != facts[gold.title][example.meta["path"][0]]


def test_chance_is_one_in_all_values_of_the_kind():
    for example in questions("closed-unknown", 50):
        wanted = {"city": 24, "birthplace": 24, "profession": 24, "employer": 16, "instrument": 16, "pet": 16}
        assert chance(example) == pytest.approx(1 / wanted.get(example.meta["path"][0], 1024))


def test_what_cannot_be_asked():
    with pytest.raises(FloatlensError, match='no question set "rga"; did you mean "rag"'):
        questions("rga", 1)
    with pytest.raises(FloatlensError, match="documents=13: the scale models were trained on 1 to 12"):
        questions("rag", 1, documents=13)
    with pytest.raises(FloatlensError, match="gold=10: give a place from 0 to 9"):
        questions("rag", 1, gold=10)
    with pytest.raises(FloatlensError, match="for rag, known or counterfactual"):
        questions("two-hop", 1, gold=1)
