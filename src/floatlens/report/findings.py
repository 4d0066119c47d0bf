"""The top of the report: what was studied, the headline numbers with their intervals, and the verdicts on claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from floatlens.analysis import Estimate, Result
from floatlens.analysis.headline import headline as headline_rows
from floatlens.claims import Claim, floating_sentence
from floatlens.plots.description import Look
from floatlens.plots.plotly_renderer import look_data
from floatlens.report.answered import Answered

__all__ = ["answer", "claim_rows", "headline", "models"]


def models(
    results: Mapping[str, Result], answered: Sequence[Answered], style: Mapping[str, Look]
) -> list[dict[str, Any]]:
    """Every model of the report, in the order of `style`: name, colour, kind, how many traces and answers."""
    facts: dict[str, Mapping[str, Any]] = {}
    counts: dict[str, int] = {}
    for run in answered:
        facts |= run.models
    for result in results.values():
        facts |= {group.model: group.facts for group in result}
        for model in result.models:
            total = sum(group.traces for group in result if group.model == model)
            counts[model] = max(counts.get(model, 0), total)
    said = {ref: sum(int((run.own["model"] == ref).sum()) for run in answered) for ref in style}
    wanted = ("kind", "family", "layers", "heads")
    return [
        {"ref": ref, "label": look.label, **look_data(look)}
        | {"n": counts.get(ref, 0), "answers": said[ref]}
        | {key: facts[ref].get(key) for key in wanted}
        for ref, look in style.items()
    ]


def headline(results: Mapping[str, Result], models: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The headline numbers of the results, with an estimate for each model in the order of `models`."""
    return [
        {"title": row.label, "hint": row.hint, "section": row.section, "unit": ""}
        | {"values": {model: _numbers(one) for model, one in row.values.items()}}
        for row in headline_rows(results, models=models)
    ]


def answer(found: Sequence[Claim], style: Mapping[str, Look]) -> str:
    """Whether attention floats, in one sentence."""
    return floating_sentence(found, {model: look.label for model, look in style.items()})


def _numbers(one: Estimate) -> dict[str, float]:
    return {key: float(getattr(one, key)) for key in ("mean", "low", "high", "n")}


def claim_rows(
    found: Sequence[Claim], figures: Mapping[str, str], suffix: str = "", run: str | None = None
) -> list[dict[str, Any]]:
    """Every claim with its verdict, the number it hangs on, and the figure to look at (None where it is not shown).

    `figures` are those of the page under the names that claims use. `run` is named where several runs have the claim.
    """
    rows = []
    for one in found:
        part, figure = one.deciding, f"{one.figure}{suffix}"
        rows.append(
            {
                "id": one.id,
                "statement": one.statement,
                "subject": one.subject,
                "run": run,
                "verdict": one.verdict,
                "statistic": part.name if part else "",
                "mean": float(part.found.mean) if part else None,
                "low": float(part.found.low) if part else None,
                "high": float(part.found.high) if part else None,
                "n": int(part.found.n) if part else 0,
                "limit": part.limit if part else None,
                "above": part.above if part else True,
                "changes": one.changes,
                "parts": [str(each) for each in one.parts],
                "figure": figures.get(figure),
            }
        )
    return rows
