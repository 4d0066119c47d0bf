"""Figure descriptions drawn by matplotlib. Settings hold while a figure is made, drawn and saved, and nowhere else."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from io import BytesIO
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure as BaseFigure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.plots.description import Entry, Figure, Panel, legend_entries, without_controls
from floatlens.plots.matplotlib_axes import GREY, SMALL, handle, paint, set_up

if TYPE_CHECKING:
    from matplotlib.backend_bases import RendererBase

__all__ = ["RC", "Canvas", "render"]

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
    "image.cmap": "viridis",
    "legend.fontsize": 8,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "lines.linewidth": 1.6,
    "lines.markersize": 4,
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "floatlens",  # ids from what they name: the same figure is the same file
    "text.parse_math": False,
    "text.usetex": False,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
}


class Canvas(BaseFigure):
    """A matplotlib Figure that is drawn and saved with the settings it was made with, and that notebooks show."""

    def draw(self, renderer: RendererBase) -> None:
        with rc_context(RC):
            super().draw(renderer)

    def savefig(self, *args: Any, **kwargs: Any) -> None:
        with rc_context(RC):
            super().savefig(*args, **kwargs)

    def _repr_png_(self) -> bytes:
        held = BytesIO()
        self.savefig(held, format="png")
        return held.getvalue()


def render(
    figure: Figure,
    ax: Axes | Sequence[Axes] | None = None,
    figsize: tuple[float, float] | None = None,
    panel: str | None = None,
) -> BaseFigure:
    """Draw a description as a new figure, or into given axes: one for each panel, or one for the named `panel`."""
    figure = without_controls(figure if panel is None else _only(figure, panel))
    with rc_context(RC):
        return _fresh(figure, figsize) if ax is None else _into(figure, ax)


def _only(figure: Figure, name: str) -> Figure:
    names = [one.name for one in figure.panels]
    if name not in names:
        raise FloatlensError(f'no panel "{name}"{did_you_mean(name, names)}; there are {", ".join(names)}')
    return replace(
        figure, panels=(figure.panels[names.index(name)],), layout=(), widths=None, heights=None, size=(4.6, 3.4)
    )


def _into(figure: Figure, ax: Axes | Sequence[Axes]) -> BaseFigure:
    given = [ax] if isinstance(ax, Axes) else list(np.ravel(np.asarray(ax, dtype=object)))
    panels = figure.panels
    if len(given) == 1 and any(one.heat for one in panels):
        panels = tuple(one for one in panels if not one.strip)  # a strip is only drawn below its heatmap
    if len(given) != len(panels):
        names = ", ".join(one.name for one in panels)
        raise FloatlensError(f"{len(given)} axes for {len(panels)} panels; give as many, or panel= one of: {names}")
    for axes, one in zip(given, panels, strict=True):
        _finish(axes, one, 0.0 if one.empty else paint(axes, one))
        if one.heat is not None:
            axes.figure.colorbar(axes.images[0], ax=axes, label=one.heat.label)
    handles = [handle(entry) for entry in legend_entries(figure)]
    if handles:
        given[0].legend(handles, [str(one.get_label()) for one in handles])
    found = given[0].get_figure(root=True)
    assert found is not None
    return found


def _fresh(figure: Figure, figsize: tuple[float, float] | None) -> Canvas:
    made = Canvas(figsize=figsize or figure.size, layout="constrained")
    rows = figure.rows
    cells = made.add_gridspec(len(rows), len(rows[0]), width_ratios=figure.widths, height_ratios=figure.heights)
    axes: list[Axes] = []
    trimmed: list[tuple[Panel, float]] = []
    for place, panel in enumerate(figure.panels):
        at = [(r, c) for r, row in enumerate(rows) for c, one in enumerate(row) if one == place]
        (top, left), (bottom, right) = at[0], at[-1]
        axes.append(made.add_subplot(cells[top : bottom + 1, left : right + 1], **_shared(figure, axes, top, left)))
        above = 0.0 if panel.empty else paint(axes[-1], panel)
        trimmed.append((_trimmed(figure, panel, top, left), above))
        if figure.share_y and left:
            axes[-1].tick_params(labelleft=False)
        if figure.share_x and top + 1 < len(rows):
            axes[-1].tick_params(bottom=False, labelbottom=False)
    for own, (panel, above) in zip(axes, trimmed, strict=True):  # shared scales need everything drawn
        _finish(own, panel, above)
    _colour_bars(made, figure, axes)
    _legend(made, legend_entries(figure))
    if figure.note:
        _small_print(made, figure.note)
    return made


def _shared(figure: Figure, axes: Sequence[Axes], top: int, left: int) -> dict[str, Axes]:
    """With which earlier axes new ones share a scale."""
    found = {}
    if figure.share_y and axes:
        first = 0 if figure.share_y == "all" else figure.rows[top][0]
        if first is not None and first < len(axes):
            found["sharey"] = axes[first]
    above = figure.rows[0][left]
    if figure.share_x and top and above is not None and above < len(axes):
        found["sharex"] = axes[above]
    return found


def _trimmed(figure: Figure, panel: Panel, top: int, left: int) -> Panel:
    """A panel without what its neighbours say: labels of shared axes, the title of the column above."""
    rows = figure.rows
    if figure.share_y and left:
        panel = replace(panel, y=replace(panel.y, label=""))
    if figure.share_x and top + 1 < len(rows):
        panel = replace(panel, x=replace(panel.x, label=""))
    above = rows[top - 1][left] if top else None
    if figure.share_x and above is not None and figure.panels[above].title == panel.title:
        panel = replace(panel, title="")
    return panel


def _finish(axes: Axes, panel: Panel, above: float) -> None:
    if panel.empty:
        axes.text(0.5, 0.5, panel.empty, ha="center", transform=axes.transAxes, color=GREY)
        axes.set_axis_off()
    else:
        set_up(axes, panel, above)


def _colour_bars(made: Canvas, figure: Figure, axes: Sequence[Axes]) -> None:
    """One bar for panels that share a scale; one each for those that do not. Strips below a heatmap keep its width."""
    heats = [(panel.heat, one) for panel, one in zip(figure.panels, axes, strict=True) if panel.heat is not None]
    strips = [one for panel, one in zip(figure.panels, axes, strict=True) if panel.strip]
    for top, held in groupby(heats, key=lambda pair: pair[0].top if pair[0].top is not None else id(pair[0])):
        some = list(held)
        heat, own = some[0][0], [one for _, one in some] + strips
        shared = heat.top is not None
        over = shared and any(np.nanmax(h.values, initial=0.0) > top * (1 + 1e-9) for h, _ in some)
        where: Any = own if len(own) > 1 else own[0]
        bar = made.colorbar(
            some[-1][1].images[0], ax=where, pad=0.01 if strips else 0.02, extend="max" if over else "neither"
        )
        if shared or not some[0][1].get_title("left"):
            bar.set_label(heat.label)


def _legend(made: Canvas, entries: Sequence[Entry]) -> None:
    """Above all axes, in rows of equal length that the width has room for."""
    handles = [handle(entry) for entry in entries]
    if not handles:
        return
    labels = [str(one.get_label()) for one in handles]
    widths = [len(label) * 8 * 0.54 + 42 for label in labels]  # points, with the handle
    room = made.get_size_inches()[0] * 72
    fits = next((n for n in range(len(widths), 1, -1) if sum(max(widths[i::n]) for i in range(n)) <= room), 1)
    columns = -(-len(widths) // -(-len(widths) // fits))
    order = [i for column in range(columns) for i in range(column, len(handles), columns)]  # filled column by column
    shown = [handles[i] for i in order], [labels[i] for i in order]
    made.legend(*shown, loc="outside upper left", ncols=columns, columnspacing=1.4)


def _small_print(made: Canvas, text: str) -> None:
    """In the lower right corner, in a strip of its own below everything else."""
    width, height = made.get_size_inches()
    lines = textwrap.wrap(text, max(20, int(width * 72 / (SMALL * 0.55)))) or [""]
    strip = (len(lines) * SMALL * 1.25 + 6) / 72 / height
    made.text(0.995, 3 / 72 / height, "\n".join(lines), ha="right", va="bottom", fontsize=SMALL, color=GREY)
    engine = made.get_layout_engine()
    if isinstance(engine, ConstrainedLayoutEngine):
        engine.set(rect=(0, strip, 1, 1 - strip))
