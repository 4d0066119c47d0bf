"""How an analysis is added: one function from a trace to a labelled dataset, its words, and one line in `ANALYSES`.

    @analysis("peak", requires=("received",), words=Words("Peak", variables={"peak": Variable("peak", "…")}))
    def peak(trace, *, times=1.0): ...

The object takes one trace or many and returns a `Result`. Another package registers it through an entry point of the
group `floatlens.analyses`, a notebook with `ANALYSES.add("peak", peak)`.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec

import numpy as np
import xarray as xr

from floatlens import __version__
from floatlens.analysis.description import Words
from floatlens.analysis.measure import Measure, attention_layers, variable_of
from floatlens.analysis.result import Group, Result, Summary, no_summary
from floatlens.analysis.rules import as_rule
from floatlens.analysis.sources import Traces, each_trace
from floatlens.core.errors import FloatlensError
from floatlens.core.memory import enough_memory
from floatlens.core.registry import Registry
from floatlens.traces import Trace

__all__ = ["ANALYSES", "Across", "Analysis", "analyse", "analysis", "forget_optional", "question_of", "with_settings"]

P = ParamSpec("P")
Across = Callable[[Sequence[Mapping[str, Any]]], Mapping[str, float]]
"""From the attributes that `measure` left on the datasets of one question's traces to numbers of the question."""

ANALYSES: Registry[Analysis[...]] = Registry(
    "analysis",
    "floatlens.analyses",
    {
        "drift": "floatlens.analysis.drift:drift",
        "absorption": "floatlens.analysis.absorption:absorption",
        "qk": "floatlens.analysis.qk:qk",
        "token_classes": "floatlens.analysis.token_classes:token_classes",
        "retrieval_heads": "floatlens.analysis.retrieval:retrieval_heads",
        "flow": "floatlens.analysis.flow:flow",
        "extremes": "floatlens.analysis.extremes:extremes",
        "sinks": "floatlens.analysis.sinks:sinks",
        "order": "floatlens.analysis.order:order",
        "lens": "floatlens.analysis.lens:lens",
        "smoothing": "floatlens.analysis.smoothing:smoothing",
        "cacheability": "floatlens.analysis.cacheability:cacheability",
    },
)
"""Analyses by name, in the order of the report."""


def question_of(trace: Trace) -> str | None:
    """What traces of one question share: its text, the digest of a passage with a hole (models see different parts of
    it), or the tokens of a bare prompt. None where none of these is known: the trace is a question of its own.
    """
    prompt, length = trace.data.attrs["prompt"], trace.data.attrs["decoding"].get("prompt_length")
    if prompt.get("passage") is not None:
        return f"passage {prompt['passage']}"
    if prompt.get("question") is not None:
        return str(prompt["question"])
    if length is None:
        return None
    return "prompt " + hashlib.sha1(trace.data["final"].values[:length].tobytes()).hexdigest()


@dataclass(eq=False)
class Analysis(Generic[P]):
    """An analysis: call it with a trace, or many, and its settings. `words` describe it and its variables."""

    name: str
    requires: tuple[str, ...]
    measure: Callable[Concatenate[Trace, P], xr.Dataset]
    groups: Callable[[Trace], dict[str, Any]]
    summarise: Callable[[Group], Iterable[Summary]]
    words: Words
    across: Across | None = None
    optional: bool = False

    def __call__(self, traces: Traces, *args: P.args, **kwargs: P.kwargs) -> Result:
        return _walk(traces, {self.name: (self, self._bound(*args, **kwargs))})[self.name]

    def check(self, trace: Trace, given: Mapping[str, Any]) -> None:
        """Refuse a trace that does not hold what the analysis reads under these settings."""
        measured = "measure" in inspect.signature(self.measure).parameters
        measure: Measure = given.get("measure", "attention")
        if measure == "attention" and self.requires and not attention_layers(trace.model):
            ref = trace.model["ref"]
            if measured:
                raise FloatlensError(f'{ref} has no attention; give {self.name} measure="contribution"')
            raise FloatlensError(f"{ref} has no attention, and {self.name} is about layers that have")
        trace.require(*(variable_of(measure, name) for name in self.requires))

    def settings(self, *args: P.args, **kwargs: P.kwargs) -> dict[str, Any]:
        """Every setting by name, with defaults filled in and an anchor rule by its full name."""
        found = self._bound(*args, **kwargs)
        return found | ({"rule": str(as_rule(found["rule"]))} if "rule" in found else {})

    def _bound(self, *args: P.args, **kwargs: P.kwargs) -> dict[str, Any]:
        bound = inspect.signature(self.measure).bind(None, *args, **kwargs)
        bound.apply_defaults()
        return dict(list(bound.arguments.items())[1:])


