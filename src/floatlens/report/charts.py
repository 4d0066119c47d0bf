"""The interactive figures: results in, panels out, with the numbers that the tables hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from floatlens.analysis.result import Group, Result
from floatlens.plots.parts import by_layer, over_heads
from floatlens.plots.style import Look
from floatlens.report.panels import Panel, Styles, bars, common, drawn_as, heat, lines, points, series

__all__ = ["CHARTS", "Chart"]

_CLASSES = {
    "special": "#0072B2",
    "punctuation": "#56B4E9",
    "function": "#009E73",
    "content": "#D55E00",
    "number": "#E69F00",
    "mask": "#B8B8B8",
}


_SIDES = {"structural": "structure", "lexical": "content"}
_STANDS = {"anchors": "what its anchors are", "mass": "where its attention goes"}


@dataclass(frozen=True)
class Chart:
    """A figure of the report: its name (claims link to it), a title, what makes its panels, and how wide they are."""

    name: str
    title: str
    panels: Callable[[Result, Styles], list[Panel]]
    width: int = 330


def _drift(result: Result, style: Styles) -> list[Panel]:
    made = []
    for variable, title, y, more in (
        ("jaccard_by_layer", "Overlap from step to step", "Jaccard of anchor sets (1 = fixed)", {"range": [0, 1.03]}),
        ("slope_by_layer", "Speed of the strongest key", "positions per step", {"reference": 0.0}),
        ("lifetime_share_by_layer", "Lifetime of an anchor", "consecutive steps, as a share of all", {"zero": True}),
        ("entropy_by_layer", "Spread of attention", "normalised entropy (1 = even)", {}),
    ):
        panel: dict[str, Any] = dict(more)
        made.append(lines(title, y, result.groups, style, partial(by_layer, variable=variable), **panel))
    return made


def _absorption(result: Result, style: Styles) -> list[Panel]:
    made = []
    for view, title in (("fixed", "Fixed sink: first position"), ("floating", "Floating: anchors of each step")):
        panel = lines(
            title,
            "attention absorbed (%)",
            result.groups,
            style,
            partial(by_layer, variable="absorbed", view=view),
        )
        for group in result:
            layers, null = by_layer(group, "uniform", view=view)
            panel["series"].append(series(style[group.model], layers, null, null=True))
        made.append(panel)
    return common(made)


def _qk(result: Result, style: Styles) -> list[Panel]:
    made = [
        lines(title, "advantage in q·k", result.groups, style, partial(over_heads, variable=part), reference=0.0)
        for part, title in (("norm_part", "By the norm of the key"), ("angle_part", "By its direction"))
    ]
    return common(made)


def _classes(result: Result, style: Styles) -> list[Panel]:
    made = []
    for group in result:
        label = style[group.model].label
        for variable, y in (("anchors", "share of anchors"), ("mass", "share of attention")):
            shares, tokens = group.estimate(variable).mean, group.estimate("tokens").mean
            at = [*group.coordinate(variable, "layer"), "tokens"]
            stacks = {
                name: (_CLASSES[name], [*shares[i], tokens[i]])
                for i, name in enumerate(group.coordinate(variable, "class"))
            }
            made.append(bars(f"{label}: {_STANDS[variable]}", y, at, stacks))
        made.append(_enrichment(group, f"{label}: what is preferred"))
    return made


def _enrichment(group: Group, title: str) -> Panel:
    drawn = []
    for side, colour, marker in (("structural", "#0072B2", "o"), ("lexical", "#D55E00", "s")):
        for suffix, of, arm in (("", "attention", False), ("_anchors", "anchors", True)):
            drawn.append(
                series(Look(f"{_SIDES[side]}, {of}", colour, marker, arm), *by_layer(group, f"{side}{suffix}"))
            )
    panel = {"kind": "lines", "title": title, "x": "layer", "y": "share ÷ share of tokens", "series": drawn}
    return panel | {"reference": 1.0, "zero": True}


def _retrieval(result: Result, style: Styles) -> list[Panel]:
    means = {group.model: group.estimate("copy").mean for group in result}
    top = max((_top(mean) for mean in means.values()), default=0.0) or 1.0
    made = [
        heat(
            style[group.model].label,
            group.coordinate("copy", "layer"),
            group.coordinate("copy", "head"),
            means[group.model],
            top,
            x="head",
            y="layer",
            z="copy score",
        )
        for group in result
    ]
    depth = partial(over_heads, variable="copy")
    return [*made, lines("By depth", "copy score, mean over heads", result.groups, style, depth, zero=True)]


def _rollout(result: Result, style: Styles) -> list[Panel]:
    groups = sorted(result, key=lambda g: (result.models.index(g.model), g.keys["documents"], g.keys["gold"] or 0))
    made = []
    for group in groups:
        names = group.coordinate("rollout", "region")
        mean = group.estimate("rollout").mean
        documents = [i for i, name in enumerate(names) if name.startswith("doc")] or list(range(len(names)))
        gold, count = group.keys["gold"], group.keys["documents"]
        title = f"{style[group.model].label}, gold at {gold} of {count}" if gold else f"{style[group.model].label}"
        frame = names.index(f"doc{gold}") if f"doc{gold}" in names else None
        more = {"x": "to region", "y": "from region", "z": "rollout", "frame": frame, "down": True}
        made.append(heat(title, names, names, mean, _top(mean[:, documents]), **more))
    top = max((panel["top"] for panel in made), default=0.0) or 1.0  # documents are compared; template text outshines
    return [panel | {"top": top} for panel in made]


def _lift(result: Result, style: Styles) -> list[Panel]:
    drawn = []
    for model, documents in dict.fromkeys((g.model, g.keys["documents"]) for g in result if g.keys["gold"]):
        groups = [g for g in result if (g.model, g.keys["documents"]) == (model, documents) and g.keys["gold"]]
        groups.sort(key=lambda g: int(g.keys["gold"]))
        found = [group.estimate("lift_over_uniform") for group in groups]
        parts = {k: [float(getattr(one, k)) for one in found] for k in ("mean", "low", "high", "n")}
        look = style[model]
        places = [int(group.keys["gold"]) for group in groups]
        drawn.append({**drawn_as(look), "x": places, **parts})
    y = "gold ÷ the others, over uniform"
    return [points("", "place of the gold document", y, drawn, reference=1.0, **_ratios(drawn))] if drawn else []


def _ratios(drawn: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A logarithmic axis, as in print, on which twice and half are equally far from 1; none where a ratio is 0."""
    ends = [value for one in drawn for key in ("mean", "low", "high") for value in one[key] if np.isfinite(value)]
    if not ends or min(ends) <= 0:
        return {"zero": True}
    return {"ratio": True, "range": [min(min(ends) / 1.15, 0.8), max(max(ends) * 1.15, 1.25)]}


