"""Evolution: a variable over the training steps of a course, as a map of layers × steps above lines of some layers.

Steps are categories, since snapshots are taken ever further apart; the origin of the course is set apart before them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from floatlens.analysis import Result, as_rule
from floatlens.analysis.absorption import absorption
from floatlens.analysis.evolution import Evolution, course_steps, evolution
from floatlens.analysis.intervals import Estimate
from floatlens.analysis.kernels import Floats
from floatlens.analysis.result import NUMBERS
from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.plots.description import Axis, Figure, Heat, Look, Panel, Series, number_ticks, series
from floatlens.plots.drawing import plot
from floatlens.plots.panels import peak_of
from floatlens.plots.registry import FigureType
from floatlens.plots.style import span

__all__ = ["plot_evolution"]

_MEAN = Look("mean over layers", "#000000", "o")
_DEPTHS = (("#3B528B", "s"), ("#21918C", "D"), ("#5EC962", "^"), ("#E69F00", "v"))
"""Colour and marker of the layers whose lines are drawn, from the first to the last."""
_APART = 2.0
"""Distance of the origin from the first step; steps are 1 apart."""
_REACH = 0.4
"""Half the length of the stroke that shows uniform attention for the origin."""
_COLUMN, _STEP, _MAP, _LINES = 4.6, 0.42, 2.6, 2.5  # inches


@plot()
def plot_evolution(of: Any, course: str | None = None) -> Figure:
    """A variable over training, from `evolution(…)`, several of them side by side, or (attention on the first position
    and on the strongest key) `absorption(…)` or what it takes. `course` names one where there are several.

    Panels: "map" and "lines", with the name of the variable before them where there are several. Lines are the mean
    over layers and four layers from the first to the last; dotted lines show what uniform attention would give.

    Example: `fl.plot_evolution("runs/evolution")`
    """
    given = _given(of)
    name = _one_course(given[0].found, course)
    columns = [_Column(one, name) for one in given]
    maps = [column.map_panel(peak) for column, peak in zip(columns, _peaks(columns), strict=True) if column.layers]
    lines = _ranged([column.line_panel() for column in columns])
    width, rows = len(columns), (len(maps) == len(columns)) + 1
    layout = (tuple(range(width)), tuple(range(width, 2 * width))) if rows == 2 else (tuple(range(len(maps) + width)),)
    alike = len({column.shown.found.words.axis for column in columns}) == 1
    return Figure(
        f"Evolution over training, {name}",
        (*maps, *lines),
        _note(columns),
        layout,
        (max(5.2, max(_COLUMN, _STEP * (columns[0].places[-1] + 1)) * width + 0.6), 1.3 + _LINES + _MAP * (rows - 1)),
        heights=(_MAP, _LINES) if rows == 2 else None,
        share_y="row" if alike and rows == 2 else "",
        share_x=rows == 2,
        page_width=480,
    )


@dataclass(frozen=True, eq=False)
class _Shown:
    """What a column shows: an evolution, and what uniform attention would give, if that is known."""

    found: Evolution
    title: str
    null: Evolution | None = None
    rule: str = ""


def _given(of: Any) -> list[_Shown]:
    """What is to be drawn; a result of absorption, traces or a run are drawn as both views of absorption."""
    several = [of] if isinstance(of, Evolution) else of
    if isinstance(several, Sequence) and several and all(isinstance(one, Evolution) for one in several):
        return [_Shown(one, _title(one)) for one in several]
    if isinstance(of, Result) and of.analysis != "absorption":
        raise FloatlensError(
            f"which variable of {of.analysis}? give plot_evolution(evolution(result, VARIABLE, …)), where VARIABLE is "
            f"one of {', '.join(of.variables)}"
        )
    result = of if isinstance(of, Result) else absorption(of)
    rule = str(as_rule(result.settings["rule"]))
    floating = "strongest key" if rule == "top1" else "anchors"
    found = []
    for view, where in (("fixed", "first position"), ("floating", floating)):
        both = (evolution(result, variable, view=view) for variable in ("absorbed", "uniform"))
        found.append(_Shown(next(both), f"Attention on the {where}", next(both), rule if view == "floating" else ""))
    return found


def _title(one: Evolution) -> str:
    words = one.words.label or one.variable
    return ", ".join([f"{words[:1].upper()}{words[1:]}", *(f"{key} {value}" for key, value in one.labels.items())])


def _one_course(found: Evolution, course: str | None) -> str:
    if course is None and len(found.courses) > 1:
        raise FloatlensError(f"which course? plot_evolution(…, course=) one of {', '.join(found.courses)}")
    if course is not None and course not in found.courses:
        raise FloatlensError(f'no course "{course}"{did_you_mean(course, found.courses)}')
    return course or found.courses[0]


def _peaks(columns: Sequence[_Column]) -> list[float | None]:
    """The top of each map's colours: one for all that have the same unit; None where values go below 0."""
    values = {id(column): column.values for column in columns}
    found: list[float | None] = []
    for column in columns:
        alike = [values[id(one)] for one in columns if one.shown.found.words.axis == column.shown.found.words.axis]
        least = min((float(np.min(one, where=np.isfinite(one), initial=0.0)) for one in alike), default=0.0)
        found.append(None if least < 0 else peak_of(alike))
    return found