def analysis(
    name: str,
    *,
    requires: Iterable[str],
    words: Words | None = None,
    groups: Callable[[Trace], dict[str, Any]] = lambda trace: {"model": trace.model["ref"]},
    summarise: Callable[[Group], Iterable[Summary]] = no_summary,
    across: Across | None = None,
    optional: bool = False,
) -> Callable[[Callable[Concatenate[Trace, P], xr.Dataset]], Analysis[P]]:
    """Make an `Analysis` of a function from one trace to a dataset; it is registered by a line in `ANALYSES`.
    `requires` are the trace variables it reads, `groups` says which traces are samples of one thing (by default, a
    model), and `summarise` yields numbers of a whole group for the tables. `across` compares the traces of one
    question: from the `attrs` of their datasets to numbers that all of them then hold.
    `optional` says that its probe is off by default, so traces without it are no news unless it was asked for."""

    def make(measure: Callable[Concatenate[Trace, P], xr.Dataset]) -> Analysis[P]:
        told = words or Words(name.replace("_", " ").capitalize())
        made = Analysis(name, tuple(requires), measure, groups, summarise, told, across, optional)
        update_wrapper(made, measure, updated=())
        made.__doc__ = "\n\n".join(filter(None, [inspect.getdoc(measure), told.text()]))
        return made

    return make


@dataclass
class _Pile:
    """The samples of one group so far: a few numbers for each trace, not the traces. Variables with a step dimension
    are kept for a single trace only: traces differ in steps, and they are large."""

    like: xr.Dataset
    keys: dict[str, Any]
    facts: dict[str, Any]
    across: Across | None = None
    kept: list[Mapping[str, Any]] = field(default_factory=list)
    values: dict[str, list[Any]] = field(default_factory=dict)
    questions: list[str] = field(default_factory=list)
    data_sets: list[str] = field(default_factory=list)

    def add(self, sample: xr.Dataset, trace: Trace) -> None:
        """Keep the numbers of a sample, which must have the layers and heads of those before it."""
        alone = f"trace {len(self.questions)} of {', '.join(map(str, self.keys.values()))}"
        question = question_of(trace)
        self.questions.append(alone if question is None else question)
        self.data_sets.append(trace.data_set or "")
        if self.across is not None:
            self.kept.append(sample.attrs)
        if len(self.questions) > 1:
            sample, self.like = (one.drop_dims("step", errors="ignore") for one in (sample, self.like))
            self.values = {name: values for name, values in self.values.items() if name in self.like}
        for name, array in sample.data_vars.items():
            like = self.like[name]
            if array.dims != like.dims or any(not array[dim].equals(like[dim]) for dim in array.dims):
                raise FloatlensError(
                    f"the traces of {self.keys['model']} do not fit together: {name} does not have the same "
                    f"{', '.join(map(str, array.dims))} in all of them; analyse traces of one selection at a time"
                )
            self.values.setdefault(str(name), []).append(np.asarray(array.values, dtype=np.float64))

    def group(self) -> Group:
        """All samples, with the dimension `sample` first and the question and data set of each as coordinates."""
        data = {name: (("sample", *self.like[name].dims), np.stack(values)) for name, values in self.values.items()}
        about = {"question": ("sample", self.questions), "data_set": ("sample", self.data_sets)}
        samples = xr.Dataset(data, coords=self.like[list(data)].coords).assign_coords(about)
        if self.across is not None:
            samples = samples.assign(self._compared(self.across))
        return Group(self.keys, self.facts, samples)

    def _compared(self, across: Across) -> dict[str, Any]:
        """What the traces of each question say together, for each of them."""
        traces: dict[str, list[Mapping[str, Any]]] = {}
        for question, kept in zip(self.questions, self.kept, strict=True):
            traces.setdefault(question, []).append(kept)
        found = {question: across(kept) for question, kept in traces.items()}
        names = next(iter(found.values()))
        return {name: ("sample", np.array([found[one][name] for one in self.questions])) for name in names}