def _extremes(result: Result, style: Styles) -> list[Panel]:
    return [
        lines(title, y, result.groups, style, partial(by_layer, variable=variable), zero=True, reference=reference)
        for variable, title, y, reference in (
            ("value_ratio", "Value norm", "|v| of anchors ÷ median", 1.0),
            ("residual_ratio", "Residual norm", "|x| of anchors ÷ median", 1.0),
            ("dormant", "Dormant heads", "share of heads", None),
        )
    ]


def _top(values: Any) -> float:
    return float(np.max(values, where=np.isfinite(values), initial=0.0))


CHARTS: dict[str, tuple[Chart, ...]] = {
    "drift": (Chart("drift", "Drift by layer", _drift, 420),),
    "absorption": (Chart("absorption", "Absorption by layer", _absorption, 420),),
    "qk": (Chart("qk", "Advantage of anchors in q·k, by layer", _qk, 420),),
    "token_classes": (Chart("token_classes", "What anchors and attention stand on, by layer", _classes, 300),),
    "retrieval_heads": (Chart("retrieval", "Copy score by layer and head", _retrieval, 300),),
    "flow": (
        Chart("rollout", "Rollout between regions", _rollout, 340),
        Chart("gold_lift", "How much the gold document is preferred", _lift, 480),
    ),
    "extremes": (Chart("extremes", "Norms of anchors and dormant heads, by layer", _extremes),),
}
"""By analysis. An analysis without a chart has its table alone."""