def _ranged(panels: Sequence[Panel]) -> list[Panel]:
    """Lines from 0 up, those of one unit to the same height; as they come where something is below 0."""
    ends: dict[str, list[float]] = {}
    for panel in panels:
        every = (value for one in panel.series for part in (one.mean, one.low, one.high) for value in part)
        ends.setdefault(panel.y.label, []).extend(value for value in every if np.isfinite(value))
    made = []
    for panel in panels:
        found = ends[panel.y.label]
        top = max(found, default=0.0)
        fits = top > 0 and min(found) >= 0
        made.append(replace(panel, y=replace(panel.y, range=(-0.03 * top, 1.06 * top))) if fits else panel)
    return made


class _Column:
    """One variable of one course: places of its steps on the axis, and its two panels."""

    def __init__(self, shown: _Shown, course: str) -> None:
        self.shown, found = shown, shown.found
        self.course, self.steps = course, found.steps(course)
        self.origin = str(found.origin["model"].sel(course=course).item())
        self.first = _APART if self.origin else 0.0
        self.places = tuple(self.first + place for place in range(len(self.steps)))
        self.layers = tuple(map(int, found.data["layer"].values)) if "layer" in found.data.dims else ()
        self.name = ", ".join(map(str, [found.variable, *found.labels.values()]))

    @property
    def ticks(self) -> tuple[tuple[float, str], ...]:
        found = self.shown.found
        kinds = (
            found.origin["kind"].sel(course=self.course).item(),
            *found.data["kind"].sel(course=self.course).values,
        )
        turned = self.origin and kinds[0] == "arm" and "mdm" in kinds[1:]
        untrained = "0\nnew mask,\nnot trained" if turned else "0\nnot trained"
        names = [untrained if step == 0 and self.origin else _short(step) for step in self.steps]
        first = [(0.0, "base\n(causal)" if kinds[0] == "arm" else "base")] if self.origin else []
        return (*first, *zip(self.places, names, strict=True))

    @property
    def axis(self) -> Axis:
        return Axis("training step (not to scale)", self.ticks, range=(-0.5, self.places[-1] + 0.5))

    @property
    def values(self) -> Floats:
        """(layer, place): means, the origin first and a blank column after it."""
        if not self.layers:
            return np.empty((0, 0))
        steps = self._steps(self.shown.found)["mean"].transpose("layer", "training_step").values
        if not self.origin:
            return np.asarray(steps, dtype=np.float64)
        first = self._origin(self.shown.found)["mean"].values[:, None]
        return np.concatenate([first, np.full_like(first, np.nan), steps], axis=1)

    def map_panel(self, top: float | None) -> Panel:
        names = {int(place): name.replace("\n", " ") for place, name in self.ticks}
        columns = tuple(names.get(place, "") for place in range(self.values.shape[1]))
        heat = Heat(self.values, tuple(map(str, self.layers)), columns, self.shown.found.words.axis, top)
        y = Axis("layer", number_ticks(self.layers, 8))
        return Panel(f"{self.name} map", self.shown.title, self.axis, y, heat=heat)

    def line_panel(self) -> Panel:
        found, unit = self.shown.found, self.shown.found.words.unit
        overall = found.layer_mean or found
        drawn: list[Series] = []
        depths = sorted({round(at) for at in np.linspace(0, len(self.layers) - 1, len(_DEPTHS))} if self.layers else ())
        for place, (colour, marker) in zip(depths, _DEPTHS, strict=False):
            look = Look(f"layer {self.layers[place]}", colour, marker)
            drawn += self._lines(found, look, layer=self.layers[place])
        drawn += self._lines(overall, _MEAN if found.layer_mean else replace(_MEAN, label=found.words.label))
        if self.shown.null is not None:
            drawn += self._null(self.shown.null.layer_mean or self.shown.null)
        y = Axis(found.words.axis, unit=" %" if unit == "%" else "")
        return Panel(f"{self.name} lines", self.shown.title, self.axis, y, tuple(drawn))

    def _steps(self, found: Evolution, **at: Any) -> xr.Dataset:
        return found.data.sel(course=self.course, training_step=list(self.steps), **at)

    def _origin(self, found: Evolution, **at: Any) -> xr.Dataset:
        return found.origin.sel(course=self.course, **at)

    def _lines(self, found: Evolution, look: Look, **at: Any) -> list[Series]:
        """A line over the steps, and a point for the origin, which training does not join to them."""
        drawn = [_series(look, self.places, self._steps(found, **at))]
        if self.origin:
            drawn.append(_series(look, (0.0,), self._origin(found, **at), kind="points"))
        return drawn

    def _null(self, found: Evolution) -> list[Series]:
        drawn = [_series(_MEAN, self.places, self._steps(found), role="null")]
        if self.origin:
            origin = self._origin(found).expand_dims(place=2)
            drawn.append(_series(_MEAN, (-_REACH, _REACH), origin, role="null"))
        return drawn

    def counts(self) -> set[int]:
        found = self.shown.found
        every = (*self._steps(found)["n"].values.ravel(), *self._origin(found)["n"].values.ravel())
        return {int(n) for n in every if n}


