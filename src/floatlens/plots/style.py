"""The one style of all figures: Okabe and Ito's colours, a look per model, text that is never taken for mathematics.

Nothing global is changed: settings hold while a figure is made, drawn and saved (`Canvas`), and nowhere else.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from floatlens.analysis.rules import as_rule

if TYPE_CHECKING:
    from matplotlib.backend_bases import RendererBase

    from floatlens.analysis.result import Group, Result

__all__ = [
    "HEAT",
    "RC",
    "Canvas",
    "Look",
    "colours",
    "corner",
    "label_of",
    "looks",
    "looks_of",
    "note",
    "piece",
    "styled",
]

P = ParamSpec("P")
T = TypeVar("T")

HEAT = "viridis"
GOLD = "#D55E00"
GREY = "0.35"
SMALL = 7.0
_NAMED = {"llama": "#0072B2", "qwen": "#56B4E9", "llada": "#D55E00", "dream": "#E69F00"}
_REST = ("#009E73", "#CC79A7", "#000000", "#F0E442")
_MARKERS = "osD^v<"
_STROKES = ("-", (0, (5, 1.6)))  # masked diffusion, autoregressive

RC: Any = {
    "axes.formatter.use_mathtext": False,
    "axes.labelsize": 9,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "figure.constrained_layout.w_pad": 0.07,
    "figure.dpi": 150,
    "font.size": 9,
    "hatch.linewidth": 0.7,
    "image.cmap": HEAT,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "lines.linewidth": 1.6,
    "lines.markersize": 4,
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "floatlens",  # ids from what they name, so that the same figure is the same file
    "text.parse_math": False,
    "text.usetex": False,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
}


class Canvas(Figure):
    """A Figure that is drawn and saved with the settings it was made with; some are only read then."""

    def draw(self, renderer: RendererBase) -> None:
        with rc_context(RC):
            super().draw(renderer)

    def savefig(self, *args: Any, **kwargs: Any) -> None:
        with rc_context(RC):
            super().savefig(*args, **kwargs)


def styled(make: Callable[P, T]) -> Callable[P, T]:
    """Run a function that makes a figure under the style, and leave the settings as they were."""

    @wraps(make)
    def inside(*args: P.args, **kwargs: P.kwargs) -> T:
        with rc_context(RC):
            return make(*args, **kwargs)

    return inside


def canvas(width: float, height: float) -> Canvas:
    """An empty figure, in inches."""
    return Canvas(figsize=(width, height), layout="constrained")


# -- models -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Look:
    """How one model is drawn. Autoregressive models have dashed lines and open markers."""

    label: str
    colour: str
    marker: str
    arm: bool

    @property
    def line(self) -> dict[str, Any]:
        """Arguments for `Axes.plot`."""
        return {
            "color": self.colour,
            "linestyle": _STROKES[self.arm],
            "marker": self.marker,
            "markerfacecolor": "white" if self.arm else self.colour,
            "label": self.label,
        }


def label_of(model: str, among: Iterable[str] = ()) -> str:
    """A model's short name, the last part of a path; the whole one where that is not enough to tell two apart."""
    short = _last(model)
    return model if any(_last(other) == short for other in among if other != model) else short


def _last(model: str) -> str:
    return model.rstrip("/\\").replace("\\", "/").rpartition("/")[2] or model


def colours(models: Sequence[str]) -> dict[str, str]:
    """A colour for each: the scale models have their own, the others take what is left, in order."""
    taken: dict[str, str] = {}
    for model in sorted(models, key=lambda name: not name.startswith("scale:")):
        own = _NAMED.get(_last(model).removeprefix("scale:"))
        if own and own not in taken.values():
            taken[model] = own
    every = [*_REST, *_NAMED.values()]
    free = [colour for colour in every if colour not in taken.values()] or every
    others = [model for model in models if model not in taken]
    taken |= {model: free[i % len(free)] for i, model in enumerate(others)}
    return {model: taken[model] for model in models}


def looks(groups: Iterable[Group]) -> dict[str, Look]:
    """The look of every model that the groups are of, in their order."""
    return looks_of({group.model: group.facts.get("kind") == "arm" for group in groups})


def looks_of(arms: Mapping[str, bool]) -> dict[str, Look]:
    """The look of every model, given which of them are autoregressive."""
    colour = colours(list(arms))
    return {
        model: Look(label_of(model, arms), colour[model], _MARKERS[i % len(_MARKERS)], arm)
        for i, (model, arm) in enumerate(arms.items())
    }


# -- words ------------------------------------------------------------------------------------------------------------


def piece(text: str, longest: int = 14) -> str:
    """A token as it can be printed on one line: no space in front, white space by its signs, cut where it is long."""
    bare = text.replace("\u010a", "\n").lstrip("\u0120\u2581 ") or "␣"
    for sign, shown in (("\r", ""), ("\n", "↵"), ("\t", "⇥"), ("\u0120", "␣"), ("\u2581", "␣")):
        bare = bare.replace(sign, shown)
    bare = "".join(char if char.isprintable() else "�" for char in bare)
    return bare if len(bare) <= longest else bare[: longest - 1] + "…"


def note(*results: Result, interval: bool = True) -> str:
    """What the numbers of a figure rest on: anchor rule, whose attention, how many questions."""
    words: dict[str, None] = {}
    for result in results:
        if "rule" in result.settings:
            words[f"anchors: {as_rule(result.settings['rule'])}"] = None
        if result.settings.get("group", "all") != "all":
            words[f"{result.settings['group']} queries"] = None
    counts = sorted({group.n for result in results for group in result})
    count = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]}–{counts[-1]}" if counts else "0"
    by_gold = any("gold" in group.keys for result in results for group in result)
    words[f"n = {count} questions per model{' and gold place' if by_gold else ''}"] = None
    if interval:
        words["bands: 95 % interval of the mean" if counts and counts[-1] > 1 else "one question: no interval"] = None
    return " · ".join(words)


def corner(figure: Figure, text: str) -> None:
    """Small print in the lower right corner, in a strip of its own below everything else."""
    width, height = figure.get_size_inches()
    lines = textwrap.wrap(text, max(20, int(width * 72 / (SMALL * 0.55)))) or [""]
    strip = (len(lines) * SMALL * 1.25 + 6) / 72 / height
    figure.text(0.995, 3 / 72 / height, "\n".join(lines), ha="right", va="bottom", fontsize=SMALL, color=GREY)
    engine = figure.get_layout_engine()
    if isinstance(engine, ConstrainedLayoutEngine):
        engine.set(rect=(0, strip, 1, 1 - strip))
