"""An index that is updated gives exactly what a rebuilt one gives, and the scores of bm25s and of the formula."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from floatlens.core.errors import FloatlensError
from floatlens.data.collection import DatedCollection, DatedIndex, LiveBm25, Version, open_collection
from floatlens.data.retrieval import Bm25
from shared.collection import DATES, QUESTIONS, write_collection

WORDS = ["tower", "bridge", "river", "kell", "orrin", "the", "lamp"]  # "the" is a stop word
TEXTS = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
DAYS = [f"20{year}-01-01" for year in range(10, 16)]


def by_formula(texts: dict[int, str], question: str) -> dict[int, float]:
    """Lucene's BM25 (k1 = 1.5, b = 0.75), written out; a text without words counts as one word, as in bm25s."""
    words = {n: [w for w in text.split() if w != "the"] or [""] for n, text in texts.items()}
    average = sum(map(len, words.values())) / len(words) if words else 0
    scores: dict[int, float] = {}
    for word in (w for w in question.split() if w != "the"):
        holding = {n: Counter(own)[word] for n, own in words.items() if word in own}
        idf = math.log(1 + (len(words) - len(holding) + 0.5) / (len(holding) + 0.5))
        for n, tf in holding.items():
            part = idf * tf / (tf + 1.5 * (0.25 + 0.75 * len(words[n]) / average))
            scores[n] = scores.get(n, 0.0) + part
    return scores


@given(st.lists(st.tuples(st.integers(0, 7), TEXTS), max_size=25), TEXTS)
@settings(max_examples=60, deadline=None)
def test_any_updates_give_the_scores_of_a_rebuilt_index(updates: list[tuple[int, str]], question: str) -> None:
    live, texts = LiveBm25(), dict[int, str]()
    for number, text in updates:  # a number that is there is taken out, any other is added
        if number in texts:
            live.remove(number)
            del texts[number]
        else:
            live.add(number, text)
            texts[number] = text
    found = live.best(question, 10)
    assert found == LiveBm25(texts.items()).best(question, 10) == LiveBm25(sorted(texts.items())).best(question, 10)
    assert len(live) == len(texts)
    wanted = by_formula(texts, question)
    assert dict(found) == pytest.approx(wanted, rel=1e-12)
    assert [n for n, _ in found] == [n for n, _ in sorted(found, key=lambda pair: (-pair[1], pair[0]))]
    if any(w != "the" for text in texts.values() for w in text.split()):
        numbers = sorted(texts)
        fresh = {numbers[i]: score for i, score in Bm25.of(texts[n] for n in numbers).best(question, 10)}
        assert dict(found) == pytest.approx(fresh, rel=1e-5)


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_moving_between_dates_is_the_same_as_building_at_the_date(data: st.DataObject) -> None:
    drawn = data.draw(st.lists(st.tuples(TEXTS, st.integers(0, 5), st.none() | st.integers(1, 6)), max_size=10))
    versions = [
        Version(id=f"d{n}", text=text or "lamp", start=DAYS[a], end=None if b is None or a + b > 5 else DAYS[a + b])
        for n, (text, a, b) in enumerate(drawn)
    ]
    collection = DatedCollection(versions)
    moved = DatedIndex(collection)
    for date in data.draw(st.lists(st.sampled_from(DAYS), min_size=1, max_size=6)):  # forwards and backwards
        before = {one.id for one in versions if moved.date is not None and one.is_live(moved.date)}
        updates = moved.move_to(date)
        live = {one.id for one in versions if one.is_live(date)}
        assert updates == len(before ^ live)  # nothing else was touched
        assert len(moved) == len(live)
        built = DatedIndex(DatedCollection([one for one in versions if one.is_live(date)]))
        built.move_to(date)
        for question in ("tower", "kell river lamp", "the"):
            assert moved.search(question, 4) == built.search(question, 4)


def test_retrieval_as_of_a_date(tmp_path: Path) -> None:
    index = DatedIndex(open_collection(write_collection(tmp_path)[0]))
    with pytest.raises(FloatlensError, match="no date yet"):
        index.search("x", 1)
    sizes, updates, best = [], [], {}
    for date in DATES:
        updates.append(index.move_to(date))
        sizes.append(len(index))
        best[date] = [[one.text for one, _ in index.search(text, 1)] for text in QUESTIONS.values()]
    assert (sizes, updates) == ([4, 5, 4, 4], [4, 1, 3, 2])
    assert best[DATES[1]][1] == ["Ott Vane built the bridge of Kell."]
    assert best[DATES[2]][1] == ["Ida Frome built the bridge of Kell."]
    assert best[DATES[3]][2] == ["The mayor of Tolm is Ann Reed."]
    assert best[DATES[0]][3] == []  # nothing shares a word with it yet
    assert best[DATES[1]][3] == ["The baker of Hest is Una Pell."]
    with pytest.raises(FloatlensError, match="k=0"):
        index.search("x", 0)
    with pytest.raises(FloatlensError, match="date: expected a date"):
        index.move_to("soon")


def test_statistics_shift_what_an_untouched_question_gets() -> None:
    """The second place depends on how rare its words are: documents about other things can change it."""
    texts = {0: "tower kell", 1: "tower river", 2: "tower orrin"}
    index = LiveBm25(texts.items())
    assert [n for n, _ in index.best("tower river orrin", 3)] == [1, 2, 0]
    for number in (3, 4):
        index.add(number, "river lamp")  # "river" is now more common than "orrin"
    assert [n for n, _ in index.best("tower river orrin", 3)] == [2, 1, 0]
    for number in (3, 4):
        index.remove(number)
    assert [n for n, _ in index.best("tower river orrin", 3)] == [1, 2, 0]


def test_a_number_is_there_once() -> None:
    index = LiveBm25([(3, "tower")])
    with pytest.raises(ValueError, match="text 3 is in the index already"):
        index.add(3, "river")
    with pytest.raises(ValueError, match="text 4 is not in the index"):
        index.remove(4)
    assert 3 in index
    assert 4 not in index
