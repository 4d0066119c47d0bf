"""Evolution (methods §19): any variable of an analysis over the training steps of a course, by layer if it has layers.

It selects and arranges; every number is that of the analysis, with its interval over questions. The origin of a course
(the model that it started from) has no step and stands beside the steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from floatlens.analysis.description import Variable
from floatlens.analysis.intervals import Estimate
from floatlens.analysis.kernels import Floats, nanmean
from floatlens.analysis.registry import ANALYSES
from floatlens.analysis.result import NUMBERS, Group, Result
from floatlens.analysis.sources import Traces
from floatlens.core.errors import FloatlensError, did_you_mean

__all__ = ["PUBLISHED", "Evolution", "course_steps", "evolution", "evolution_frame"]

PUBLISHED: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
    ("absorption", "absorbed", {"view": "fixed"}),
    ("absorption", "absorbed", {"view": "floating"}),
    ("absorption", "excess", {"view": "fixed"}),
    ("absorption", "excess", {"view": "floating"}),
    ("absorption", "uniform", {"view": "fixed"}),
    ("absorption", "uniform", {"view": "floating"}),
    ("drift", "quarter_jaccard_by_layer", {"queries": "answer"}),
    ("drift", "quarter_jaccard_by_layer", {"queries": "all"}),
    ("drift", "effective_anchors_by_layer", {"queries": "answer"}),
    ("drift", "effective_anchors_by_layer", {"queries": "all"}),
    ("token_classes", "lexical", {}),
    ("sinks", "rate", {"kind": "any"}),
)
"""What a run with a course tabulates over training: analysis, variable and labels. The table of every analysis has the
training step as a column too."""


_PLACES = ("course", "model", "training_step", "tokens", "layer")


@dataclass(frozen=True, eq=False)
class Evolution:
    """A variable over training. `data` has `mean`, `std`, `low`, `high` (a 95 % interval) and `n` (questions) over
    (course, training_step[, layer]), NaN and 0 where a course has no such step, and the coordinates `model`, `tokens`
    (NaN: not known) and `kind`. `origin` has the same over (course[, layer]), NaN where a course has no origin.

    `layer_mean` is the same for the mean over layers, taken within each trace; None where there are no layers.

    Example: `fl.evolution("runs/evolution", "absorbed", view="fixed").data["mean"].sel(layer=3)`
    """

    analysis: str
    variable: str
    labels: Mapping[str, Any]
    data: xr.Dataset
    origin: xr.Dataset
    layer_mean: Evolution | None = None
    words: Variable = field(default_factory=lambda: Variable("", ""))

    @property
    def courses(self) -> tuple[str, ...]:
        return tuple(map(str, self.data["course"].values))

    def steps(self, course: str) -> tuple[int, ...]:
        """The training steps of a course, in order."""
        there = self.data["model"].sel(course=course).values != ""
        return tuple(int(step) for step in self.data["training_step"].values[there])

    def to_frame(self) -> pd.DataFrame:
        """A row for each course, step and layer (empty for the mean over layers), after those of its origin, whose
        step is empty."""
        parts = [self._rows(), *([] if self.layer_mean is None else [self.layer_mean._rows()])]
        frame = pd.concat(parts, ignore_index=True)
        for name in ("training_step", "tokens", "layer"):
            frame[name] = frame[name].astype("Int64")
        return frame.sort_values(
            ["course"], kind="stable", key=lambda of: of.map(self.courses.index), ignore_index=True
        )

    def _rows(self) -> pd.DataFrame:
        first = self.origin.expand_dims(training_step=[np.nan]).assign_coords(
            tokens=(("course", "training_step"), np.full((len(self.courses), 1), np.nan))
        )
        rows = []
        for held in (first, self.data):
            frame = held.to_dataframe().reset_index()
            rows.append(frame[frame["model"] != ""])
        frame = pd.concat(rows, ignore_index=True)
        frame = frame if "layer" in frame else frame.assign(layer=np.nan)
        about = {"analysis": self.analysis, "variable": self.variable, **self.labels}
        return frame.assign(**about)[[*about, *_PLACES, *NUMBERS]]

    def __repr__(self) -> str:
        shown = self if self.layer_mean is None else self.layer_mean
        what = ", ".join([f"{self.analysis}: {self.variable}", *(f"{k} {v}" for k, v in self.labels.items())])
        rows = shown._rows().drop(columns=["analysis", "variable", "layer", *self.labels])
        note = "" if self.layer_mean is None else " (mean over layers; by layer: .data)"
        return f"{what}{note}\n{rows.to_string(index=False, float_format='{:.4g}'.format, na_rep='–')}"


def course_steps(result: Result) -> dict[str, int]:
    """The courses of a result, with the number of their steps."""
    steps: dict[str, set[int]] = {}
    for group in result.without_controls():
        if group.course is not None:
            steps.setdefault(str(group.course["name"]), set()).add(int(group.course["step"]))
    return {name: len(found) for name, found in steps.items()}


def evolution(of: Result | Traces, variable: str, *, analysis: str | None = None, **labels: Any) -> Evolution:
    """A variable of a result over the training steps of its courses; of traces or a run, by `analysis` (the one that
    has the variable, unless given) with its default settings. `labels` choose one label of each dimension besides the
    layer, or one condition; heads are averaged unless one is given. Controls are left out.

    Example: `fl.evolution(fl.sinks("runs/evolution"), "rate", kind="any").layer_mean`
    """
    result = of if isinstance(of, Result) else ANALYSES[analysis or _analysis_of(variable)](of)
    result = result.without_controls()
    if not course_steps(result):
        raise FloatlensError(
            "none of these models is a snapshot of a training course; in a study give each a course and a step, or "
            "snapshots: FOLDER (docs/adaptation.md)"
        )
    picked = [_pick(group, variable, labels) for group in _fitting(result, variable, labels)]
    words = result.words.variable(variable)
    layered = any(one.layers is not None for one in picked)
    mean = _arranged([one.over_layers() for one in picked]) if layered else None
    about = (result.analysis, variable, labels)
    inner = None if mean is None else Evolution(*about, *mean, words=words)
    return Evolution(*about, *_arranged(picked), inner, words)


def evolution_frame(results: Mapping[str, Result]) -> pd.DataFrame | None:
    """`PUBLISHED` over training, as one table; None where no course has two steps or no analysis is there."""
    frames = []
    for name, variable, labels in PUBLISHED:
        result = results.get(name)
        if result is not None and max(course_steps(result).values(), default=0) > 1:
            frames.append(evolution(result, variable, **labels).to_frame())
    if not frames:
        return None
    made = pd.concat(frames, ignore_index=True)
    about = [name for name in made if name not in ("analysis", "variable", *_PLACES, *NUMBERS)]
    return made[["analysis", "variable", *about, *_PLACES, *NUMBERS]]


def _analysis_of(variable: str) -> str:
    """The analysis that has a variable of this name."""
    known: dict[str, list[str]] = {}
    for name, one in ANALYSES.items():
        for key in (*one.words.variables, *one.words.aliases):
            known.setdefault(key, []).append(name)
    if variable not in known:
        raise FloatlensError(
            f'no analysis has a variable "{variable}"{did_you_mean(variable, known)}; name it: analysis='
        )
    if len(known[variable]) > 1:
        raise FloatlensError(f'"{variable}" is a variable of {" and ".join(known[variable])}; say which: analysis=')
    return known[variable][0]


# -- what is selected ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Picked:
    """(sample[, layer]) of one group."""

    group: Group
    values: Floats
    layers: tuple[int, ...] | None

    def over_layers(self) -> _Picked:
        values = self.values if self.layers is None else nanmean(self.values, axis=1)
        return _Picked(self.group, values, None)


def _fitting(result: Result, variable: str, labels: Mapping[str, Any]) -> Iterator[Group]:
    """The groups of snapshots and origins under the condition that labels name: one for each model."""
    origins = {group.course["origin"] for group in result if group.course is not None}
    seen: set[str] = set()
    for group in result:
        wanted = {key: value for key, value in labels.items() if key in group.keys}
        if any(group.keys[key] != value for key, value in wanted.items()):
            continue
        if group.course is None and group.model not in origins:
            continue
        if group.model in seen:
            more = [key for key in group.keys if key != "model" and key not in labels]
            raise FloatlensError(f"{group.model} has several groups; choose by {', '.join(f'{key}=' for key in more)}")
        group.values(variable)  # says which variables there are
        seen.add(group.model)
        yield group
    if not seen:
        raise FloatlensError(f"no group fits {dict(labels)}; there are {'; '.join(group.label for group in result)}")


def _pick(group: Group, variable: str, labels: Mapping[str, Any]) -> _Picked:
    array = group.samples[variable]
    for key, value in labels.items():
        if key in group.keys:
            continue
        if key not in array.dims or key in ("sample", "layer"):
            dims = [str(dim) for dim in array.dims if dim not in ("sample", "layer")]
            raise FloatlensError(f"{variable} has no {key} to choose{did_you_mean(key, dims) if dims else ''}")
        have = array[key].values.tolist()
        if value not in have:
            raise FloatlensError(f"{key}={value!r}; {variable} has {', '.join(map(str, have))}")
        array = array.isel({key: have.index(value)}, drop=True)
    if "head" in array.dims:
        mean = nanmean(np.asarray(array.values, dtype=np.float64), axis=array.dims.index("head"))
        array = array.isel(head=0, drop=True).copy(data=mean)
    for dim in array.dims:
        if dim not in ("sample", "layer"):
            raise FloatlensError(f"choose one {dim} of {variable}: {dim}= {', '.join(map(str, array[dim].values))}")
    layers = tuple(int(one) for one in array["layer"].values) if "layer" in array.dims else None
    return _Picked(group, np.asarray(array.transpose("sample", ...).values, dtype=np.float64), layers)


# -- how it is arranged -------------------------------------------------------------------------------------------


def _arranged(picked: Sequence[_Picked]) -> tuple[xr.Dataset, xr.Dataset]:
    """The steps (course, training_step[, layer]) and the origins (course[, layer]), with their intervals."""
    at = {one: one.group.course for one in picked}
    courses = list(dict.fromkeys(str(course["name"]) for course in at.values() if course is not None))
    steps = sorted({int(course["step"]) for course in at.values() if course is not None})
    layers = sorted({layer for one in picked for layer in one.layers or ()})
    data, first = _Table(courses, layers, steps), _Table(courses, layers)
    for one, course in at.items():
        found = one.group.estimated(one.values)
        if course is not None:
            place = (courses.index(str(course["name"])), steps.index(int(course["step"])))
            data.put(place, one, found, course["tokens"])
            continue
        own = [other for other in at.values() if other is not None and other["origin"] == one.group.model]
        for name in dict.fromkeys(str(other["name"]) for other in own):
            first.put((courses.index(name),), one, found)
    return data.dataset(), first.dataset().drop_vars("tokens")


class _Table:
    """Numbers by course, step (not for origins) and layer, filled in one after the other."""

    def __init__(self, courses: Sequence[str], layers: Sequence[int], steps: Sequence[int] | None = None) -> None:
        self.coords: dict[str, Any] = {"course": list(courses)}
        self.coords |= {} if steps is None else {"training_step": list(steps)}
        self.dims = tuple(self.coords)
        self.coords |= {"layer": list(layers)} if layers else {}
        shape, outer = ([len(self.coords[dim]) for dim in dims] for dims in (self.coords, self.dims))
        self.numbers = {name: np.full(shape, np.nan) for name in NUMBERS}
        self.numbers["n"] = np.zeros(shape)
        self.models, self.kinds = np.full(outer, "", dtype=object), np.full(outer, "", dtype=object)
        self.tokens = np.full(outer, np.nan)

    def put(self, place: tuple[int, ...], one: _Picked, found: Estimate, tokens: int | None = None) -> None:
        where: Any = place
        if one.layers is not None:
            where = (*place, [self.coords["layer"].index(layer) for layer in one.layers])
        for name in NUMBERS:
            self.numbers[name][where] = getattr(found, name)
        self.models[place], self.kinds[place] = one.group.model, str(one.group.facts.get("kind", ""))
        self.tokens[place] = np.nan if tokens is None else tokens

    def dataset(self) -> xr.Dataset:
        dims = tuple(self.coords)
        counts = self.numbers | {"n": self.numbers["n"].astype(np.int64)}
        about = {"model": self.models.astype(str), "kind": self.kinds.astype(str), "tokens": self.tokens}
        coords = self.coords | {name: (self.dims, values) for name, values in about.items()}
        return xr.Dataset({name: (dims, values) for name, values in counts.items()}, coords)
