"""The looks of all figures: Okabe and Ito's colours, a look per model, short names, small print."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from floatlens.analysis.intervals import Estimate
from floatlens.analysis.measure import coverage
from floatlens.analysis.rules import as_rule
from floatlens.plots.description import SHUFFLED, Look, Series, series

if TYPE_CHECKING:
    from floatlens.analysis.result import Group, Result

__all__ = [
    "by_layer",
    "colours",
    "depth_series",
    "group_series",
    "label_of",
    "looks",
    "looks_of",
    "note",
    "piece",
    "shared_looks",
    "span",
]

_NAMED = {"llama": "#0072B2", "qwen": "#56B4E9", "llada": "#D55E00", "dream": "#E69F00"}
_REST = ("#009E73", "#CC79A7", "#000000", "#F0E442")
_MARKERS = "osD^v<"
_SHARED: ContextVar[Mapping[str, Look]] = ContextVar("shared looks", default=MappingProxyType({}))


# -- models -----------------------------------------------------------------------------------------------------------


def label_of(model: str, among: Iterable[str] = ()) -> str:
    """A model's short name, the last part of a path; the whole name where two models share the short one."""
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
    """The look of every model of the groups, in their order; controls have one of their own."""
    every = list(groups)
    own = looks_of({group.model: str(group.facts.get("kind", "mdm")) for group in every if group.control is None})
    names = [group.model for group in every]
    controls = {name: replace(SHUFFLED, label=label_of(name, names)) for name in names if name not in own}
    return {name: own.get(name) or controls[name] for name in names}


def looks_of(kinds: Mapping[str, str]) -> dict[str, Look]:
    """The look of every model, given its kind ("arm" or "mdm"); the shared ones where all models have one.

    Example: `looks_of({"scale:llada": "mdm"})`
    """
    shared = _SHARED.get()
    if all(model in shared for model in kinds):
        return {model: shared[model] for model in kinds}
    colour = colours(list(kinds))
    made = {}
    for i, (model, kind) in enumerate(kinds.items()):
        arm, marker = kind == "arm", _MARKERS[i % len(_MARKERS)]
        made[model] = Look(label_of(model, kinds), colour[model], marker, "dashed" if arm else "solid", arm, kind)
    return made


@contextmanager
def shared_looks(style: Mapping[str, Look]) -> Iterator[None]:
    """While figures are described: these looks for their models, so one report draws each model in one way."""
    token = _SHARED.set(style)
    try:
        yield
    finally:
        _SHARED.reset(token)


# -- numbers over depth -----------------------------------------------------------------------------------------------


def by_layer(group: Group, variable: str, over: str = "layer", **at: Any) -> tuple[list[Any], Estimate]:
    """A group's layers (or the labels of another dimension, the last) and the estimate of a variable over them, at one
    label of each other dimension."""
    found = group.estimate(variable)
    index = tuple(group.coordinate(variable, dim).index(value) for dim, value in at.items())
    parts = (np.asarray(part)[index] for part in (found.mean, found.std, found.low, found.high, found.n))
    return group.coordinate(variable, over), Estimate(*parts)


def depth_series(
    result: Result, variable: str, style: Mapping[str, Look] | None = None, **at: Any
) -> tuple[Series, ...]:
    """One line per group over its layers (`over="lag"`: over lags); a variable that has heads is averaged over them."""
    style = style or looks(result)
    found = []
    for group in result:
        if variable in group.samples and "head" in group.samples[variable].dims:
            layers, values = group.coordinate(variable, "layer"), group.estimate(variable, over="head")
        else:
            layers, values = by_layer(group, variable, **at)
        found.append(group_series(group, style, layers, values))
    return tuple(found)


def group_series(group: Group, style: Mapping[str, Look], x: Iterable[Any], found: Estimate) -> Series:
    """The line of a group over x; that of a control is thin and grey."""
    return series(style[group.model], x, found, role="" if group.control is None else "shuffled")


# -- words ------------------------------------------------------------------------------------------------------------


def piece(text: str, longest: int = 14) -> str:
    """A token as it can be printed on one line: no leading space, signs for white space, cut where it is long."""
    bare = text.replace("\u010a", "\n").lstrip("\u0120\u2581 ") or "␣"
    for sign, shown in (("\r", ""), ("\n", "↵"), ("\t", "⇥"), ("\u0120", "␣"), ("\u2581", "␣")):
        bare = bare.replace(sign, shown)
    bare = "".join(char if char.isprintable() else "�" for char in bare)
    return bare if len(bare) <= longest else bare[: longest - 1] + "…"


def note(*results: Result, intervals: str = "bands") -> str:
    """What the numbers of a figure rest on: anchor rule, query group, number of questions, and what shows intervals."""
    words: dict[str, None] = {}
    results = tuple(result.without_controls() for result in results)
    for result in results:
        if result.settings.get("measure", "attention") != "attention":
            words[f"by {result.settings['measure']}"] = None
        elif any(said := coverage(group.facts) for group in result if "layers" in group.facts):
            words[said] = None
        if "rule" in result.settings:
            words[f"anchors: {as_rule(result.settings['rule'])}"] = None
        if result.settings.get("group", "all") != "all":
            words[f"{result.settings['group']} queries"] = None
    counts = sorted({group.n for result in results for group in result})
    by_gold = any("gold" in group.keys for result in results for group in result)
    words[f"n = {span(counts)} questions per model{' and gold position' if by_gold else ''}"] = None
    if intervals:
        several = bool(counts) and counts[-1] > 1
        words[f"{intervals}: 95 % interval of the mean" if several else "one question: no interval"] = None
    return " · ".join(words)


def span(counts: Sequence[int]) -> str:
    """Counts in a few signs: `12`, or `8–12`."""
    least, most = (min(counts), max(counts)) if counts else (0, 0)
    return f"{least}" if least == most else f"{least}–{most}"
