"""`claims`: every verdict on a run, whichever command made it: those on its traces, its answers and its edits.

The one place where they are joined; the command line prints what comes from here. It writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from floatlens.analysis import ANALYSES, Result, analyse
from floatlens.analysis.sources import Traces, each_trace
from floatlens.claims.claim import CLAIMS, Claim, judged
from floatlens.traces import Trace

__all__ = ["claims", "with_rule"]


def claims(
    run: Traces | Mapping[str, Result],
    *,
    rule: str | None = None,
    skipped: dict[str, str] | None = None,
    each: Callable[[Trace], object] = lambda trace: None,
) -> list[Claim]:
    """Every claim that a run speaks of. It may be a run folder of any command, several, traces, or results.

    `rule` replaces the anchor rule of every analysis that has one. Traces that do not allow an analysis (a probe was
    off) are refused, unless `skipped` is given: the claims that need it are then not judged, and `skipped` gets the
    reason. `each` is told of every trace once it has been looked at.

    Example: `[c.verdict for c in claims("runs/a") if c.id == "mdm-moves"]`
    """
    if isinstance(run, Mapping):
        return list(judged(run))
    from floatlens.runs.answers import answer_claims_of

    asked: list[Path] = []
    traces = _if_any(_walk(run, asked, each))
    found: list[Claim] = []
    if traces is not None or not asked:
        needed = dict.fromkeys(name for one in CLAIMS.values() for name in one.needs)
        found += judged(analyse(traces or (), with_rule(needed, rule), skipped=skipped))
    return found + [one for folder in asked for one in answer_claims_of(folder)]


def with_rule(names: Iterable[str], rule: str | None) -> dict[str, dict[str, Any]]:
    """Settings of these analyses: the rule for those that have one, else what they have by themselves."""
    return {n: {"rule": rule} if rule is not None and "rule" in ANALYSES[n].settings() else {} for n in names}


def _walk(run: Traces, asked: list[Path], each: Callable[[Trace], object]) -> Iterator[Trace]:
    """Every trace in turn; folders of runs that asked for answers go to `asked`, and need not hold any trace."""
    from floatlens.runs.answers import has_answers, traced_runs

    for one in [run] if isinstance(run, Trace | str | Path) else run:
        folders = [] if isinstance(one, Trace) else [Path(one)]
        asked += filter(has_answers, folders)
        for trace in each_trace(traced_runs(folders) if folders else one):
            yield trace
            each(trace)


def _if_any(walk: Iterator[Trace]) -> Iterator[Trace] | None:
    """The same walk; None where it has not a single step."""
    for first in walk:
        return chain([first], walk)
    return None
