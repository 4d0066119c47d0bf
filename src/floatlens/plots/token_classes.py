"""Token classes: what anchors and received attention fall on, layer by layer, beside what the text consists of."""

from __future__ import annotations

from floatlens.analysis import Group, Result
from floatlens.plots.description import Axis, Bars, Figure, Look, Panel, series
from floatlens.plots.drawing import plot
from floatlens.plots.registry import FigureType
from floatlens.plots.style import by_layer, looks, note

__all__ = ["plot_token_classes"]

_COLOURS = {
    "special": "#0072B2",
    "punctuation": "#56B4E9",
    "function": "#009E73",
    "content": "#D55E00",
    "number": "#E69F00",
    "mask": "#B8B8B8",
}
_SIDES = {"structural": ("#0072B2", "o"), "lexical": ("#D55E00", "s")}
_ROWS = {"anchors": "share of anchors", "mass": "share of attention"}


@plot("token_classes")
def plot_token_classes(result: Result) -> Figure:
    """Classes of anchors and of attended tokens, from `token_classes(…)` or what it takes.

    Panels of one model: anchors, mass, enrichment; of several each after the model's name.

    Example: `fl.plot_token_classes(trace, panel="enrichment")`
    """
    style, panels = looks(result), []
    for group in result:
        label = style[group.model].label
        prefix = f"{label} " if len(result.groups) > 1 else ""
        panels += [_shares(group, variable, label, prefix) for variable in _ROWS]
        panels.append(_enrichment(group, label, prefix))
    count = max(1, len(result.groups))
    layout = tuple(tuple(3 * column + row for column in range(count)) for row in range(3))
    return Figure(
        "Classes of anchors and of attended tokens, by layer",
        tuple(panels),
        f"{note(result)} · text: the classes of all tokens",
        layout if panels else (),
        (max(6.9, 2.5 * count + 1.2), 7.4),
        share_y="row",
        share_x=True,
        page_width=300,
    )


def _layers(group: Group, variable: str) -> tuple[tuple[float, ...], float, Axis]:
    """The layers, and after a gap the place of the text itself, which is as wide as it takes to be seen; the axis."""
    layers = tuple(float(layer) for layer in group.coordinate(variable, "layer"))
    wide = max(1.0, len(layers) / 14)
    text = max(layers) + 0.5 + 1.5 * wide
    ticks = (*((at, f"{at:g}") for at in layers[:: -(-len(layers) // 8)]), (text, "text"))
    return (*layers, text), 0.9 * wide, Axis("layer", ticks)


def _shares(group: Group, variable: str, label: str, prefix: str) -> Panel:
    """Bars that sum to 1, one per layer, and one for the tokens of the text."""
    x, wide, axis = _layers(group, variable)
    shares, tokens = group.estimate(variable).mean, group.estimate("tokens").mean
    stacks = tuple(
        (name, _COLOURS[name], (*map(float, shares[i]), float(tokens[i])))
        for i, name in enumerate(group.coordinate(variable, "class"))
    )
    bars = Bars(x, (*[0.9] * (len(x) - 1), wide), stacks)
    y = Axis(_ROWS[variable], range=(0.0, 1.0), percent=True)
    return Panel(prefix + variable, label, axis, y, bars=bars)


def _enrichment(group: Group, label: str, prefix: str) -> Panel:
    """Structural and lexical classes taken together; anchors hollow and dashed, attention filled."""
    lines = []
    for side, (colour, marker) in _SIDES.items():
        for suffix, of in (("", "attention"), ("_anchors", "anchors")):
            look = Look(f"{side}, {of}", colour, marker, "dashed" if suffix else "solid", bool(suffix))
            lines.append(series(look, *by_layer(group, f"{side}{suffix}")))
    y = Axis("enrichment\n(share ÷ share of text)", range=(0, None))
    return Panel(f"{prefix}enrichment", label, _layers(group, "mass")[2], y, tuple(lines), reference=1.0)


TOKEN_CLASSES = FigureType(("token_classes",), lambda data: plot_token_classes.describe(data["token_classes"]))
