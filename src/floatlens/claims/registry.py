"""`CLAIMS`: the claims of the paper by id, and `claims`, the verdicts on results, traces, answers or run folders."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd

from floatlens.analysis import Result, analyse
from floatlens.analysis.description import in_words_of
from floatlens.analysis.measure import Measure
from floatlens.analysis.registry import with_settings
from floatlens.analysis.sources import Traces, each_trace, has_traces
from floatlens.claims.claim import ANSWERS, Claim, ClaimRule, with_holm
from floatlens.core.registry import Registry
from floatlens.models.course import earlier
from floatlens.records.store import is_run, open_answers, read_manifest
from floatlens.traces import Trace

__all__ = ["CLAIMS", "answer_claims", "claims"]

CLAIMS: Registry[ClaimRule] = Registry(
    "claim",
    "floatlens.claims",
    {
        "arm-fixed": "floatlens.claims.movement:arm_fixed",
        "mdm-moves (answer rows)": "floatlens.claims.movement:mdm_moves",
        "mdm-moves (all rows)": "floatlens.claims.movement:mdm_moves_all",
        "mdm-right": "floatlens.claims.movement:mdm_right",
        "mdm-frontier": "floatlens.claims.movement:mdm_frontier",
        "layers-differ": "floatlens.claims.movement:layers_differ",
        "shallow-spread": "floatlens.claims.movement:shallow_spread",
        "mdm-dispersed": "floatlens.claims.movement:mdm_dispersed",
        "mdm-absorbs-less (absorbed)": "floatlens.claims.movement:absorbs_less",
        "mdm-absorbs-less (excess)": "floatlens.claims.movement:absorbs_less_excess",
        "qk-split": "floatlens.claims.mechanism:qk_split",
        "arm-angular": "floatlens.claims.mechanism:arm_angular",
        "structure-then-content": "floatlens.claims.mechanism:structure_then_content",
        "anchors-by-task": "floatlens.claims.mechanism:anchors_by_task",
        "retrieval-deep": "floatlens.claims.mechanism:retrieval_deep",
        "flow-follows-gold (attention)": "floatlens.claims.flow:flow_follows_gold",
        "flow-follows-gold (rollout)": "floatlens.claims.flow:flow_follows_gold_rollout",
        "mdm-flow (attention)": "floatlens.claims.flow:mdm_flow",
        "mdm-flow (rollout)": "floatlens.claims.flow:mdm_flow_rollout",
        "rag-gain": "floatlens.claims.retrieval_gain:rag_gain",
        "rag-gain (headroom)": "floatlens.claims.retrieval_gain:rag_headroom",
        "rag-accuracy": "floatlens.claims.retrieval_gain:rag_accuracy",
        "robust-noise": "floatlens.claims.robustness:robust_noise",
        "robust-position": "floatlens.claims.robustness:robust_position",
        "robust-layout": "floatlens.claims.robustness:robust_layout",
        "arm-without-anchors": "floatlens.claims.anchor_edits:arm_without_anchors",
        "mdm-without-anchors": "floatlens.claims.anchor_edits:mdm_without_anchors",
        "anchors-held": "floatlens.claims.anchor_edits:anchors_held",
    },
)
"""Claims by id, in the order of tables and report."""


def claims(
    run: Traces | Mapping[str, Result],
    *,
    answers: pd.DataFrame | None = None,
    rule: str | None = None,
    measure: Measure | None = None,
    skipped: dict[str, str] | None = None,
    each: Callable[[Trace], object] = lambda trace: None,
) -> list[Claim]:
    """Every claim that can be tested on a run folder, several of them, traces, or results (with `answers`).

    `rule` replaces the anchor rule of each analysis that has one, `measure` says what these count. Traces that do not
    allow an analysis (a probe was off) are refused, unless `skipped` is given: the claims that need it are then left
    out, and `skipped` gets the reason. Where the study of a run chose analyses, only these are made; claims that need
    others are left out, and `skipped` gets their ids. `each` is called after each trace.

    Example: `[c.verdict for c in claims("runs/a") if c.id == "mdm-right"]`
    """
    if isinstance(run, Mapping):
        return with_holm(_judged(run) + ([] if answers is None else answer_claims(answers)))
    answered: list[Path] = []
    traces = _if_any(_walk(run, answered, each))
    found: list[Claim] = []
    if traces is not None or not answered:
        needed = _needed(run, {} if skipped is None else skipped)
        found += _judged(analyse(traces or (), with_settings(needed, rule, measure), skipped=skipped))
    return with_holm(found + [one for folder in answered for one in answer_claims(open_answers(folder)[0])])


def answer_claims(answers: pd.DataFrame) -> list[Claim]:
    """Every claim that can be tested on an answers frame.
    Example: `answer_claims(open_answers(Path("runs/qa"))[0])[0].verdict`"""
    return [] if answers.empty else with_holm(_judged({ANSWERS: answers}))


def _judged(given: Mapping[str, Any]) -> list[Claim]:
    """Every claim whose needs are among what is given. Snapshots of one training course are not models of their own:
    the last one stands for the model."""
    last = {name: one.last_steps() if isinstance(one, Result) else _last_steps(one) for name, one in given.items()}
    return [
        _named(found, [last[name] for name in one.needs])
        for one in CLAIMS.values()
        if all(name in last for name in one.needs)
        for found in one(*(last[name] for name in one.needs))
    ]


def _named(found: Claim, given: Sequence[Any]) -> Claim:
    """A verdict on results by another measure than attention says so."""
    measures = {one.settings.get("measure", "attention") for one in given if isinstance(one, Result)}
    other = next((one for one in measures if one != "attention"), None)
    return found if other is None else replace(found, statement=in_words_of(found.statement, other))


def _last_steps(answers: pd.DataFrame) -> pd.DataFrame:
    """Answers without those of snapshots before the last of their course."""
    steps = answers.dropna(subset="course").drop_duplicates("model")
    found = zip(steps["model"], steps["course"], steps["training_step"], strict=True)
    passed = earlier({model: {"name": name, "step": int(step)} for model, name, step in found})
    return answers[~answers["model"].isin(passed)] if passed else answers


def _needed(run: Traces, skipped: dict[str, str]) -> list[str]:
    """The analyses that claims need, without those that the studies of all given runs left out."""
    needs = {one.id: [name for name in one.needs if name != ANSWERS] for one in CLAIMS.values()}
    needed = list(dict.fromkeys(name for names in needs.values() for name in names))
    given = [run] if isinstance(run, str | Path) else run
    if not isinstance(given, Sequence) or not all(isinstance(one, str | Path) and is_run(Path(one)) for one in given):
        return needed
    chosen = [read_manifest(Path(one)).get("study", {}).get("analyses") for one in given]  # None: all
    left = [name for name in needed if all(names is not None and name not in names for names in chosen)]
    reason = f"the study left out analyses they need ({', '.join(left)}); add them to its analyses and run it again"
    skipped |= {id: reason for id, names in needs.items() if set(names) & set(left)}
    return [name for name in needed if name not in left]


def _walk(run: Traces, answered: list[Path], each: Callable[[Trace], object]) -> Iterator[Trace]:
    """Every trace in turn; run folders with answers go to `answered` and need not hold a trace."""
    given: Iterable[Any] = [run] if isinstance(run, Trace | str | Path) else run
    for one in given:
        if not isinstance(one, Trace) and is_run(Path(one)):
            answered.append(Path(one))
            if not has_traces(Path(one)):
                continue
        for trace in each_trace(one):
            yield trace
            each(trace)


def _if_any(walk: Iterator[Trace]) -> Iterator[Trace] | None:
    """The same iterator; None if it is empty."""
    for first in walk:
        return chain([first], walk)
    return None
