"""A case: a claim, a world with a known truth, and how a study of n questions is drawn from it."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from floatlens.claims import CLAIMS
from floatlens.claims.verdict import VERDICTS

__all__ = ["Case", "Draw", "Random", "Truth", "rates"]

Random = np.random.Generator
Truth = Literal["true", "neither", "false"]
Draw = Callable[[Random, int], Sequence[Any]]
"""(generator, n) → what the rule of the claim needs, for a study of n questions."""


@dataclass(frozen=True)
class Case:
    """What is so in a world. Where the claim is `true`, "contradicted" is a false verdict; where it is `false`,
    "supported" is. In a world that is `neither`, both are: the effect is exactly at a limit or between the two limits,
    or the run cannot show it. `steps` is None where the number of steps plays no part. `effort` is the part of the
    studies that are simulated: fewer where a study takes long, or where there is little to count."""

    claim: str
    world: str
    truth: Truth
    draw: Draw
    steps: int | None = None
    effort: float = 1.0

    @property
    def label(self) -> str:
        return self.world if self.steps is None else f"{self.world}, {self.steps} steps"


def rates(case: Case, n: int, studies: int, seed: int = 0) -> dict[str, float]:
    """The share of each verdict over studies of n questions. Each case has random numbers of its own, so its rates do
    not depend on which other cases are simulated.
    Example: `rates(answer_cases()[0], 20, 100)["supported"]`"""
    random = np.random.default_rng([seed, n, zlib.crc32(f"{case.claim}/{case.label}".encode())])
    seen = Counter(verdict(case, random, n) for _ in range(studies))
    return {one: seen[one] / studies for one in VERDICTS}


def verdict(case: Case, random: Random, n: int) -> str:
    """The verdict on one study. A rule that finds nothing to judge says nothing, which counts as undecided."""
    found = CLAIMS[case.claim](*case.draw(random, n))
    if len(found) > 1:
        raise ValueError(f"{case.claim}, {case.label}: {len(found)} verdicts on one study")
    return found[0].verdict if found else "undecided"
