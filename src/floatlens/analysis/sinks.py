"""Sink rate per head (methods §12a): which heads have a sink [Gu, ε = 0.3], which key it is, and what it follows.

A sink keeps its place because of its position or because of its token. Traces of one question with the documents in
different orders tell the two apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from floatlens.analysis.anchors import GROUPS, QueryGroup, columns_of
from floatlens.analysis.description import Variable, Words
from floatlens.analysis.flow import documents_of
from floatlens.analysis.kernels import Floats, nanmean
from floatlens.analysis.registry import analysis
from floatlens.analysis.token_classes import classes_of
from floatlens.core.errors import FloatlensError
from floatlens.prompts.words import CLASSES
from floatlens.traces import Trace

__all__ = ["IDENTITY", "KINDS", "sinks"]

Ints = NDArray[np.int64]
KINDS = ("any", "first", "special", "mask", "other")
"""What the strongest sink of a step is: the first position, another special token, a mask, any other token."""
IDENTITY = ("follows_position", "follows_token", "position_beyond_chance", "token_beyond_chance", "moved_sinks")
FEWEST_QUERIES, FEWEST_SHARE = 8, 0.05
"""A key counts if at least so many queries see it, and this share of them: the mean over a handful is noise."""
_MOST = 0.5  # share of the steps in which a lasting sink is one
WORDS = Words(
    "Sinks",
    "Which heads have a sink?",
    reading="Each cell is a head: the share of steps in which one key receives more than 0.3 of the attention of the "
    "queries that see it. The second figure says what the sinks are, and whether a sink inside a document stays at its "
    "position or goes with its token when the documents change places: 1 is always, 0 is no more often than by chance.",
    method="Per head. Attention on a key is the mean over the queries that see it; keys that fewer than "
    f"{FEWEST_QUERIES} queries, or fewer than {FEWEST_SHARE:.0%} of them, see do not count. The kind is that of the "
    "strongest sink of a step. What a sink follows is measured on lasting sinks (in more than half of the steps) "
    "inside documents, over pairs of traces of one question in which the document is at different positions. Other "
    "keys do not move and do not count.",
    variables={
        "rate": Variable("sink rate", "Share of the steps in which the head has a sink (of a kind)."),
        "sink_heads": Variable("sink heads", "Share of the heads with a sink rate above 0.5 (for sinks of a kind)."),
        "follows_position": Variable(
            "follows the position",
            "Share of lasting sinks whose position is a sink of the head in the other trace too.",
        ),
        "follows_token": Variable(
            "follows the token", "Share whose token (same document, same place in it) is a sink of the head there."
        ),
        "position_beyond_chance": Variable(
            "position, beyond chance",
            "`follows_position` minus the share of other keys of moved documents whose position is a sink there.",
        ),
        "token_beyond_chance": Variable(
            "token, beyond chance", "`follows_token` minus the same share for the tokens of other keys."
        ),
        "moved_sinks": Variable("sinks compared", "Number of lasting sinks in documents that changed places."),
    },
)


@dataclass(frozen=True)
class _Kept:
    """What of a trace is compared with another: (sink, 3) layer, head and key of lasting sinks, and the positions of
    each document by its token ids."""

    sinks: Ints
    documents: Mapping[bytes, Ints]


def compare(traces: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """What sinks follow, over all pairs of a question's traces; NaN where no sink is in a document that moved."""
    pairs = [(_moved(a["kept"], b["kept"]), a["kept"], b["kept"]) for a, b in permutations(traces, 2)]
    parts = [_followed(moved, a, b) for moved, a, b in pairs if moved]
    found = np.concatenate(parts) if parts else np.empty((0, 4))
    position, token, by_position, by_token = nanmean(found)
    values = (position, token, position - by_position, token - by_token, len(found) if parts else np.nan)
    return dict(zip(IDENTITY, map(float, values), strict=True))


def _moved(a: _Kept, b: _Kept) -> dict[int, int]:
    """Positions of document tokens in `a` that are at another position in `b`, and that position."""
    both = [(a.documents[text].tolist(), b.documents[text].tolist()) for text in a.documents if text in b.documents]
    return {x: y for here, there in both for x, y in zip(here, there, strict=True) if x != y}


