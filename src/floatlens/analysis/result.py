"""`Result`: what an analysis found in one or many traces, kept sample by sample so means have intervals.

A group is a model, or a model under one condition (such as the position of the gold document). Its samples are a
dataset with the dimension `sample` (a trace) first and the coordinates `question` and `data_set`. Intervals count
questions, since traces of one question are not independent. Nothing is averaged before it is asked for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from floatlens.analysis.courses import Course, training_coords, with_training
from floatlens.analysis.description import Words
from floatlens.analysis.intervals import Estimate, by_question, estimate
from floatlens.analysis.kernels import Floats, nanmean
from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.models.course import earlier

__all__ = ["NUMBERS", "Estimates", "Group", "Result", "Summary", "labelled", "no_summary", "numbers_last"]

NUMBERS = ("mean", "std", "low", "high", "n")
_SHOWN: dict[str, Any] = {"index": False, "max_rows": 24, "float_format": "{:.4g}".format}


@dataclass(frozen=True, eq=False)
class Estimates:
    """`mean`, `std`, `low`, `high` (a 95 % interval) and `n` (questions) as arrays of one shape.

    The first dim is `model`; where groups are finer than models it is `group`, with model and condition as coordinates.
    Snapshots of a training course also have the coordinates `course` and `training_step`. Layers, heads or regions that
    only some models have are NaN in the others. `data` holds all five as a dataset.

    `float(…)` is the mean of a single number.

    Example: `fl.drift(traces).slope.sel(model="scale:llada").mean`
    """

    variable: str
    data: xr.Dataset

    @property
    def mean(self) -> xr.DataArray:
        return self.data["mean"]

    @property
    def std(self) -> xr.DataArray:
        return self.data["std"]

    @property
    def low(self) -> xr.DataArray:
        return self.data["low"]

    @property
    def high(self) -> xr.DataArray:
        return self.data["high"]

    @property
    def n(self) -> xr.DataArray:
        return self.data["n"]

    def __float__(self) -> float:
        """The mean, where there is a single one."""
        return float(self.mean.item())

    def sel(self, **labels: Any) -> Estimates:
        """The part with these labels, as `xarray.Dataset.sel` finds it; also by a coordinate such as `gold`."""
        held = self.data
        for name, value in labels.items():
            if name in held.dims:
                held = held.sel({name: value})
            else:
                held = held.isel({held[name].dims[0]: np.flatnonzero(held[name].values == value)})
        return Estimates(self.variable, held)

    def to_frame(self) -> pd.DataFrame:
        """One row for each model and coordinate: mean, std, low, high, n."""
        whole = self.data if self.data.dims else self.data.expand_dims("model")
        frame = whole.to_dataframe().reset_index()
        return numbers_last(frame[frame["n"].notna()])

    def __repr__(self) -> str:
        return f"{self.variable}\n{self.to_frame().to_string(**_SHOWN)}"

    def _repr_html_(self) -> str:
        return str(self.to_frame().to_html(**_SHOWN))


def numbers_last(frame: pd.DataFrame) -> pd.DataFrame:
    """The same frame, with mean, std, low, high and n as its last columns."""
    return frame[[*(name for name in frame if name not in NUMBERS), *NUMBERS]]


def labelled(variable: str, found: Sequence[tuple[Mapping[str, Any], xr.DataArray, Estimate]]) -> Estimates:
    """Estimates from those of groups: their keys, the samples (for dims and labels), and the estimate."""
    held = []
    for _, samples, one in found:
        array = samples.isel(sample=0, drop=True)
        coords = {dim: array[dim].values for dim in array.dims}
        held.append(xr.Dataset({name: (array.dims, getattr(one, name)) for name in NUMBERS}, coords=coords))
    keys = {key: [group.get(key) for group, *_ in found] for key in dict.fromkeys(k for g, *_ in found for k in g)}
    if list(keys) == ["model"]:
        models = xr.DataArray(np.array(keys["model"], dtype=str), dims="model", name="model")
        return Estimates(variable, xr.concat(held, models, join="outer"))
    whole = xr.concat(held, xr.DataArray(np.arange(len(held)), dims="group", name="group"), join="outer")
    return Estimates(variable, whole.assign_coords({key: ("group", values) for key, values in keys.items()}))


@dataclass(frozen=True, eq=False)
class Group:
    """The samples of one model (under one condition). `facts` are those of the model: kind, layers, causal …"""

    keys: Mapping[str, Any]
    facts: Mapping[str, Any]
    samples: xr.Dataset
    _made: dict[tuple[str, str | None], Estimate] = field(default_factory=dict, repr=False)

    @property
    def model(self) -> str:
        return str(self.keys["model"])

    @property
    def control(self) -> Mapping[str, Any] | None:
        """For a control, such as one with shuffled weights: the model it is a control `of`, its `kind` and `seed`."""
        return self.facts.get("control")

    @property
    def course(self) -> Course | None:
        """Set where the model is a snapshot of a training course: its `name`, and `step`, `tokens` and `origin`."""
        return self.facts.get("course")

    @property
    def traces(self) -> int:
        return int(self.samples.sizes["sample"])

    @cached_property
    def questions(self) -> tuple[str, ...]:
        """The question of each sample; without that coordinate, each sample is a question of its own."""
        return self._about("question") or tuple(f"trace {place} of {self.label}" for place in range(self.traces))

    @cached_property
    def data_sets(self) -> tuple[str, ...]:
        """The data set of each sample; "" where its trace does not name one."""
        return self._about("data_set") or ("",) * self.traces

    def _about(self, name: str) -> tuple[str, ...]:
        return tuple(map(str, self.samples[name].values)) if name in self.samples.coords else ()

    @property
    def n(self) -> int:
        """How many questions there are; a question may have several traces."""
        return len(set(self.questions))

    @property
    def label(self) -> str:
        """The model's name and the condition of the group."""
        more = [f"{key} {value}" for key, value in self.keys.items() if key != "model"]
        return ", ".join([self.model, *more])

    def values(self, variable: str) -> Floats:
        """(sample, …) of one variable, trace by trace."""
        return np.asarray(self._variable(variable).values, dtype=np.float64)

    def estimate(self, variable: str, over: str | None = None) -> Estimate:
        """Mean, spread and interval over the questions, of the variable's shape. With `over` a dimension, such as the
        heads, each trace is first averaged over it."""
        if (variable, over) not in self._made:
            values = self.values(variable)
            if over is not None:
                values = nanmean(values, axis=self._variable(variable).dims.index(over))
            self._made[variable, over] = self.estimated(values)
        return self._made[variable, over]

    def by_question(self, values: Floats) -> Floats:
        """(sample, …) → (question, …): one sample for each question, for intervals."""
        return by_question(values, self.questions)

    def by_data_set(self, values: Floats) -> dict[str, Floats]:
        """(sample, …) → (question, …) for each data set by name, without traces that do not name theirs. A question in
        two data sets is a sample of both."""
        rows: dict[str, list[int]] = {}
        for place, name in enumerate(self.data_sets):
            if name:
                rows.setdefault(name, []).append(place)
        return {name: by_question(values[own], [self.questions[i] for i in own]) for name, own in rows.items()}

    def estimated(self, values: Floats) -> Estimate:
        """The same for numbers (sample, …) computed from the variables of this group."""
        return estimate(self.by_question(values))

    def coordinate(self, variable: str, dim: str) -> list[Any]:
        """The labels of a dimension of a variable."""
        return list(self._variable(variable)[dim].values.tolist())

    def __repr__(self) -> str:
        names = [str(name) for name in self.samples.data_vars]
        more = [f"… {len(names) - 6} more"] if len(names) > 6 else []
        return f"Group({self.label}: n={self.n}; {', '.join([*names[:6], *more])})"

    def _variable(self, name: str) -> xr.DataArray:
        if name not in self.samples:
            names = [str(one) for one in self.samples.data_vars]
            raise FloatlensError(f'no variable "{name}"{did_you_mean(name, names)}; there are {", ".join(names)}')
        return self.samples[name]


