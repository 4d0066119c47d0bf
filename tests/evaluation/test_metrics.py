"""Metrics of answers against cases worked out by hand from the published definitions."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from floatlens.data.examples import VERDICTS
from floatlens.data.matching import last_number
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


# prediction, answer, whether a short answer (fewer than four normalised characters) is stated: as a whole word
SHORT = [
    ("The police came", "pol", 0),
    ("A pol is a politician", "pol", 1),
    ("a bus in Austin", "U.S.", 0),
    ("a bus in the U.S.", "US", 1),
    ("the US-led force", "US", 1),
    ("so_called_Ada", "Ada", 1),
    ("it is 3.4", "4", 0),
    ("it is 3.4", "3", 0),
    ("it is 3.4", "34", 1),  # the point is punctuation: as published
    ("1,400", "1", 0),
    ("1, 400", "1", 1),
    ("It was 4.", "4", 1),
    ("the answer is 14.", "4", 0),
    ("the answer is 4.", "4", 1),
    ("4%", "4", 1),
    ("in 1914", "14", 0),
    ("he is the man", "The Man", 1),
    ("Manchester", "The Man", 0),
    ("Manchester", "Manc", 1),  # four characters: anywhere
    ("eins, zwei", "two", 0),
    ("the CBS network", "CBS", 1),
    ("CBSN", "CBS", 0),
    ("在北京市", "北京", 1),  # no spaces between words
    ("naïve", "na", 0),
    ("näive", "na", 0),  # a combining mark belongs to the word
]

# prediction, words, the first of them
VERDICT = [
    ("Yes.", "yes_no", "yes"),
    ("yes, and no", "yes_no", "yes"),
    ("No: yes would be wrong", "yes_no", "no"),
    ("The answer is NO", "yes_no", "no"),
    ("Both are Danish.", "yes_no", None),
    ("nobody knows", "yes_no", None),
    ("yesterday", "yes_no", None),
    ("Maybe; no", "yes_no", "no"),
    ("Maybe; no", "yes_no_maybe", "maybe"),
    ("maybe", "yes_no", None),
    ("", "yes_no_maybe", None),
]

# prediction, the last number
NUMBERS = [
    ("#### 18", 18),
    ("She makes 9 * 2 = $18 every day.", 18),
    ("18.0", 18),
    ("18.00 dollars", 18),
    ("1,250", 1250),
    ("$1,250.50", 1250.5),
    ("It is 1,250,000.", 1250000),
    ("12,34", 34),  # not groups of three digits
    ("5%", 5),
    ("-3", -3),
    ("−3 degrees", -3),
    ("$-3", -3),
    ("-$3", -3),
    ("2-3", 3),  # a range
    ("(5)-3", 3),
    ("first 7, then 12", 12),
    ("- 18", 18),  # a bullet
    (".5", 0.5),
    ("18.", 18),
    ("eighteen", None),
    ("", None),
]

# prediction, accepted answers, wrong answers that the data names, accuracy, misled, outcome
MISLED = [
    ("Tampa, Florida", ["Tampa, Florida"], ["Glendale, Arizona"], 1, 0, "right"),
    ("Glendale, Arizona", ["Tampa, Florida"], ["Glendale, Arizona"], 0, 1, "misled"),
    ("Tampa, Florida or Glendale, Arizona", ["Tampa, Florida"], ["Glendale, Arizona"], 1, 1, "misled"),
    ("Miami", ["Tampa, Florida"], ["Glendale, Arizona"], 0, 0, "none"),
    ("", ["Tampa, Florida"], ["Glendale, Arizona"], 0, 0, "none"),
    ("Mara Dell", ["Mara Dell", "Ivo Rast"], ["Una Holt"], 1, 0, "right"),  # one of several right answers will do
    ("Ivo Rast", ["Mara Dell", "Ivo Rast"], ["Una Holt"], 1, 0, "right"),
    ("Charles Babbage II", ["Charles Babbage II"], ["Charles Babbage"], 1, 0, "right"),  # part of the right one
    ("Charles Babbage", ["Charles Babbage II"], ["Charles Babbage"], 0, 1, "misled"),
    ("Charles Babbage, not Charles Babbage II", ["Charles Babbage II"], ["Charles Babbage"], 1, 1, "misled"),
    ("Tampa Bay", ["Tampa"], ["Tampa Bay"], 1, 1, "misled"),  # accuracy finds the right one inside the wrong one
    ("Norway", ["Norway"], ["U.S."], 1, 0, "right"),
    ("a bus", ["Norway"], ["U.S."], 0, 0, "none"),  # a short wrong answer is a whole word too
    ("the US", ["Norway"], ["U.S."], 0, 1, "misled"),
    ("Norway", ["Norway"], ["norway"], 1, 0, "right"),  # the same answer is not wrong
]

# prediction, parts, share of the parts named
PARTS = [
    ("Hest, founded 1402", [["Hest", "land of Hest"], ["1402"]], 1),
    ("1402, the land of Hest", [["Hest", "land of Hest"], ["1402"]], 1),  # in any order
    ("Hest", [["Hest", "land of Hest"], ["1402"]], 1 / 2),
    ("in 1403", [["Hest", "land of Hest"], ["1402"]], 0),
    ("Ada, Boris and Otto", [["Ada"], ["Boris"], ["Clara"]], 2 / 3),
    ("", [["Ada"], ["Boris"]], 0),
]


@pytest.mark.parametrize(("prediction", "answer", "right"), SHORT)
def test_short_answers_are_whole_words(prediction, answer, right):
    assert accuracy(prediction, answer) == bool(right)


@pytest.mark.parametrize(("prediction", "kind", "first"), VERDICT)
def test_the_first_verdict_decides(prediction, kind, first):
    for answer in VERDICTS[kind]:
        assert score(prediction, [answer], kind=kind).accuracy == float(answer == first)


@pytest.mark.parametrize(("prediction", "number"), NUMBERS)
def test_the_last_number_decides(prediction, number):
    found = last_number(prediction)
    assert (None if found is None else float(found)) == number
    if number is not None:
        assert score(prediction, [f"{number:,}"], kind="number").accuracy == 1
        assert score(prediction, [str(number + 1)], kind="number").accuracy == 0
    assert score(prediction, ["77"], kind="number").accuracy == 0


@pytest.mark.parametrize(("prediction", "answers", "wrong", "right", "misled", "outcome"), MISLED)
def test_right_misled_or_none(prediction, answers, wrong, right, misled, outcome):
    found = score(prediction, answers, wrong=wrong)
    assert (found.accuracy, found.misled, found.outcome) == (right, misled, outcome)


def test_without_wrong_answers_nobody_is_misled():
    assert score("Paris", ["Paris"]).misled is None


@pytest.mark.parametrize(("prediction", "parts", "share"), PARTS)
def test_answers_of_several_parts(prediction, parts, share):
    found = score(prediction, [" and ".join(part[0] for part in parts)], kind="parts", parts=parts)
    assert found.parts == pytest.approx(share)
    assert found.accuracy == float(share == 1)


def test_the_kind_changes_accuracy_only():
    plain, kind = score("no, yes", ["yes"]), score("no, yes", ["yes"], kind="yes_no")
    assert (plain.accuracy, kind.accuracy) == (1, 0)
    assert (plain.f1, plain.exact_match) == (kind.f1, kind.exact_match) == (pytest.approx(2 / 3), 0)


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
@example("A\x1b", "\x1b")  # an article that is glued to what is not a word
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