def _followed(moved: Mapping[int, int], a: _Kept, b: _Kept) -> Floats:
    """(sink, 4) for the sinks of `a` that moved: whether their position is a sink in `b`, whether their token is, and
    how likely each is for another key that moved."""
    sinks_of: dict[tuple[int, int], set[int]] = {}
    for layer, head, key in b.sinks.tolist():
        sinks_of.setdefault((layer, head), set()).add(key)
    images, found = set(moved.values()), []
    for layer, head, key in a.sinks.tolist():
        if key not in moved:
            continue
        there, goal, rest = sinks_of.get((layer, head), set()), moved[key], max(len(moved) - 1, 1)
        by_position, by_token = len((there & moved.keys()) - {key}), len((there & images) - {goal})
        found.append((key in there, goal in there, by_position / rest, by_token / rest))
    return np.array(found, dtype=np.float64).reshape(-1, 4)


@analysis("sinks", requires=("received",), words=WORDS, across=compare)
def sinks(trace: Trace, *, above: float = 0.3, group: QueryGroup = "all") -> xr.Dataset:
    """Sink rate by kind, layer and head; with several orders of the documents, what sinks follow.

    Example: `fl.sinks(traces).rate.sel(kind="any").mean  # model × layer × head`
    """
    if not 0 < above < 1:
        raise FloatlensError(f"above={above}; give a number between 0 and 1")
    trace.require(GROUPS[group])
    received = trace.data[GROUPS[group]]
    if "head" not in received.dims:
        raise FloatlensError('this trace was made with heads="mean"; trace again with heads="all" to look at each head')
    kinds = _kinds(trace)
    rates, lasting = [], []
    for layer in range(received.sizes["layer"]):  # one after the other: all heads at once would take much memory
        rate, keys = _layer(trace, received.values[:, layer].astype(np.float64), group, above, kinds)
        rates.append(rate)
        lasting.append(np.insert(keys, 0, layer, axis=1))
    rate = np.stack(rates, axis=1)  # (kind, layer, head)
    heads = nanmean(np.where(np.isnan(rate), np.nan, rate > _MOST), axis=(1, 2))
    data = {"rate": (("kind", "layer", "head"), rate), "sink_heads": (("kind",), heads)}
    coords = {"kind": list(KINDS), **{dim: received[dim].values for dim in ("layer", "head")}}
    return xr.Dataset(data, coords, attrs={"kept": _Kept(np.concatenate(lasting), _documents(trace))})


def _layer(trace: Trace, share: Floats, group: QueryGroup, above: float, kinds: Ints) -> tuple[Floats, Ints]:
    """(kind, head) rates and (sink, 2) head and key of lasting sinks, from shares (step, head, key)."""
    columns = columns_of(trace, share, group, "visible")
    counted = columns.present & (columns.seen >= np.maximum(FEWEST_QUERIES, FEWEST_SHARE * columns.asking[..., None]))
    value = np.where(counted & ~np.isnan(columns.value), columns.value, -np.inf)  # (step, head, key)
    defined = np.isfinite(value).any(axis=-1)  # (step, head)
    strongest = value.argmax(axis=-1)
    found = np.where(value.max(axis=-1) > above, np.take_along_axis(kinds, strongest, axis=1), -1)
    each = np.stack([found >= 0, *(found == kind for kind in range(len(KINDS) - 1))]).astype(np.float64)
    rate = nanmean(np.where(defined, each, np.nan), axis=1)
    with np.errstate(invalid="ignore"):
        often = (value > above).sum(axis=0) / defined.sum(axis=0)[:, None]
    return rate, np.argwhere(often > _MOST)


def _kinds(trace: Trace) -> Ints:
    """(step, key): the kind of each key at each step, as its place in `KINDS` after "any"."""
    classes = classes_of(trace)
    special, mask = (classes[CLASSES.index(name)] for name in ("special", "mask"))
    found = np.where(special, 1, np.where(mask, 2, 3))
    found[:, 0] = 0
    return np.asarray(found, dtype=np.int64)


def _documents(trace: Trace) -> dict[bytes, Ints]:
    """The positions of each document, by its token ids; without documents that are there twice."""
    final, region_of = trace.data["final"].values, trace.data["region_of"].values
    found: dict[bytes, list[Ints]] = {}
    for name in documents_of(trace):
        places = np.flatnonzero(region_of == trace.regions.index(name))
        found.setdefault(final[places].tobytes(), []).append(places)
    return {text: places[0] for text, places in found.items() if len(places) == 1}
