"""How well a scale model does: the table of its card, decoded by its family's own sampler, batch by batch.

Accuracy is exact: the decoded answer equals one that is accepted. Works for any model that reads the world's text, but
says nothing about models that do not know it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from floatlens.decoding import decode
from floatlens.prompts import build
from floatlens.subjects.scale.examples import accepted, chance, questions
from floatlens.subjects.scale.sets import EVALUATION_SEED, SETS, QuestionSet

if TYPE_CHECKING:
    from floatlens.data import Example
    from floatlens.models import LanguageModel

__all__ = ["DECODING", "Outcome", "Summary", "evaluate", "evaluate_all"]

DECODING: dict[str, Any] = {"gen_length": 8}
"""Settings of every sampler alike; a diffusion model takes as many passes as there are masks."""
_BATCH = 25


@dataclass(frozen=True)
class Outcome:
    """What a model answered to one question."""

    id: str
    answer: str
    right: bool


@dataclass(frozen=True)
class Summary:
    """Right answers of one question set; `places` counts (right, asked) by the place of the gold document."""

    which: str
    right: int
    asked: int
    chance: float
    places: tuple[tuple[int, int], ...] = ()
    outcomes: tuple[Outcome, ...] = ()

    @property
    def accuracy(self) -> float:
        return self.right / self.asked

    def to_json(self) -> dict[str, Any]:
        """Without the single outcomes, for a card."""
        found: dict[str, Any] = {"right": self.right, "asked": self.asked, "chance": round(self.chance, 5)}
        return {**found, "by_gold_place": [list(pair) for pair in self.places]} if self.places else found


def evaluate(
    model: LanguageModel,
    examples: Sequence[Example],
    *,
    batch: int = _BATCH,
    done: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Outcome]:
    """Decode every question; one outcome each, in order.

    Example: `evaluate(fl.load("scale:llada"), questions("rag", 50))[0].right`
    """
    found = []
    for first in range(0, len(examples), batch):
        part = examples[first : first + batch]
        prompts = [
            build(model.tokenizer, question=e.question, documents=e.documents, answers=e.answers).ids for e in part
        ]
        for example, ids in zip(part, decode(model, prompts, **DECODING).answers(), strict=True):
            answer = str(model.tokenizer.decode(ids)) if model.tokenizer is not None else ""
            found.append(Outcome(example.id, answer, answer in accepted(example)))
            done(found[-1])
    return found


def evaluate_all(
    model: LanguageModel,
    count: int = 500,
    *,
    sets: Sequence[QuestionSet] = SETS,
    seed: int = EVALUATION_SEED,
    done: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Summary]:
    """Every question set of the table, `count` questions each."""
    return [_summary(which, model, count, seed, done) for which in sets]


def _summary(
    which: QuestionSet, model: LanguageModel, count: int, seed: int, done: Callable[[Outcome], None]
) -> Summary:
    examples = questions(which, count, seed=seed)
    outcomes = evaluate(model, examples, done=done)
    places: dict[int, tuple[int, int]] = {}
    for example, outcome in zip(examples, outcomes, strict=True):
        if which == "rag":
            right, asked = places.get(example.meta["gold"][0], (0, 0))
            places[example.meta["gold"][0]] = (right + outcome.right, asked + 1)
    return Summary(
        which=which,
        right=sum(outcome.right for outcome in outcomes),
        asked=len(outcomes),
        chance=sum(chance(example) for example in examples) / len(examples),
        places=tuple(places[place] for place in sorted(places)),
        outcomes=tuple(outcomes),
    )
