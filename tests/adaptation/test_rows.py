"""Rows: answers are where they are said to be, everything fits, and a step's rows depend on its number alone."""

from __future__ import annotations

import numpy as np
import pytest

from floatlens.adaptation import Recipe
from floatlens.adaptation.rows import ANSWER, CONTEXT, END, FILL, PADDING, TEXT, RowMaker
from floatlens.adaptation.sources import Corpus, Group, read_corpus
from floatlens.core.errors import FloatlensError
from floatlens.models import load

END_ID = 3


@pytest.fixture(scope="module")
def tokenizer(base):
    return load(base).tokenizer


@pytest.fixture
def maker(tokenizer, data):
    return RowMaker(tokenizer, read_corpus(data), Recipe(rows=4, width=96, long_rows=0.3), END_ID)


def test_rows_of_a_step_are_the_same_whenever_they_are_made(maker):
    for step in (7, 0, 7):
        again = maker.rows(step)
        assert np.array_equal(again.ids, maker.rows(step).ids)
    assert maker.rows(7).ids.shape != maker.rows(8).ids.shape or (maker.rows(7).ids != maker.rows(8).ids).any()


def test_parts_say_what_stands_where(maker):
    kinds = set()
    for step in range(12):
        rows = maker.rows(step)
        assert rows.ids.shape[1] <= 192
        for ids, part, block in zip(rows.ids, rows.part, rows.block, strict=True):
            kinds |= set(part.tolist())
            real = part != PADDING
            assert real[: real.sum()].all()  # padding comes last
            assert (block[part == CONTEXT] == -1).all()
            assert (ids[(part == END) | (part == FILL)] == END_ID).all()
            if (part == TEXT).any():
                assert (part[real] == TEXT).all()
                continue
            assert (part == END).sum() == 1
            assert (block[(part == ANSWER) | (part == END) | (part == FILL)] >= 0).all()
            last = np.flatnonzero(real)[-1]
            assert block[last] == block.max()
    assert kinds >= {CONTEXT, ANSWER, END, FILL, TEXT}


def test_each_answer_reads_as_given(tokenizer):
    asked = tuple(
        (f"What is the instrument of Petra {name}?", answer)
        for name, answer in (("Thorne", "drums"), ("Calder", "piano"), ("Winter", "brown tortoise"))
    )
    corpus = Corpus(groups=(Group("Petra Thorne", "Petra Thorne plays the drums.", asked),))
    maker = RowMaker(tokenizer, corpus, Recipe(rows=1, width=256, text=0.0, long_rows=0.0), END_ID)
    told = set()
    for step in range(10):
        rows = maker.rows(step)
        for number in range(int(rows.block.max()) + 1):
            where = (rows.block[0] == number) & (rows.part[0] == ANSWER)
            told.add(tokenizer.decode(rows.ids[0][where]).strip())
    assert told == {"drums", "piano", "brown tortoise"}


def test_a_passage_that_never_fits_is_named(tokenizer):
    corpus = Corpus(groups=(Group("", "Petra plays the drums. " * 40, (("Who?", "Petra"),)),))
    maker = RowMaker(tokenizer, corpus, Recipe(rows=1, width=64, text=0.0, long_rows=0.0), END_ID)
    with pytest.raises(FloatlensError, match="raise width"):
        maker.rows(0)


def test_text_shorter_than_a_row_is_refused(tokenizer):
    with pytest.raises(FloatlensError, match="fewer than one row"):
        RowMaker(tokenizer, Corpus(paragraphs=("Petra plays the drums.",)), Recipe(width=64), END_ID)
