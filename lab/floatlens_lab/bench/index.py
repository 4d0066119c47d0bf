"""Cost of updating an index of documents that change, relative to building it anew; and of a search in it.

Texts are drawn with word frequencies as in prose (Zipf), so no file is needed. Variants take turns in one run.
"""

from __future__ import annotations

import json
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from floatlens.data.collection import LiveBm25
from floatlens.data.retrieval import Bm25

__all__ = ["IndexCost", "as_markdown", "measure", "save"]

_VOCABULARY, _WORDS, _SHARE, _QUESTIONS, _ASKED = 30_000, 100, 0.01, 50, 8


@dataclass
class IndexCost:
    """Seconds of every round by what was done; `changed` of `documents` were corrected in an update."""

    documents: int
    changed: int
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def ratio(self, one: str, other: str) -> tuple[float, float, float]:
        """Median, smallest and largest over rounds of one time divided by another of the same round."""
        found = [a / b for a, b in zip(self.seconds[one], self.seconds[other], strict=True)]
        return statistics.median(found), min(found), max(found)


def measure(documents: int = 20_000, rounds: int = 3, say: Callable[[str], Any] = lambda message: None) -> IndexCost:
    """Time an update of one document in a hundred, both ways of building anew, and searches."""
    random = np.random.default_rng(0)
    texts = [_text(random, _WORDS) for _ in range(documents)]
    asked = [_text(random, _ASKED) for _ in range(_QUESTIONS)]
    live = LiveBm25(enumerate(texts))
    found = IndexCost(documents, max(1, round(documents * _SHARE)))
    for turn in range(rounds):
        chosen = random.choice(documents, found.changed, replace=False).tolist()
        for number in chosen:
            texts[number] = _text(random, _WORDS)
        _timed(found, "update", partial(_correct, live, chosen, texts))
        rebuilt = _timed(found, "build", lambda: LiveBm25(enumerate(texts)))
        fresh = _timed(found, "build with bm25s", lambda: Bm25.of(texts))
        answers = _timed(found, "search", lambda: [live.best(question, 5) for question in asked])
        _timed(found, "search with bm25s", lambda: [fresh.best(question, 5) for question in asked])  # noqa: B023
        assert answers == [rebuilt.best(question, 5) for question in asked]
        say(f"round {turn + 1} of {rounds}: update {found.seconds['update'][-1]:.2f} s")
    return found


def _text(random: np.random.Generator, words: int) -> str:
    return " ".join(f"word{number}" for number in (random.zipf(1.3, words) % _VOCABULARY).tolist())


def _correct(index: LiveBm25, numbers: Sequence[int], texts: Sequence[str]) -> None:
    for number in numbers:
        index.remove(number)
        index.add(number, texts[number])


def _timed(found: IndexCost, name: str, work: Callable[[], Any]) -> Any:
    began = time.perf_counter()
    made = work()
    found.seconds.setdefault(name, []).append(time.perf_counter() - began)
    return made


def as_markdown(found: IndexCost) -> str:
    """A row per ratio."""
    rows = [
        (f"update of {found.changed:,} documents ÷ build", "update", "build"),
        (f"update of {found.changed:,} documents ÷ build with bm25s", "update", "build with bm25s"),
        ("build ÷ build with bm25s", "build", "build with bm25s"),
        ("search ÷ search with bm25s", "search", "search with bm25s"),
    ]
    lines = ["| ratio of times | median (smallest–largest) |", "|---|---:|"]
    for words, one, other in rows:
        ratio = found.ratio(one, other)
        lines.append(f"| {words} | {ratio[0]:.3g} ({ratio[1]:.3g}–{ratio[2]:.3g}) |")
    rounds = len(found.seconds["update"])
    return (
        "\n".join(lines) + f"\n\n{found.documents:,} documents of {_WORDS} words, {rounds} rounds, taking turns, "
        f"{platform.machine()}. An update corrects documents: each is taken out and added again. After every update "
        "the results equal those of the index built anew.\n"
    )


def save(found: IndexCost, folder: str | Path) -> tuple[Path, Path]:
    """Write `index.md` and `index.json` into a folder; returns both paths."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    table, numbers = target / "index.md", target / "index.json"
    table.write_text(f"# Update of an index\n\n`floatlens bench --part index`\n\n{as_markdown(found)}")
    numbers.write_text(json.dumps(asdict(found), indent=1) + "\n")
    return table, numbers
