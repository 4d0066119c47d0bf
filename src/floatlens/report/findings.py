"""The top of the report: the answer, what was studied, the headline numbers, and the verdicts on claims."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from floatlens.analysis.headline import POINTS, headline
from floatlens.claims import Claim, with_holm
from floatlens.plots.description import Look
from floatlens.plots.plotly_renderer import look_data
from floatlens.report.inputs import Inputs
from floatlens.report.subjects import names_of

__all__ = ["claim_rows", "headline_rows", "models"]

Section = Mapping[str, Any]
_PARTS = ("mean", "low", "high", "n")


def models(inputs: Inputs, style: Mapping[str, Look]) -> list[dict[str, Any]]:
    """Every model of the report, in the order of `style`: name, colour, kind, how many traces and answers."""
    names = names_of(inputs.traces)
    facts: dict[str, Mapping[str, Any]] = {names[one.subject]: one.model for one in inputs.traces}
    counts: dict[str, int] = {}
    for run in inputs.answers:
        facts |= run.models
    for result in inputs.results.values():
        facts |= {group.model: group.facts for group in result}
        for model in result.models:
            total = sum(group.traces for group in result if group.model == model)
            counts[model] = max(counts.get(model, 0), total)
    said = {ref: sum(int((run.frame["model"] == ref).sum()) for run in inputs.answers) for ref in style}
    wanted = ("kind", "family", "layers", "heads")
    return [
        {"ref": ref, "label": look.label, **look_data(look)}
        | {"n": counts.get(ref, 0), "answers": said[ref], "patched": sum(run.patched(ref) for run in inputs.answers)}
        | {key: facts[ref].get(key) for key in wanted}
        for ref, look in style.items()
    ]


def headline_rows(inputs: Inputs, sections: Sequence[Section], order: Sequence[str]) -> list[dict[str, Any]]:
    """The headline numbers of the results, then those of the answers, run by run; each leads to its section."""
    found = [(row, row.section, None) for row in headline(inputs.results, models=order)]
    for section in sections:
        run = section.get("of")
        for row in headline({}, run.frame, order, run.patching) if run is not None else ():
            if row.section == section["kind"]:
                found.append((row, section["id"], section["run"]))
    return [
        {"title": row.label, "hint": row.hint, "section": section, "run": run, "signed": row.unit == POINTS}
        | {"values": {model: _numbers(one) for model, one in row.values.items()}}
        for row, section, run in found
    ]


def _numbers(one: Any) -> dict[str, float]:
    return {key: float(getattr(one, key)) for key in _PARTS}


def claim_rows(inputs: Inputs, sections: Sequence[Section]) -> list[dict[str, Any]]:
    """Every claim with its verdict, its deciding number, and the figure that shows it (None where it is not shown)."""
    shown = [figure for section in sections for figure in section["figures"]]
    figures = {one["type"]: one["id"] for one in reversed(shown)} | {one["id"]: one["id"] for one in shown}
    corrected = iter(with_holm([*inputs.claims, *(one for run in inputs.answers for one in run.claims)]))
    rows = [_row(one, figures.get(one.figure)) for one in islice(corrected, len(inputs.claims))]
    for run in inputs.answers:
        own = [section for section in sections if section.get("of") is run]
        name = next((section["run"] for section in own if section["run"]), None)
        for one in islice(corrected, len(run.claims)):
            names = [f"{one.figure}{suffix}" for suffix in dict.fromkeys(section["suffix"] for section in own)]
            rows.append(_row(one, next((figures[name] for name in names if name in figures), None), name))
    return rows


def _row(one: Claim, figure: str | None, run: str | None = None) -> dict[str, Any]:
    part = one.deciding
    numbers = _numbers(part.found) if part else dict.fromkeys(_PARTS) | {"n": 0}
    return numbers | {
        "id": one.id,
        "statement": one.statement,
        "subject": one.subject,
        "model": one.model,
        "run": run,
        "verdict": one.verdict,
        "statistic": part.name if part else "",
        "limit": part.limit if part else None,
        "above": part.above if part else True,
        "opposite": part.opposite if part and part.opposite is not None and math.isfinite(part.opposite) else None,
        "models": one.rests_on,
        "survives": one.survives,
        "note": one.note,
        "changes": one.changes,
        "parts": [str(each) for each in one.parts],
        "figure": figure,
    }
