"""Metrics of answers against cases worked out by hand from the published definitions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from floatlens.evaluation.metrics import accuracy, exact_match, f1, normalise, score

# prediction, answer, accuracy, F1, exact match
CASES = [
    ("Paris", "Paris", 1, 1, 1),
    ("paris", "Paris", 1, 1, 1),
    ("PARIS.", "Paris", 1, 1, 1),
    ("The Paris", "Paris", 1, 1, 1),
    ("It is Paris", "Paris", 1, 1 / 2, 0),
    ("It is in Paris, France.", "Paris", 1, 2 / 6, 0),
    ("London", "Paris", 0, 0, 0),
    ("", "Paris", 0, 0, 0),
    ("   ", "Paris", 0, 0, 0),
    ("...", "Paris", 0, 0, 0),
    ("the", "Paris", 0, 0, 0),
    ("Pari", "Paris", 0, 0, 0),
    ("Parisian", "Paris", 1, 0, 0),  # a substring of characters, not of words: as published
    ("Eiffel Tower", "the Eiffel Tower", 1, 1, 1),
    ("Eiffel", "Eiffel Tower", 0, 2 / 3, 0),
    ("Tower Eiffel", "Eiffel Tower", 0, 1, 0),  # a bag of words has no order
    ("the tower of Eiffel", "Eiffel Tower", 0, 4 / 5, 0),
    ("New York City", "New York", 1, 4 / 5, 0),
    ("York", "New York", 0, 2 / 3, 0),
    ("New  York", "New York", 1, 1, 1),
    ("New\nYork", "New York", 1, 1, 1),
    ("New-York", "New York", 0, 0, 0),  # a hyphen goes without leaving a space
    ("NewYork", "New-York", 1, 1, 1),
    ("U.S.A.", "USA", 1, 1, 1),
    ("the U.S.", "us", 1, 1, 1),
    ("us", "USA", 0, 0, 0),
    ("1969", "1969", 1, 1, 1),
    ("July 20, 1969", "1969", 1, 2 / 4, 0),
    ("1,000", "1000", 1, 1, 1),
    ("1.5", "15", 1, 1, 1),  # the point is punctuation: as published
    ("21969", "1969", 1, 0, 0),
    ("3 million", "3,000,000", 0, 0, 0),
    ("$5", "5", 1, 1, 1),
    ("50%", "50", 1, 1, 1),
    ("-3", "3", 1, 1, 1),
    ("Café", "café", 1, 1, 1),
    ("CAFÉ", "café", 1, 1, 1),
    ("Cafe", "café", 0, 0, 0),  # accents count
    ("Ångström", "ångström", 1, 1, 1),
    ("北京", "北京", 1, 1, 1),
    ("在北京", "北京", 1, 0, 0),
    ("Москва", "москва", 1, 1, 1),
    ("it’s", "its", 0, 0, 0),  # a curly apostrophe is not ASCII punctuation
    ("it's", "its", 1, 1, 1),
    ("“Paris”", "Paris", 1, 0, 0),
    ('"Paris"', "Paris", 1, 1, 1),
    ("a", "a", 0, 1, 1),  # nothing is left of either
    ("the", "a", 0, 1, 1),
    ("anything", "the", 0, 0, 0),
    ("", "", 0, 1, 1),
    ("", "the", 0, 1, 1),
    ("Anthem", "them", 1, 0, 0),
    ("Theo", "Theo", 1, 1, 1),  # an article inside a word stays
    ("an apple", "apple", 1, 1, 1),
    ("a a apple", "apple", 1, 1, 1),
    ("apple apple", "apple", 1, 2 / 3, 0),
    ("apple", "apple apple", 0, 2 / 3, 0),
    ("red apple red", "red apple", 1, 4 / 5, 0),
    ("Ada Lovelace and Charles Babbage", "Charles Babbage", 1, 4 / 7, 0),
    ("Charles", "Ada Lovelace", 0, 0, 0),
    ("yes", "Yes.", 1, 1, 1),
    ("no, yes", "yes", 1, 2 / 3, 0),
]


def test_there_are_enough_of_them():
    assert len({case[:2] for case in CASES}) == len(CASES) >= 50


@pytest.mark.parametrize(("prediction", "answer", "right", "overlap", "same"), CASES)
def test_worked_out_by_hand(prediction, answer, right, overlap, same):
    assert accuracy(prediction, answer) == bool(right)
    assert f1(prediction, answer) == pytest.approx(overlap)
    assert exact_match(prediction, answer) == bool(same)


def test_the_best_over_accepted_answers_each_on_its_own():
    found = score("Charles Babbage of London", ["London", "Babbage the Charles", "Charles Babbage, London"])
    assert found.accuracy == 1  # by the first
    assert found.f1 == pytest.approx(2 * 3 / (4 + 3))  # by the third
    assert found.exact_match == 0


def test_the_first_line_only_where_asked():
    said = "I do not know.\nParis, perhaps"
    assert score(said, ["Paris"]).accuracy == 1
    assert score(said, ["Paris"], first_line=True).accuracy == 0
    assert score("\n\nParis\nLondon", ["Paris"], first_line=True).exact_match == 1


def test_without_answers_there_is_nothing_to_score():
    with pytest.raises(ValueError, match="without accepted answers"):
        score("Paris", [])


@given(st.text(), st.text())
def test_bounds_and_what_follows_from_what(prediction, answer):
    found = score(prediction, [answer])
    assert 0 <= found.f1 <= 1
    assert found.f1 == f1(answer, prediction)
    if found.exact_match:
        assert found.f1 == 1
        assert found.accuracy == bool(normalise(answer))


@given(st.text(alphabet=st.characters(codec="ascii")))
def test_normalising_leaves_words_and_single_spaces(text):
    made = normalise(text)
    assert made == " ".join(made.split())
    assert made == made.lower()
    assert not set(made.split()) & {"a", "an", "the"}
