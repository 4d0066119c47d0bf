"""Mentions are found where accuracy sees them, in the text as it is written."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from floatlens.data.matching import find_mentions, replace_mentions
from floatlens.evaluation.metrics import accuracy


@pytest.mark.parametrize(
    ("text", "answers", "replaced"),
    [
        ("Made in the U.S. today.", ["U.S."], "Made in the X today."),
        ("Made in the US today.", ["U.S."], "Made in the X today."),
        ("Made in the u.s.", ["U.S."], "Made in the x."),  # the full stop still ends the text
        ("The U.S.-led force", ["US"], "The X.-led force"),
        ("Paris. PARIS, paris's (Paris)", ["Paris"], "X. X, x's (X)"),
        ("The Old, Stone  Bridge stands", ["old stone bridge"], "The X stands"),
        ("Lord of Rings and Lord of the Rings", ["The Lord of the Rings"], "X and X"),
        ("Röntgen met Wilhelm Conrad Röntgen", ["Wilhelm Conrad Röntgen", "Röntgen"], "X met X"),
        ("New York City", ["New York", "York City"], "X"),  # overlapping mentions are one
        ("the 1970s and 1970", ["1970"], "the xs and x"),  # inside a word too, as accuracy does
        ("7,731,004 SEK", ["7731004"], "x SEK"),
        ("We took a bus in the US", ["US"], "We took a bus in the X"),  # but not so short a one
        ("so_called_Ada", ["Ada"], "so_called_X"),  # an underscore is punctuation, not a letter
        ("He sang (I Can't Get No) Satisfaction.", ["(I Can't Get No) Satisfaction"], "He sang X."),
        ("北京是中国的首都", ["北京"], "x是中国的首都"),
        ("İstanbul and ΟΔΥΣΣΕΥΣ", ["οδυσσευς"], "İstanbul and X"),
        ("José or Jose", ["Jose"], "José or X"),
        ("nothing of it", ["Paris"], "nothing of it"),
        ("the a an", ["the", "?"], "the a an"),  # an answer that is empty once normalised is nowhere
        ("", ["Paris"], ""),
    ],
)
def test_replacing(text: str, answers: list[str], replaced: str) -> None:
    assert replace_mentions(text, answers, "x") == replaced


def test_a_combining_accent_belongs_to_its_letter() -> None:
    assert find_mentions("Ann\N{COMBINING TILDE} and Ann", ["Ann"]) == [(9, 12)]


@settings(deadline=None)
@given(
    st.text(alphabet="aAbtTheHEn İΣσ.,'-()_é\n1", max_size=30),
    st.lists(st.text(alphabet="aAbtThe İΣ.é1-", min_size=1, max_size=6), min_size=1, max_size=3),
)
def test_found_if_and_only_if_accuracy_finds_it(text: str, answers: list[str]) -> None:
    """Normalisation is retraced with an assertion inside, so this also checks that for any text."""
    spans = find_mentions(text, answers)
    seen = any(accuracy(text, answer) for answer in answers)
    assert all(0 <= start < stop <= len(text) for start, stop in spans)
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))
    for start, stop in spans:
        assert any(accuracy(text[start:stop], answer) for answer in answers)
    assert seen or not spans
    whole = [answer for answer in answers if len(answer.strip(" .-")) >= 4 and accuracy(text, answer)]
    assert spans or not any(len("".join(filter(str.isalnum, answer))) >= 6 for answer in whole)
