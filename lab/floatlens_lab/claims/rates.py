"""Error rates of the rules: how often a run with a known truth is judged wrongly.

A *false "supported"* is that verdict in a world where the claim is not true, a *false "contradicted"* that verdict in a
world where it is not false. "Too small" and "undecided" are no false verdicts; how often a true claim is found is its
power.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pandas as pd

from floatlens.claims import CLAIMS
from floatlens_lab.claims.answers import answer_cases
from floatlens_lab.claims.cases import Case, rates
from floatlens_lab.claims.edits import edit_cases
from floatlens_lab.claims.margins import margin_cases
from floatlens_lab.claims.mechanism import mechanism_cases
from floatlens_lab.claims.traces import trace_cases

__all__ = ["LIMIT", "all_cases", "all_rates", "summary"]

LIMIT = 0.05
"""The largest rate of false verdicts, of each sort."""
FEWEST_STUDIES = 20
CLOSE, AGAIN = 0.8, (4, 20)
"""A rate above this part of the limit is simulated again, with so many times as many studies, and once more."""
_COLUMNS = ["claim", "world", "steps", "truth", "n", "studies", "supported", "too small", "contradicted", "undecided"]
_FALSE = {"supported": ("neither", "false"), "contradicted": ("true", "neither")}
"""Verdicts, and the truths of the worlds in which they are false."""
_HEAD = (
    '| claim | worst false "supported" | where | worst false "contradicted" | where '
    "| power, n = {few} | power, n = {many} |\n|---|---|---|---|---|---|---|"
)


def all_cases(steps: Sequence[int], pool: int) -> Iterator[Case]:
    """Every claim in every world; `pool` is the number of traces of each world that studies draw from."""
    for number in steps:
        yield from trace_cases(number, pool)
    yield from (*margin_cases(), *mechanism_cases(), *answer_cases(), *edit_cases())


def all_rates(
    steps: Sequence[int], counts: Sequence[int], studies: int, pool: int, say: Callable[[str], object]
) -> pd.DataFrame:
    """One row for each case and number of questions: the truth and the share of each verdict. The order is that of
    `CLAIMS`; the same arguments give the same frame.
    Example: `all_rates((8,), (20,), 20, 20, print)`"""
    rows, told = [], ""
    for case in all_cases(steps, pool):
        about = case.claim if case.steps is None else f"{case.claim}, {case.steps} steps"
        if about != told:
            say(f"simulating {about}")
            told = about
        several = max(round(studies * case.effort), min(studies, FEWEST_STUDIES))
        who = {"claim": case.claim, "world": case.world, "steps": case.steps, "truth": case.truth}
        rows += [who | {"n": n} | _rates(case, n, several) for n in counts]
    found = pd.DataFrame(rows, columns=_COLUMNS).astype({"steps": "Int64"})
    place = {claim: number for number, claim in enumerate(CLAIMS)}
    return found.sort_values("claim", key=lambda ids: ids.map(place), kind="stable", ignore_index=True)


def _rates(case: Case, n: int, studies: int) -> dict[str, float]:
    """The rates of a case. Where a false verdict comes close to the limit or exceeds it, other studies are simulated,
    and only these count: the largest of many rates is mostly the one with the most bad luck."""
    found, number = rates(case, n, studies), studies
    for seed, times in enumerate(AGAIN, start=1):
        if max((found[sort] for sort, truths in _FALSE.items() if case.truth in truths), default=0.0) <= CLOSE * LIMIT:
            break
        number = times * studies
        found = rates(case, n, number, seed=seed)
    return {"studies": number} | found


def summary(found: pd.DataFrame) -> str:
    """A Markdown table with a row for each claim; what exceeds the limit is in bold."""
    few, many = found["n"].min(), found["n"].max()
    lines = [_HEAD.format(few=few, many=many)]
    for claim, own in found.groupby("claim", sort=False):
        cells = [cell for sort in _FALSE for cell in _worst(own, sort)]
        lines.append(f"| {claim} | {' | '.join(cells)} | {_power(own, few)} | {_power(own, many)} |")
    return "\n".join([*lines, "", _caption(found)])


def false_rates(found: pd.DataFrame, sort: str) -> pd.DataFrame:
    """The rows in which a verdict ("supported" or "contradicted") is false."""
    return found[found["truth"].isin(_FALSE[sort])]


def _worst(own: pd.DataFrame, sort: str) -> tuple[str, str]:
    """The largest rate, and where it is; it need not be above 0."""
    wrong = false_rates(own, sort)
    if wrong.empty:
        return "–", "no such world"
    worst = wrong.iloc[int(wrong[sort].to_numpy().argmax())]
    if worst[sort] == 0:
        return "0 %", f"{len(wrong)} cells"
    rate = _percent(worst[sort])
    steps = "" if pd.isna(worst["steps"]) else f", {worst['steps']} steps"
    return f"**{rate}**" if worst[sort] > LIMIT else rate, f"{worst['world']}{steps}, n = {worst['n']}"


def _power(own: pd.DataFrame, n: int) -> str:
    """The lowest and the median rate of "supported" in worlds where the claim is true."""
    rate = own.loc[(own["truth"] == "true") & (own["n"] == n), "supported"]
    return f"{_percent(rate.min())}, typically {_percent(rate.median())}" if len(rate) else "–"


def _percent(rate: float) -> str:
    return f"{100 * rate:.3g} %"


def _caption(found: pd.DataFrame) -> str:
    error = {count: 100 * np.sqrt(LIMIT * (1 - LIMIT) / count) for count in sorted(set(found["studies"]))}
    errors = ", ".join(f"± {one:.1f} with {count} studies" for count, one in error.items())
    wrong = sum((false_rates(found, sort)[sort] > LIMIT).sum() for sort in _FALSE)
    cells = sum(len(false_rates(found, sort)) for sort in _FALSE)
    limit, close = (f"{100 * rate:g} %" for rate in (LIMIT, CLOSE * LIMIT))
    return (
        'Rates are shares of simulated studies. A false "supported" is that verdict where the claim is not true of the '
        'world, an effect exactly at the limit included; a false "contradicted" is that verdict where the claim is not '
        f"false. Rates above {limit} are in bold: {wrong} of {cells} cells. The Monte Carlo error (one standard "
        f"deviation, in points) of a rate of {limit} is {errors}. Each entry is the largest of many, which adds to it, "
        f"so a rate above {close} was simulated again with {AGAIN[0]} times as many other studies, and if it was above "
        f"that still, with {AGAIN[1]} times as many; only the last ones count. Power is the rate of "
        '"supported" in worlds where the claim is true: the lowest (an effect near its limit, where there is such a '
        "world) and the median."
    )