def _series(look: Look, x: tuple[float, ...], numbers: xr.Dataset, **more: Any) -> Series:
    mean, std, low, high, n = (np.atleast_1d(numbers[name].values) for name in NUMBERS)
    return series(look, x, Estimate(mean, std, low, high, n), **more)


def _short(step: int) -> str:
    """A step in few signs: `800`, `12.8k`."""
    return f"{step / 1000:g}k" if step >= 1000 and step % 100 == 0 else str(step)


def _note(columns: Sequence[_Column]) -> str:
    counts = sorted(set().union(*(column.counts() for column in columns)))
    rules = dict.fromkeys(column.shown.rule for column in columns if column.shown.rule)
    words = [f"anchors: {', '.join(rules)}"] if rules else []
    words += [f"n = {span(counts)} questions per step"]
    words += ["bands and bars: 95 % interval of the mean" if counts and counts[-1] > 1 else "one question: no interval"]
    return " · ".join(words)


def _published(data: Mapping[str, Any]) -> dict[str, Figure]:
    """A figure for each course of at least two steps."""
    result = data["absorption"]
    names = [name for name, steps in course_steps(result).items() if steps > 1]
    return {name if len(names) > 1 else "": plot_evolution.describe(result, name) for name in names}


EVOLUTION = FigureType(("absorption",), _published, section="evolution", every_step=True)
"""Of ordinary runs, which have no course, there is none."""
