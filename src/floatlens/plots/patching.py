"""The figure of activation patching: how far the answer follows the states that are put at anchors, by layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from floatlens.analysis.intervals import estimate
from floatlens.plots.description import Axis, Figure, Panel, series
from floatlens.plots.drawing import plot
from floatlens.plots.style import looks_of

if TYPE_CHECKING:
    from floatlens.evaluation.patching import Patching

__all__ = ["plot_patching"]

_WHAT = {"kv": "Keys and values patched", "residual": "Residual states patched"}
_EFFECT = Axis("effect (0 = original, 1 = counterfactual answer)")


@plot()
def plot_patching(found: Patching | Sequence[Patching]) -> Figure:
    """Effect of patching by layer, from `fl.patching(…)` of one model or several. Panels: kv, residual.

    Solid lines are the strongest keys, dotted ones with crosses random others that receive as much.

    Example: `fl.plot_patching(fl.patching(model, "Ann has a cat .", "Ann has a dog .", gen_length=4))`
    """
    given = list(found) if isinstance(found, Sequence) else [found]
    style = looks_of({one.model: str(one.data.attrs["kind"]) for one in given})
    panels = []
    for what, title in _WHAT.items():
        lines = [
            series(style[one.model], one.data["layer"].values, estimate(values), kind="joined", role=role)
            for one in given
            if one.data.attrs["what"] == what
            for values, role in zip(
                one.data["effect"].transpose("patched", "sample", "layer").values, ("", "mass"), strict=True
            )
        ]
        if lines:
            panels.append(Panel(what, title, Axis("layer", whole=True), _EFFECT, tuple(lines), reference=0.0))
    counts = sorted({one.data.sizes["sample"] for one in given})
    n = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    small = f"n = {n} pairs of prompts · bars: 95 % intervals over pairs"
    return Figure("Activation patching of anchors", tuple(panels), small, share_y="all")