def analyse(
    traces: Traces,
    wanted: Mapping[str, Mapping[str, Any]] | Iterable[str],
    *,
    skipped: dict[str, str] | None = None,
) -> dict[str, Result]:
    """Several analyses in one pass over the traces, which are opened one after the other.

    `wanted` are names, or a mapping of names to settings. An analysis that the traces do not allow is an error, unless
    `skipped` is given: it then gets the name and the reason.

    Example: `analyse("runs/a", ["drift", "absorption"])["drift"]`
    """
    settings: Mapping[str, Mapping[str, Any]] = wanted if isinstance(wanted, Mapping) else {name: {} for name in wanted}
    return _walk(traces, {name: (ANALYSES[name], dict(given)) for name, given in settings.items()}, skipped)


def forget_optional(skipped: dict[str, str]) -> None:
    """Where all analyses were wanted: say nothing of those that need a probe which is off by default."""
    for name in [name for name in skipped if name in ANALYSES and ANALYSES[name].optional]:
        del skipped[name]


def with_settings(
    names: Iterable[str], rule: str | None = None, measure: Measure | None = None
) -> dict[str, dict[str, Any]]:
    """Settings of these analyses: the anchor rule and the measure for those that have one.
    Example: `analyse("runs/a", with_settings(ANALYSES, rule="top1"), skipped={})`"""
    if measure is not None:
        variable_of(measure, "received")  # reports one that is not known
    wanted = {name: value for name, value in (("rule", rule), ("measure", measure)) if value is not None}
    return {n: {name: value for name, value in wanted.items() if name in ANALYSES[n].settings()} for n in names}


_WITHOUT = "leave it out (analyses: in a study), or analyse fewer traces"


def _walk(
    traces: Traces,
    wanted: Mapping[str, tuple[Analysis[...], dict[str, Any]]],
    skipped: dict[str, str] | None = None,
) -> dict[str, Result]:
    whole = {name: one.settings(**given) for name, (one, given) in wanted.items()}  # a wrong one fails before any work
    chosen = dict(wanted)
    piles: dict[str, dict[tuple[tuple[str, Any], ...], _Pile]] = {name: {} for name in chosen}
    versions: dict[str, str] = {}
    for trace in each_trace(traces):
        versions = versions or {**trace.data.attrs["versions"], "analysis": __version__}
        facts = {**trace.model, "causal": trace.data.attrs["causal"]}
        for name, (one, given) in list(chosen.items()):
            try:
                one.check(trace, given)
                with enough_memory(f"analysing {name}", _WITHOUT):
                    keys, sample = one.groups(trace), one.measure(trace, **given)
            except FloatlensError as error:
                if skipped is None or isinstance(error.__cause__, MemoryError):
                    raise
                skipped[name] = str(error)
                del chosen[name]
                continue
            piles[name].setdefault(tuple(keys.items()), _Pile(sample, keys, facts, one.across)).add(sample, trace)
    if not versions:
        raise FloatlensError("no traces to analyse")
    groups = {name: tuple(pile.group() for pile in piles[name].values()) for name in chosen}
    return {
        name: Result(name, whole[name], groups[name], versions, one.summarise, one.words.by(whole[name].get("measure")))
        for name, (one, _) in chosen.items()
    }
