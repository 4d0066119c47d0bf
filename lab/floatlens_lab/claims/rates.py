"""Error rates of the rules: how often a run with a known truth is judged wrongly.

For each world a pool of traces is made and analysed once. A study is n questions drawn from the pool with replacement,
so the pool is the population and its questions are independent. A *false "supported"* is that verdict where the claim
is not true of the world, a *false "contradicted"* that verdict where it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from floatlens.analysis import Group, Result, analyse
from floatlens.claims import CLAIMS
from floatlens_lab.claims.worlds import WORLDS, make_trace

__all__ = ["LIMIT", "TRUTHS", "Truth", "rates", "trace_rates"]

LIMIT = 0.05
"""The largest rate of false verdicts, of each sort."""
VERDICTS = ("supported", "too small", "contradicted", "undecided")


@dataclass(frozen=True)
class Truth:
    """What is so in a world. `true` worlds deserve "supported", `false` ones anything else; `against` is the world of
    the autoregressive models where a claim compares kinds. Worlds that are not named do not bear on the claim."""

    claim: str
    kind: str
    true: tuple[str, ...]
    false: tuple[str, ...]
    against: str | None = None

    def worlds(self) -> Iterator[tuple[str, bool]]:
        yield from ((name, True) for name in self.true)
        yield from ((name, False) for name in self.false)


_STILL = ("sink", "held", "noise", "shuffled")
TRUTHS = (
    Truth("arm-fixed", "arm", ("sink",), ("held", "flicker", "noise", "shuffled")),
    Truth("mdm-moves (answer rows)", "mdm", ("llada", "dream", "answer", "left"), ("flicker", *_STILL)),
    Truth("mdm-moves (all rows)", "mdm", ("llada", "dream", "left"), ("answer", "flicker", *_STILL)),
    Truth("mdm-right", "mdm", ("llada", "dream", "answer"), ("left", "flicker", *_STILL)),
    Truth("mdm-frontier", "mdm", ("llada", "dream", "answer"), ("left", "flicker", *_STILL)),
    Truth("layers-differ", "mdm", ("llada", "dream", "answer", "held"), ("sink", "noise", "shuffled")),
    Truth("shallow-spread", "mdm", ("llada",), _STILL),
    Truth("mdm-absorbs-less (absorbed)", "mdm", ("llada", "dream", "noise"), ("sink",), against="sink"),
    Truth("mdm-absorbs-less (excess)", "mdm", ("llada", "dream", "noise"), ("sink",), against="sink"),
    Truth("mdm-dispersed", "mdm", ("llada", "dream", "held"), ("sink", "noise", "shuffled"), against="sink"),
)
"""Claims about where anchors are, and the worlds in which they are true or false."""


def trace_rates(
    steps: Sequence[int], counts: Sequence[int], studies: int, pool: int, say: Callable[[str], object]
) -> pd.DataFrame:
    """One row for each claim, world, number of steps and of questions: the truth and the share of each verdict."""
    rows = []
    for number in steps:
        say(f"{number} steps: {pool} traces of each world")
        for truth in TRUTHS:
            for world, true in truth.worlds():
                results = _pooled(truth, world, number, pool)
                for n in counts:
                    shares = rates(truth.claim, results, n, studies)
                    rows.append({"claim": truth.claim, "world": world, "true": true, "steps": number, "n": n} | shares)
    return pd.DataFrame(rows)


def rates(claim: str, results: Mapping[str, Result], n: int, studies: int, seed: int = 0) -> dict[str, float]:
    """The share of each verdict of a claim over studies of n questions, drawn from these results."""
    random = np.random.default_rng([seed, n])
    rule = CLAIMS[claim]
    seen: Counter[str] = Counter()
    for _ in range(studies):
        drawn = _drawn([results[name] for name in rule.needs], n, random)
        (found,) = rule(*drawn)
        seen[found.verdict] += 1
    return {verdict: seen[verdict] / studies for verdict in VERDICTS}


@dataclass(frozen=True, eq=False)
class _Drawn(Group):
    """A group of which only some samples count, each as a question of its own."""

    rows: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @cached_property
    def questions(self) -> tuple[str, ...]:
        return tuple(map(str, range(len(self.rows))))

    @property
    def traces(self) -> int:
        return len(self.rows)

    def values(self, variable: str) -> NDArray[np.float64]:
        return super().values(variable)[self.rows]


def _drawn(results: Sequence[Result], n: int, random: np.random.Generator) -> list[Result]:
    """The same results of n questions, drawn with replacement; the control stays as it is."""
    rows: dict[str, NDArray[np.int64]] = {}
    made = []
    for result in results:
        groups = []
        for group in result.groups:
            if group.control is None:
                chosen = rows.setdefault(group.model, random.integers(group.traces, size=n))
                group = _Drawn(group.keys, group.facts, group.samples, rows=chosen)
            groups.append(group)
        made.append(replace(result, groups=tuple(groups)))
    return made


def _pooled(truth: Truth, world: str, steps: int, pool: int) -> dict[str, Result]:
    """What the claim needs, of the world, its control and, for a comparison, the world of the other kind."""
    parts = [(world, truth.kind)] + ([(truth.against, "arm")] if truth.against else [])
    found = [_analysed(name, kind, steps, pool) for name, kind in parts]
    return {
        name: replace(found[0][name], groups=tuple(group for one in found for group in one[name].groups))
        for name in found[0]
    }


@cache
def _analysed(world: str, kind: str, steps: int, pool: int) -> dict[str, Result]:
    ref = f"{world} as {kind}"
    traces = (make_trace(WORLDS[world], kind=kind, steps=steps, sample=i, ref=ref) for i in range(pool))
    control = f"{ref}, weights shuffled (seed 0)"
    shuffled = (
        make_trace(WORLDS["shuffled"], kind=kind, steps=steps, sample=i, ref=control, control_of=ref) for i in range(50)
    )
    needed = dict.fromkeys(name for truth in TRUTHS for name in CLAIMS[truth.claim].needs)
    return analyse((trace for some in (traces, shuffled) for trace in some), needed)
