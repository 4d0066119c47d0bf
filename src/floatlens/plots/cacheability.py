"""Cacheability: what changes from step to step, by layer, one line per model."""

from __future__ import annotations

from typing import Any

from floatlens.analysis import Result
from floatlens.plots.description import Axis, Figure, Panel, grid
from floatlens.plots.drawing import plot
from floatlens.plots.registry import FigureType
from floatlens.plots.style import depth_series, note

__all__ = ["plot_cacheability"]

_COSINE = Axis("cosine with the step before")
_PANELS: tuple[tuple[str, str, Axis, str, dict[str, Any]], ...] = (
    ("prompt", "Keys of the prompt", _COSINE, "key", {"held": "prompt"}),
    ("committed", "Keys of committed tokens", _COSINE, "key", {"held": "committed"}),
    ("masked", "Keys of masked positions", _COSINE, "key", {"held": "masked"}),
    ("top", "Column of the most attended key", _COSINE, "top", {}),
    ("recall", "Recall of the first step", Axis("share of the top keys", percent=True, range=(0, 1.02)), "recall", {}),
    ("keys_95", "Keys for 95 % of a row", Axis("keys", range=(0, None)), "keys_95", {}),
)


@plot("cacheability")
def plot_cacheability(result: Result) -> Figure:
    """What a cache could keep, by layer, from `cacheability(…)` or what it takes. Panels: prompt, committed, masked,
    top, recall, keys_95.

    Example: `fl.plot_cacheability(fl.trace(model, question="Who?", gen_length=4, probes=["received", "cacheability"]))`
    """
    panels = tuple(
        Panel(name, title, Axis("layer", whole=True), y, depth_series(result, variable, **at))
        for name, title, y, variable, at in _PANELS
    )
    k = result.settings.get("k", 16)
    words = f"{note(result)} · recall of the {k} keys most attended by masked rows"
    return Figure("Cacheability, by layer", panels, words, grid(6, 3), (9.6, 6.0), page_width=330)


CACHEABILITY = FigureType(("cacheability",), lambda data: plot_cacheability.describe(data["cacheability"]))
