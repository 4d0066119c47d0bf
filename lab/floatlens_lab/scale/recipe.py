"""The recipe: stages of training, each a mixture of rows, with one optimiser and one schedule for every model.

Plain values; a model's card holds a copy of the recipe that made it. Stages have fixed lengths, set by the slowest of
the four models, so all of them see the same rows in the same order. A stage may begin a new course: the optimiser
starts again from the weights as a checkpoint stores them, and the learning rate rises and falls again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from floatlens.core.errors import FloatlensError
from floatlens.core.validation import in_one_line

__all__ = ["RECIPE", "Recipe", "Stage", "read_recipe"]


class _Plain(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Stage(_Plain):
    """A stretch of training.

    `mixture` weighs kinds of rows: words, sites, pairs, couples, notes, asked, asked places, closed, people, places,
    spouses, homes.
    """

    name: str
    steps: int = Field(ge=1, description="number of steps; an upper limit while lengths are being settled")
    until: float | None = Field(None, description="answer loss at which the stage is left while lengths are settled")
    length: int = Field(ge=16, description="tokens in a row")
    rows: int = Field(ge=1, description="rows in a batch")
    documents: tuple[int, int] = Field(description="fewest and most documents (or pairs) of a context")
    mixture: dict[str, float]
    known: float = Field(0.0, description="share of contexts about known people")
    known_people: int = Field(120, description="how many are known; see `World`")
    similar: float = Field(0.5, description="share of contexts in which names resemble one another")
    two_hop: float = Field(0.5, description="how likely the next question takes two hops, where the context has any")
    spelt: bool = Field(False, description="whether answers in two hops say what lies between as well")
    names: int = Field(64, ge=2, description="how many words are in use as names; for words only")
    gap: int = Field(0, ge=0, description="most words between a name and its value, in lines without sentences")
    every_answer: float = Field(1.0, description="share of rows whose answers are all masked; in others a random share")
    context_mask: float = Field(
        0.0, description="share of the context that diffusion models do not see, in half the rows"
    )
    spare: int = Field(3, ge=0, description="most EOS to follow the one that ends an answer, but for the last answer")
    anew: bool = Field(False, description="whether a new course begins with this stage")

    @property
    def tokens(self) -> int:
        """Of one step."""
        return self.length * self.rows


class Recipe(_Plain):
    """Everything that decides what training gives, but for the model's blueprint."""

    stages: tuple[Stage, ...]
    seed: int = 0
    learning_rate: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = 0.01
    clip: float = 1.0
    warmup: int = 100
    decay: int = Field(2000, ge=1, description="steps that the learning rate takes to fall to a tenth, ending a course")
    earlier: float = Field(0.25, description="share of steps that go back to an earlier stage")
    adapted_from: str | None = Field(
        None, description="the stage at which a model joins that starts from the finished weights of another"
    )

    @model_validator(mode="after")
    def _falls_where_lengths_are_fixed(self) -> Recipe:
        """Otherwise the rate of a step would depend on stages that are still to be settled."""
        for course in self._courses():
            fixed = course[-1].steps
            for stage in reversed(course[:-1]):
                if stage.until is not None:
                    break
                fixed += stage.steps
            if self.decay > fixed:
                raise ValueError(f"decay={self.decay} is longer than the last stages of fixed length, {fixed} steps")
        return self

    def _courses(self) -> list[list[Stage]]:
        """The stages, divided where one begins anew."""
        found: list[list[Stage]] = [[]]
        for stage in self.stages:
            if stage.anew and found[-1]:
                found.append([])
            found[-1].append(stage)
        return found

    def course_starts(self) -> list[int]:
        """The first step of every course."""
        lengths = [sum(stage.steps for stage in course) for course in self._courses()]
        return [0, *np.cumsum(lengths[:-1]).tolist()]

    @model_validator(mode="after")
    def _joins_at_a_stage(self) -> Recipe:
        if self.adapted_from is not None and self.adapted_from not in [stage.name for stage in self.stages]:
            raise ValueError(f'adapted_from="{self.adapted_from}" is none of the stages')
        return self

    def with_lengths(self, lengths: Sequence[int]) -> Recipe:
        """The same with the first stages of these lengths."""
        settled = [s.model_copy(update={"steps": n}) for s, n in zip(self.stages, lengths, strict=False)]
        return self.model_copy(update={"stages": (*settled, *self.stages[len(settled) :])})

    @property
    def steps(self) -> int:
        return sum(stage.steps for stage in self.stages)

    @property
    def digest(self) -> str:
        """A short name for exactly these values."""
        return hashlib.sha256(json.dumps(self.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()[:12]

    def stage_at(self, step: int) -> tuple[Stage, Stage]:
        """The stage a step belongs to, and the stage whose rows it takes: now and then an earlier one of its course."""
        ends = np.cumsum([stage.steps for stage in self.stages])
        current = int(np.searchsorted(ends, step, side="right"))
        first = max(i for i in range(current + 1) if i == 0 or self.stages[i].anew)
        random = np.random.default_rng([self.seed, 1, step])
        back = current > first and random.random() < self.earlier
        return self.stages[current], self.stages[int(random.integers(first, current)) if back else current]

    def first_step(self, *, adapted: bool) -> int:
        """Where a model begins: at the beginning, or with the stage at which adapted ones join."""
        if not adapted or self.adapted_from is None:
            return 0
        return next(first for first, stage in self.starts() if stage.name == self.adapted_from)

    def rate_at(self, step: int, first: int = 0) -> float:
        """The learning rate of a step: in every course a linear warm-up, a plateau and a linear fall."""
        starts = self.course_starts()
        course = int(np.searchsorted(starts, step, side="right")) - 1
        end = [*starts, self.steps][course + 1]
        rise = min(1.0, (step - max(first, starts[course]) + 1) / max(self.warmup, 1))
        left = (end - step) / self.decay
        return self.learning_rate * min(rise, max(0.1, min(1.0, left)))

    def starts(self) -> Iterator[tuple[int, Stage]]:
        """(first step, stage) of every stage."""
        first = 0
        for stage in self.stages:
            yield first, stage
            first += stage.steps


def _stage(name: str, steps: int, size: tuple[int, int], documents: tuple[int, int], **more: Any) -> Stage:
    rows, length = size
    return Stage(name=name, steps=steps, rows=rows, length=length, documents=documents, **more)


_READING: dict[str, Any] = {"context_mask": 0.05, "every_answer": 0.85}

_SPELT: dict[str, Any] = {
    "context_mask": 0.05,
    "every_answer": 0.6,
    "known_people": 360,
    "spelt": True,
    "two_hop": 0.55,
}

RECIPE = Recipe(
    stages=(
        # Look up a word and copy what is next to it; then by full names, at a distance, and names as values.
        _stage("words", 200, (32, 32), (2, 4), mixture={"words": 1}),
        _stage("pairs", 400, (12, 80), (2, 4), mixture={"pairs": 1}, gap=4),
        _stage("couples", 400, (16, 64), (2, 3), mixture={"couples": 0.7, "pairs": 0.3}, gap=3),
        # Then in sentences, asked for as in a prompt.
        _stage("asked", 800, (8, 192), (2, 4), mixture={"asked": 0.8, "couples": 0.2}, gap=3),
        # Then in documents, in one hop and two, with questions about known people in between.
        _stage(
            "documents 3",
            1300,
            (6, 320),
            (2, 4),
            mixture={"people": 0.25, "places": 0.1, "spouses": 0.25, "homes": 0.25, "closed": 0.15},
            two_hop=0.55,
            **_READING,
        ),
        _stage(
            "documents 10",
            1400,
            (3, 576),
            (5, 10),
            mixture={"people": 0.3, "places": 0.05, "spouses": 0.25, "homes": 0.25, "closed": 0.15},
            two_hop=0.55,
            **_READING,
        ),
        _stage(
            "everything",
            2000,
            (3, 640),
            (4, 12),
            mixture={"people": 0.25, "places": 0.05, "spouses": 0.225, "homes": 0.225, "closed": 0.25},
            known=0.15,
            two_hop=0.55,
            **_READING,
        ),
        # A second course. Places are looked up as people are: in lines, at a distance, asked for in sentences.
        _stage("sites", 300, (32, 32), (2, 4), mixture={"sites": 0.8, "words": 0.2}, anew=True),
        _stage("sites apart", 400, (24, 48), (2, 4), mixture={"sites": 0.8, "words": 0.2}, gap=4),
        _stage(
            "asked places",
            700,
            (8, 192),
            (2, 4),
            mixture={"asked places": 0.7, "asked": 0.15, "sites": 0.15},
            gap=4,
            known_people=360,
        ),
        # Then documents again, two hops spelt out, three times as many known people, most of them rarely asked about.
        _stage(
            "spelt out 3",
            600,
            (6, 320),
            (2, 4),
            mixture={"people": 0.1, "places": 0.2, "spouses": 0.2, "homes": 0.3, "closed": 0.2},
            **_SPELT,
        ),
        _stage(
            "spelt out 10",
            1500,
            (3, 640),
            (4, 12),
            mixture={"people": 0.2, "places": 0.1, "spouses": 0.2, "homes": 0.25, "closed": 0.25},
            known=0.15,
            **_SPELT,
        ),
    ),
    learning_rate=2e-3,
    decay=1500,
    earlier=0.1,
    adapted_from="sites",
)


def read_recipe(path: Path | None) -> Recipe:
    """A recipe from a JSON file; the bundled one for None."""
    if path is None:
        return RECIPE
    try:
        return Recipe.model_validate_json(path.read_bytes())
    except OSError as error:
        raise FloatlensError(f"recipe {path}: {error.strerror or error}; give a JSON file") from None
    except ValidationError as error:
        raise FloatlensError(f"recipe {path}: {in_one_line(error, Recipe)}") from None
