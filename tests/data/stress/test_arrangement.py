"""Lists of gold documents and distractors: places, and orders that a larger dose keeps."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from floatlens.data.stress.arrangement import Slot, block, filled, mixed, spread
from floatlens.prompts import Document


@settings(deadline=None)
@given(st.integers(1, 12), st.integers(0, 12), st.data())
def test_spread_is_even(count: int, more: int, data: st.DataObject) -> None:
    places = spread(count, count + more, data.draw(st.integers(0, count + more - 1)))
    gaps = [b - a for a, b in itertools.pairwise(places)]
    assert len(places) == count
    assert 0 <= places[0] <= places[-1] < count + more
    assert all(gap >= 1 for gap in gaps)
    assert max(gaps, default=0) - min(gaps, default=0) <= 1


def test_every_place_is_taken_equally_often_over_the_offsets() -> None:
    taken = np.bincount([place for i in range(10) for place in spread(3, 10, i)])
    assert taken.tolist() == [3] * 10


def test_a_block_goes_as_far_back_as_it_fits() -> None:
    assert block(2, 10, 3) == [3, 4]
    assert block(1, 10, 9) == [9]
    assert block(3, 10, 9) == [7, 8, 9]


def gold_of(names: str) -> list[Slot]:
    return [(Document(text=name, is_gold=True), i) for i, name in enumerate(names)]


def others_of(names: str) -> list[Document]:
    return [Document(text=name) for name in names]


def text_of(found: list[Slot]) -> str:
    return "".join(document.text for document, _ in found)


def test_filling_the_places_that_are_left() -> None:
    assert text_of(filled(gold_of("AB"), [1, 3], others_of("xyz"))) == "xAyBz"
    assert text_of(filled(gold_of("AB"), [4, 0], others_of("xyz"))) == "BxyzA"


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 3), st.integers(0, 6), st.integers(0, 6))
def test_a_smaller_dose_stands_in_the_same_order(seed: int, gold: int, few: int, more: int) -> None:
    large = mixed(gold_of("ABC"[:gold]), others_of("abcdefghijkl"[: few + more]), np.random.default_rng(seed))
    small = mixed(gold_of("ABC"[:gold]), others_of("abcdefghijkl"[:few]), np.random.default_rng(seed))
    kept = set(text_of(small))
    assert "".join(c for c in text_of(large) if c in kept) == text_of(small)
    assert len(large) == gold + few + more
