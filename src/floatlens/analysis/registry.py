"""How an analysis is added: one function from a trace to a labelled dataset, and one registration.

    @analysis("absorption", requires=("received",))
    def absorption(trace, *, rule="top1"): ...

What comes out takes one trace or many and gives a `Result`. Several analyses can share one walk over the traces.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec

import numpy as np
import xarray as xr

from floatlens import __version__
from floatlens.analysis.result import Group, Result, Summary, no_summary
from floatlens.analysis.rules import as_rule
from floatlens.analysis.sources import Traces, each_trace
from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.traces import Trace

__all__ = ["ANALYSES", "Analysis", "analyse", "analysis", "question_of"]

P = ParamSpec("P")

ANALYSES: dict[str, Analysis[...]] = {}


def _model_of(trace: Trace) -> dict[str, Any]:
    return {"model": trace.model["ref"]}


def question_of(trace: Trace) -> str | None:
    """What a trace is about, the same for all traces of one question: its text, the digest of a passage with a hole (of
    which models do not see the same), or the tokens of a bare prompt.

    None where neither is known; such a trace stands for itself.
    """
    asked = trace.data.attrs["prompt"].get("question")
    if trace.data.attrs["prompt"].get("passage") is not None:
        return f"passage {trace.data.attrs['prompt']['passage']}"
    length = trace.data.attrs["decoding"].get("prompt_length")
    if asked is not None or length is None:
        return None if asked is None else str(asked)
    return "prompt " + hashlib.sha1(trace.data["final"].values[:length].tobytes()).hexdigest()


@dataclass(eq=False)
class Analysis(Generic[P]):
    """A registered analysis; call it with a trace, or many, and its settings."""

    name: str
    requires: tuple[str, ...]
    measure: Callable[Concatenate[Trace, P], xr.Dataset]
    groups: Callable[[Trace], dict[str, Any]]
    summarise: Callable[[Group], Iterable[Summary]]

    def __call__(self, traces: Traces, *args: P.args, **kwargs: P.kwargs) -> Result:
        return analyse(traces, {self.name: dict(self.settings(*args, **kwargs))})[self.name]

    def settings(self, *args: P.args, **kwargs: P.kwargs) -> dict[str, Any]:
        """Every setting by name, defaults filled in, an anchor rule by its full name."""
        bound = inspect.signature(self.measure).bind(None, *args, **kwargs)
        bound.apply_defaults()
        found = dict(list(bound.arguments.items())[1:])
        return found | ({"rule": str(as_rule(found["rule"]))} if "rule" in found else {})


def analysis(
    name: str,
    *,
    requires: Iterable[str],
    groups: Callable[[Trace], dict[str, Any]] = _model_of,
    summarise: Callable[[Group], Iterable[Summary]] = no_summary,
) -> Callable[[Callable[Concatenate[Trace, P], xr.Dataset]], Analysis[P]]:
    """Register a measurement of one trace; `groups` says which traces are samples of one thing, by default a model.

    `summarise` gives numbers of a whole group, for the tables.
    """

    def register(measure: Callable[Concatenate[Trace, P], xr.Dataset]) -> Analysis[P]:
        made = Analysis(name, tuple(requires), measure, groups, summarise)
        update_wrapper(made, measure, updated=())
        ANALYSES[name] = made
        return made

    return register


@dataclass
class _Pile:
    """The samples of one group so far: a few numbers each, not the traces they came from.

    What goes by steps is kept of a single trace only: traces differ in steps, and it would be too much of many.
    """

    like: xr.Dataset
    facts: dict[str, Any]
    values: dict[str, list[Any]] = field(default_factory=dict)
    questions: list[str] = field(default_factory=list)
    data_sets: list[str] = field(default_factory=list)

    def add(self, sample: xr.Dataset, keys: Mapping[str, Any], trace: Trace) -> None:
        """Keep the numbers of a sample, which must have the layers and heads of those before it."""
        alone, question = f"trace {len(self.questions)} of {', '.join(map(str, keys.values()))}", question_of(trace)
        self.questions.append(alone if question is None else question)
        self.data_sets.append(trace.data_set or "")
        for name, array in sample.data_vars.items():
            if "step" in array.dims and len(self.questions) > 1:
                self.values.pop(str(name), None)
                continue
            like = self.like[name]
            if array.dims != like.dims or any(not array[dim].equals(like[dim]) for dim in array.dims):
                raise FloatlensError(
                    f"the traces of {keys['model']} do not fit together: {name} does not have the same "
                    f"{', '.join(map(str, array.dims))} in all of them; analyse traces of one selection at a time"
                )
            self.values.setdefault(str(name), []).append(np.asarray(array.values, dtype=np.float64))

    def stack(self) -> xr.Dataset:
        """All samples, with the dimension `sample` in front, and the question and the data set that each is of."""
        data = {name: (("sample", *self.like[name].dims), np.stack(values)) for name, values in self.values.items()}
        about = {"question": ("sample", self.questions), "data_set": ("sample", self.data_sets)}
        return xr.Dataset(data, coords=self.like[list(data)].coords).assign_coords(about)


def analyse(
    traces: Traces,
    wanted: Mapping[str, Mapping[str, Any]] | Iterable[str],
    *,
    seed: int = 0,
    skipped: dict[str, str] | None = None,
) -> dict[str, Result]:
    """Several analyses in one walk over the traces: `analyse("runs/a", ["drift", "absorption"])`.

    `wanted` may map names to settings. Traces are opened one after the other and let go. An analysis that the traces do
    not allow is an error, unless `skipped` is given: it then goes there with the reason.
    """
    settings = (
        {name: dict(given) for name, given in wanted.items()}
        if isinstance(wanted, Mapping)
        else {name: {} for name in wanted}
    )
    chosen = {name: _find(name) for name in settings}
    whole = {name: one.settings(**settings[name]) for name, one in chosen.items()}  # a wrong one is told before work
    piles: dict[str, dict[tuple[tuple[str, Any], ...], _Pile]] = {name: {} for name in chosen}
    versions: dict[str, str] = {}
    for trace in each_trace(traces):
        versions = versions or {**trace.data.attrs["versions"], "analysis": __version__}
        for name, one in list(chosen.items()):
            try:
                trace.require(*one.requires)
                keys, sample = one.groups(trace), one.measure(trace, **settings[name])
            except FloatlensError as error:
                if skipped is None:
                    raise
                skipped[name] = str(error)
                del chosen[name]
                continue
            facts = {**trace.model, "causal": trace.data.attrs["causal"]}
            piles[name].setdefault(tuple(keys.items()), _Pile(sample, facts)).add(sample, keys, trace)
    if not versions:
        raise FloatlensError("no traces to analyse")
    return {
        name: Result(name, whole[name], _grouped(piles[name], seed), versions, one.summarise)
        for name, one in chosen.items()
    }


def _grouped(piles: Mapping[tuple[tuple[str, Any], ...], _Pile], seed: int) -> tuple[Group, ...]:
    return tuple(Group(dict(keys), pile.facts, pile.stack(), seed) for keys, pile in piles.items())


def _find(name: str) -> Analysis[...]:
    if name not in ANALYSES:
        raise FloatlensError(f'no analysis "{name}"{did_you_mean(name, ANALYSES)}; there are {", ".join(ANALYSES)}')
    return ANALYSES[name]
