"""BM25 over documents that come and go: an index that is updated, not rebuilt, and its state as of a date.

It keeps counts (documents, words, documents per word, words per document) as whole numbers and computes scores when a
question is asked, so after any updates it gives the scores of an index built anew from the same documents, to the last
bit. bm25s stores finished scores, all of which change with every document. Formula, words and settings are the same.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable

import numpy as np

from floatlens.core.errors import FloatlensError
from floatlens.data.collection.versions import DatedCollection, Version, as_date
from floatlens.data.retrieval import K1, B, best_of, make_tokenizer

__all__ = ["DatedIndex", "LiveBm25"]


class LiveBm25:
    """BM25 scores of texts by a number of the caller's choice, which also breaks ties.

    Example: `index = LiveBm25([(0, "A tower.")]); index.add(1, "A bridge."); index.remove(0)`
    """

    def __init__(self, texts: Iterable[tuple[int, str]] = ()) -> None:
        self._tokenizer = make_tokenizer()
        self._words: dict[int, Counter[int]] = {}  # by text: how often it has each word
        self._postings: dict[int, tuple[array[int], array[int]]] = {}  # by word: numbers of texts, and how often
        self._lengths = array("q")  # by number; 0 where there is no text
        self._total = 0
        for number, text in texts:
            self.add(number, text)

    def __len__(self) -> int:
        return len(self._words)

    def __contains__(self, number: int) -> bool:
        return number in self._words

    def add(self, number: int, text: str) -> None:
        """Add a text; only the counts of its own words change."""
        if number in self._words or number < 0:
            raise ValueError(f"text {number} is in the index already, or its number is negative")
        (ids,) = self._tokenizer.streaming_tokenize([text], allow_empty=True)
        self._words[number] = counted = Counter(ids)
        self._lengths.extend([0] * (number + 1 - len(self._lengths)))
        self._lengths[number] = len(ids)
        self._total += len(ids)
        for word, times in counted.items():
            numbers, counts = self._postings.setdefault(word, (array("q"), array("q")))
            place = bisect_left(numbers, number)
            numbers.insert(place, number)
            counts.insert(place, times)

    def remove(self, number: int) -> None:
        """Take a text out; nothing of it stays."""
        if number not in self._words:
            raise ValueError(f"text {number} is not in the index")
        for word in self._words.pop(number):
            numbers, counts = self._postings[word]
            place = bisect_left(numbers, number)
            del numbers[place], counts[place]
            if not numbers:
                del self._postings[word]
        self._total -= self._lengths[number]
        self._lengths[number] = 0

    def best(self, question: str, k: int) -> list[tuple[int, float]]:
        """Numbers and scores of the `k` best texts that share a word with the question, best first; ties by number."""
        (ids,) = self._tokenizer.streaming_tokenize([question], update_vocab="never", allow_empty=False)
        lengths = np.array(self._lengths, dtype=np.float64)
        scores = np.zeros(len(lengths))
        for word in ids:
            if word in self._postings:
                numbers, counts = (np.array(part, dtype=np.int64) for part in self._postings[word])
                idf = math.log(1 + (len(self) - len(numbers) + 0.5) / (len(numbers) + 0.5))
                relative = lengths[numbers] * len(self) / self._total
                scores[numbers] += idf * counts / (counts + K1 * (1 - B + B * relative))
        return best_of(scores, k)


class DatedIndex:
    """The documents of a collection as of a date. Moving to another date touches only the documents that differ.

    Example: `index = DatedIndex(collection); index.move_to("2022"); index.search("Who keeps the lighthouse?", 5)`
    """

    def __init__(self, collection: DatedCollection) -> None:
        self.collection = collection
        self.date: str | None = None
        self._bm25 = LiveBm25()
        events = [(version.start, number) for number, version in enumerate(collection.versions)]
        events += [(one.end, number) for number, one in enumerate(collection.versions) if one.end is not None]
        self._events = sorted(events)

    def __len__(self) -> int:
        """The number of documents at this date."""
        return len(self._bm25)

    def move_to(self, date: str) -> int:
        """Put the index into its state as of a date, before or after the present one; gives the number of updates."""
        date = as_date(date, "date")
        here = 0 if self.date is None else self._after(self.date)
        there = self._after(date)
        updates = 0
        for number in dict.fromkeys(number for _, number in self._events[min(here, there) : max(here, there)]):
            version = self.collection.versions[number]
            if version.is_live(date) == (number in self._bm25):
                continue
            updates += 1
            if number in self._bm25:
                self._bm25.remove(number)
            else:
                self._bm25.add(number, f"{version.title} {version.text}")
        self.date = date
        return updates

    def search(self, question: str, k: int) -> list[tuple[Version, float]]:
        """The `k` best documents of this date with their scores, best first; ties in the order of the collection."""
        if self.date is None:
            raise FloatlensError("the index has no date yet; call move_to first")
        if k < 1:
            raise FloatlensError(f"k={k}: expected at least 1")
        return [(self.collection.versions[number], score) for number, score in self._bm25.best(question, k)]

    def _after(self, date: str) -> int:
        """How many events lie at or before a date."""
        return bisect_left(self._events, (date, len(self.collection.versions)))
