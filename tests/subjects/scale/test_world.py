"""The world: who belongs to which group, that facts come from the seed alone, and how names are drawn."""

from __future__ import annotations

import numpy as np
import pytest

from floatlens.subjects.scale.lexicon import FIRST_NAMES, LAST_NAMES, PLACES, VALUES
from floatlens.subjects.scale.wording import LINKS, PERSON, PLACE, QUESTIONS, SENTENCES
from floatlens.subjects.scale.world import World, make_world


def rng(*seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_no_word_is_listed_twice():
    for words in (FIRST_NAMES, LAST_NAMES, PLACES, *VALUES.values()):
        assert len(set(words)) == len(words)
    assert not set(FIRST_NAMES) & set(LAST_NAMES)
    assert not set(PLACES) & {*FIRST_NAMES, *LAST_NAMES}


def test_every_attribute_has_sentences_questions_and_values():
    assert {*PERSON, *PLACE} == set(SENTENCES) == set(QUESTIONS) == {*VALUES, "spouse"}
    for sentences in SENTENCES.values():
        assert all(s.count("{s}") == 1 and s.count("{v}") == 1 and s.endswith(".") for s in sentences)
    for questions in QUESTIONS.values():
        assert all(q.count("{s}") == 1 and q.endswith("?") for q in questions)
    assert all(p.count("{s}") == 1 for phrases in LINKS.values() for p in phrases)


def test_no_two_attributes_share_a_question():
    wordings = [question for questions in QUESTIONS.values() for question in questions]
    assert len(set(wordings)) == len(wordings)


def test_a_seed_gives_one_world():
    one, same, other = World(3), World(3), World(4)
    assert one.names == same.names
    assert [who.facts for who in one.known] == [who.facts for who in same.known]
    assert one.names["known"] != other.names["known"]


def test_groups_share_no_name_and_cover_all_of_them():
    names = make_world().names
    everyone = [name for group in names.values() for name in group]
    assert len(everyone) == len(set(everyone)) == len(FIRST_NAMES) * len(LAST_NAMES)
    assert make_world().group_of(names["heldout"][5]) == "heldout"


def test_known_people_are_married_to_each_other():
    world = make_world()
    spouse = {who.name: who.facts["spouse"] for who in world.known}
    assert all(spouse[spouse[name]] == name != spouse[name] for name in spouse)


def test_the_first_known_people_are_met_most_often():
    world, random = make_world(), rng(1)
    met = np.zeros(len(world.known))
    for _ in range(3000):
        met[[world.known.index(who) for who in world.draw_known(random, 1)]] += 1
    weight = 0.5 ** (np.arange(len(met)) / 40)
    expected = 3000 * weight / weight.sum()
    assert abs(met[:20].sum() - expected[:20].sum()) < 5 * np.sqrt(expected[:20].sum())
    assert met[:20].sum() > 5 * met[-20:].sum()


@pytest.mark.parametrize("group", ["unknown", "heldout"])
@pytest.mark.parametrize("similar", [False, True])
def test_people_are_different_and_of_their_group(group, similar):
    world = make_world()
    sharing = 0
    for seed in range(40):
        people = world.draw_people(rng(seed), 10, group, similar=similar)
        names = [who.name for who in people]
        assert len(set(names)) == 10
        assert {world.group_of(name) for name in names} == {group}
        assert {world.group_of(who.facts["spouse"]) for who in people} == {group}
        firsts, lasts = zip(*(name.split() for name in names), strict=True)
        assert len(set(lasts)) == 10  # a last name stands for one person of a context
        assert not {who.facts["spouse"].split()[1] for who in people} & set(lasts)
        sharing += sum(firsts.count(first) > 1 for first in firsts)
    assert (sharing > 40 * 7) == similar


def test_known_people_of_a_context_have_different_last_names():
    for seed in range(20):
        drawn = make_world().draw_known(rng(seed), 12)
        assert len({who.name.split()[1] for who in drawn}) == 12


def test_known_people_can_be_met_evenly():
    world, random = make_world(), rng(5)
    met = np.zeros(len(world.known))
    for _ in range(3600):
        met[[world.known.index(who) for who in world.draw_known(random, 1, evenly=True)]] += 1
    halves = met[:180].sum(), met[180:].sum()
    assert abs(halves[0] - halves[1]) < 5 * np.sqrt(3600)


def test_facts_of_unknown_people_change_from_one_draw_to_the_next():
    world = make_world()
    first, second = (world.draw_people(rng(seed), 10, "unknown") for seed in (1, 2))
    assert [who.facts for who in first] != [who.facts for who in second]
    assert [who.facts for who in first] == [who.facts for who in world.draw_people(rng(1), 10, "unknown")]


def test_fewer_known_people_leave_everybody_else_where_they_were():
    whole, few = make_world(), World(known=120)
    assert few.names["heldout"] == whole.names["heldout"]
    assert few.known == whole.known[:120]
    assert set(whole.names["known"]) - set(few.names["known"]) < set(few.names["unknown"])
    with pytest.raises(ValueError, match="known=121: give an even number from 120 to 360"):
        World(known=121)
