"""The top of the report: what was studied, the headline numbers with their intervals, and the verdicts on claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from floatlens.analysis import Estimate, Result
from floatlens.claims import Claim
from floatlens.plots.description import Look
from floatlens.plots.plotly_renderer import look_data
from floatlens.report.answered import Answered

__all__ = ["answer", "claim_rows", "headline", "models"]

_EVERY = "mean of all layers (claims: of those with an anchor)"
_SCALARS = (
    ("drift", "jaccard", "Overlap of anchors from step to step", f"1 is fixed, 0 is new at every step; {_EVERY}"),
    ("drift", "slope", "Speed of the strongest token", f"positions per step; above 0 is to the right; {_EVERY}"),
    ("drift", "distinct", "Tokens that are an anchor at some step", "1 where one token holds attention throughout"),
    ("drift", "entropy", "Spread of attention", "1 is spread evenly over all tokens"),
)
_SENTENCES = {
    "mdm-moves": {
        "supported": "Yes in {}: the anchors move from step to step.",
        "not supported": "No in {}: the anchors stay where they are.",
        "undecided": "Undecided in {}: these questions do not tell whether the anchors move.",
    },
    "arm-fixed": {
        "supported": "In {}, autoregressive, the anchor is fixed.",
        "not supported": "In {}, autoregressive, the anchor is not fixed either.",
        "undecided": "In {}, autoregressive, it is undecided whether the anchor is fixed.",
    },
}
_STRENGTH = "attention on "
"""How the names begin of what claims measure about strength: attention on a key ÷ what uniform attention gives it."""


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


def headline(results: Mapping[str, Result], found: Sequence[Claim]) -> list[dict[str, Any]]:
    """A row per number, with an estimate for each model that has one: those of the drift, and what claims measured."""
    rows: list[dict[str, Any]] = []
    parts = {c.subject: part for c in found for part in c.parts if part.name.startswith(_STRENGTH)}
    strength = _row(
        "Attention on the anchor ÷ uniform",
        "where this kind of model has its anchor; 1 = no more than uniform attention",
        {subject: part.found for subject, part in parts.items()},
        "absorption",
    )
    for subject, part in parts.items():
        strength["values"][subject]["of"] = part.name.removeprefix(_STRENGTH).partition(" ÷")[0]
    rows.append(strength)
    for name, variable, title, hint in _SCALARS:
        if name in results:
            values = {g.model: g.estimate(variable) for g in results[name] if variable in g.samples}
            rows.append(_row(title, hint, values, name))
    if "flow" in results:
        for place in dict.fromkeys((g.keys["gold"], g.keys["documents"]) for g in results["flow"] if g.keys["gold"]):
            held = {
                g.model: g.estimate("lift_over_uniform")
                for g in results["flow"]
                if (g.keys["gold"], g.keys["documents"]) == place
            }
            title = f"Gold document ÷ the others, at {place[0]} of {place[1]}"
            rows.append(_row(title, "over uniform attention; above 1 the answer comes from gold", held, "flow"))
    return [row for row in rows if row["values"]]


def answer(found: Sequence[Claim], style: Mapping[str, Look]) -> str:
    """Whether attention floats, in a sentence or two: the verdicts on moving and on fixed anchors, by model."""
    said = []
    for id, words in _SENTENCES.items():
        for verdict, sentence in words.items():
            labels = [style[one.subject].label for one in found if (one.id, one.verdict) == (id, verdict)]
            if labels:
                names = " and ".join(filter(None, [", ".join(labels[:-1]), labels[-1]]))
                said.append(sentence.format(names))
    return " ".join(said) or "These runs hold no traces that tell."


def _row(title: str, hint: str, values: Mapping[str, Estimate], section: str) -> dict[str, Any]:
    numbers = {
        model: {key: float(getattr(one, key)) for key in ("mean", "low", "high", "n")} for model, one in values.items()
    }
    return {"title": title, "hint": hint, "section": section, "values": numbers, "unit": ""}


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