class Summary(NamedTuple):
    """One number computed from all samples of a group at once: its name, its labels and the estimate."""

    variable: str
    labels: Mapping[str, Any]
    found: Estimate


def no_summary(group: Group) -> Iterable[Summary]:
    """For analyses without numbers of a whole group; a name, so a result can be pickled."""
    return ()


@dataclass(frozen=True, eq=False)
class Result:
    """What an analysis found. `result["slope"]` or `result.slope` are `Estimates` by model, whatever their number.

    `data` holds the samples as one dataset, `to_frame()` all numbers as a table.

    Example: `fl.drift(trace).slope.mean`
    """

    analysis: str
    settings: Mapping[str, Any]
    groups: tuple[Group, ...]
    versions: Mapping[str, str] = field(default_factory=dict)
    summarise: Callable[[Group], Iterable[Summary]] = field(default=no_summary, repr=False)
    words: Words = field(default_factory=lambda: Words(""))

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(group.model for group in self.groups))

    def without_controls(self) -> Result:
        """The same for the models under study alone, without controls such as shuffled weights."""
        own = tuple(group for group in self.groups if group.control is None)
        return self if len(own) == len(self.groups) else replace(self, groups=own)

    @property
    def courses(self) -> dict[str, Course | None]:
        """The course of every model, None for one that is no snapshot."""
        return {group.model: group.course for group in self.groups}

    def last_steps(self) -> Result:
        """The same without the snapshots before the last of each training course: a course counts as one model."""
        passed = earlier(self.courses)
        kept = tuple(group for group in self.groups if group.model not in passed)
        return replace(self, groups=kept) if passed else self

    @property
    def n(self) -> int:
        """How many questions there are in all groups; one that several models were asked counts once."""
        return len({question for group in self.groups for question in group.questions})

    @property
    def provenance(self) -> dict[str, Any]:
        """What the numbers rest on, for tables and figures."""
        return {
            "analysis": self.analysis,
            "settings": dict(self.settings),
            "questions": {group.label: group.n for group in self.groups},
            "traces": {group.label: group.traces for group in self.groups},
            "versions": dict(self.versions),
        }

    def group(self, model: str | None = None, **keys: Any) -> Group:
        """The one group of this model (and condition)."""
        wanted = keys if model is None else {"model": model, **keys}
        found = [g for g in self.groups if all(g.keys.get(key) == value for key, value in wanted.items())]
        if len(found) != 1:
            have = "; ".join(g.label for g in self.groups)
            raise FloatlensError(
                f"{self.analysis}: {len(found)} groups fit {wanted or 'no condition'}; there are {have}"
            )
        return found[0]

    def pooled(self, model: str, variable: str) -> Group:
        """One variable of all groups of a model, whatever else sets them apart, as one group."""
        groups = [group for group in self.groups if group.model == model]
        like = groups[0].samples[variable]
        coords: dict[str, Any] = {str(dim): like[dim].values for dim in like.dims[1:]}
        coords["question"] = ("sample", [question for group in groups for question in group.questions])
        coords["data_set"] = ("sample", [name for group in groups for name in group.data_sets])
        values = np.concatenate([group.values(variable) for group in groups])
        samples = xr.Dataset({variable: (like.dims, values)}, coords=coords)
        return Group({"model": model}, groups[0].facts, samples)

    @cached_property
    def summary(self) -> tuple[tuple[Group, Summary], ...]:
        """What the analysis says of each group as a whole."""
        return tuple((group, one) for group in self.groups for one in self.summarise(group))

    def __iter__(self) -> Iterator[Group]:
        return iter(self.groups)

    def __getitem__(self, variable: str) -> Estimates:
        held = [group for group in self.groups if variable in group.samples]
        for group in [] if held else self.groups[:1]:
            group.values(variable)  # says which variables there are
        found = labelled(variable, [(group.keys, group.samples[variable], group.estimate(variable)) for group in held])
        training = {key: (found.mean.dims[0], v) for key, v in training_coords([g.course for g in held]).items()}
        return replace(found, data=found.data.assign_coords(training))

    def __getattr__(self, name: str) -> Estimates:
        if name.startswith("_") or not any(name in group.samples for group in self.__dict__.get("groups", ())):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return self[name]

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(str(name) for group in self.groups for name in group.samples.data_vars))

    @cached_property
    def data(self) -> xr.Dataset:
        """All samples along one dimension `sample`, with model, question and data set as its coordinates, and for
        snapshots of a course also course and training_step. Layers, heads or regions that only some groups have are NaN
        in the others. Variables with steps are left out where there are several traces."""
        held, training = [], training_coords([group.course for group in self.groups])
        for place, group in enumerate(self.groups):
            about = {"question": list(group.questions), "data_set": list(group.data_sets)}
            about |= {key: [value] * group.traces for key, value in group.keys.items()}
            about |= {key: [values[place]] * group.traces for key, values in training.items()}
            own = group.samples if len(self.groups) == 1 else group.samples.drop_dims("step", errors="ignore")
            held.append(own.assign_coords({key: ("sample", values) for key, values in about.items()}))
        return xr.concat(held, dim="sample", join="outer", data_vars="all")

    def overview(self) -> pd.DataFrame:
        """Variables by groups: numbers with their intervals; for arrays the dims and the range of the means."""
        columns: dict[str, list[str]] = {}
        for group in self.groups:
            there = [group.estimate(name) if name in group.samples else None for name in self.variables]
            cells = ["" if one is None else _cell(one, group.n) for one in there]
            columns[group.label] = [str(group.n), *cells]
        sizes = {name: next(g.samples[name] for g in self.groups if name in g.samples) for name in self.variables}
        rows = [f"{name} ({' × '.join(map(str, a.dims[1:]))})" if a.ndim > 1 else name for name, a in sizes.items()]
        return pd.DataFrame(columns, index=["questions", *rows])

    def __repr__(self) -> str:
        """A table of the numbers, with the settings above it."""
        if not self.groups:
            return f"{self.analysis}: no groups"
        return f"{self._heading}\n{self.overview().to_string(line_width=100)}"

    def _repr_html_(self) -> str:
        from html import escape

        return f"<p>{escape(self._heading)}</p>{self.overview().to_html()}"

    @property
    def _heading(self) -> str:
        settings = ", ".join(f"{key} {value}" for key, value in self.settings.items())
        return " · ".join(filter(None, [self.analysis, self.words.question, settings]))

    @cached_property
    def _frame(self) -> pd.DataFrame:
        frames = [_rows(group, str(name)) for group in self.groups for name in group.samples.data_vars]
        frames += [_summary_row(group, one) for group, one in self.summary]
        made = numbers_last(with_training(pd.concat(frames, ignore_index=True), self.courses))
        made.attrs["provenance"] = json.dumps(self.provenance)
        return made

    def to_frame(self) -> pd.DataFrame:
        """One row for each group, variable and coordinate (and number of a whole group): mean, std, low, high, n."""
        return self._frame.copy()


def _cell(one: Estimate, n: int) -> str:
    """A number with its interval, and its n where that is not the group's; for arrays the range of the means."""
    return one.range if np.ndim(one.mean) else str(one).removesuffix(f" (n={n})")


def _summary_row(group: Group, one: Summary) -> pd.DataFrame:
    numbers = {key: np.ravel(getattr(one.found, key)) for key in NUMBERS}
    return pd.DataFrame({**group.keys, "variable": one.variable, **one.labels, **numbers})


def _rows(group: Group, name: str) -> pd.DataFrame:
    found = group.estimate(name)
    array = group.samples[name].isel(sample=0, drop=True)
    frame = pd.DataFrame({key: np.ravel(getattr(found, key)) for key in NUMBERS})
    if array.dims:
        labels = pd.MultiIndex.from_product([array[dim].values for dim in array.dims], names=list(map(str, array.dims)))
        frame = frame.set_index(labels).reset_index()
    for place, (key, value) in enumerate({**group.keys, "variable": name}.items()):
        frame.insert(place, key, value)
    return frame
