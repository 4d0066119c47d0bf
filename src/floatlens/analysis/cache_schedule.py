"""How often to refresh a key/value cache (methods §16): intervals from traces, what they cost, which one to use.

The rules are fixed here. **Interval**: a key that is kept for n − 1 steps is away from the true one by at most n − 1
times the angle of one step (angles obey the triangle inequality), so a layer's interval is the largest power of two n,
no longer than the traces, with (n − 1) × mean angle ≤ arccos(`least`). Powers of two make the refreshes of layers
coincide. **Recommendation**: of all that was tried, the largest saving whose accuracy is at most `within` percentage
points below that with full recomputation; of equal savings the one with the smaller KL divergence. It is chosen on
the first questions and reported on the others, since the best of several schedules looks better than it is on the
questions that it was chosen on.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd

from floatlens.analysis.conditions import draws_of
from floatlens.analysis.intervals import estimate, share_difference
from floatlens.analysis.result import Group, Result
from floatlens.edits.schedule import intervals_of
from floatlens.probes.shares import SHARES
from floatlens.records.condition import RAG, Edited

__all__ = ["CACHE_EDIT", "Choose", "cache_layers", "cache_schedules", "interval", "schedule_of", "tried"]

CACHE_EDIT = "stale"
"""The edit that stands for a cache, by name."""
_SCHEDULE_COLUMNS = (
    *("model", "edit", "settings", "control", "draws", "schedule", "saved", "saved_passes"),
    *("full", "accuracy", "change", "low", "high", "kl", "kl_low", "kl_high", "n"),
    *("choice_change", "choice_saved", "choice_kl", "choice_n", "held_out", "recommended"),
)
_NUMBERS = ("mean", "low", "high")
_SAVED = ("saved_share", "saved_passes")
Choose = int | Literal["half", "all"]
"""Which questions a schedule is chosen on: the first N of each data set, their first half, or all."""


def interval(turn: float, least: float, most: int) -> int:
    """Steps from one refresh to the next of a layer whose known keys and values turn by `turn` degrees per step; at
    most `most`, and 1 where the angle is not known.

    Example: `interval(5.0, 0.9, 64)  # 4: three steps turn by 15 degrees, seven by 35, and arccos(0.9) is 25.8`
    """
    room, found = math.degrees(math.acos(min(1.0, least))), 1
    while not math.isnan(turn) and 2 * found <= most and (2 * found - 1) * turn <= room:
        found *= 2
    return found


def schedule_of(group: Group, least: float) -> dict[int, int]:
    """The interval of each layer, from the traces of one model under the analysis `cacheability`."""
    turns, steps = group.estimate("turn").mean, group.values("steps")
    most = int(np.nanmin(steps)) if len(steps) else 1
    layers = group.coordinate("turn", "layer")
    return {int(layer): interval(float(turn), least, most) for layer, turn in zip(layers, turns, strict=True)}


def tried(answers: pd.DataFrame) -> pd.DataFrame:
    """The answers under edits that stand for a cache, with the unedited answers that they are compared with."""
    cached = answers["condition"].map(lambda one: isinstance(one, Edited) and one.name == CACHE_EDIT).astype(bool)
    sets = set(answers.loc[cached, "data"])
    return answers[cached | ((answers["kind"] == "rag") & answers["data"].isin(sets))]


def cache_schedules(answers: pd.DataFrame, within: float = 1.0, choose: Choose = "half") -> pd.DataFrame:
    """One row for each model and schedule that was tried, and for its random control: share of the multiplications of
    all passes saved, the same in passes, accuracy (`full`: with full recomputation), its change, KL divergence, all
    over the questions of all data sets that were answered both ways; `recommended` is set in at most one row of a
    model.

    Numbers are those of the questions that are left when the recommendation has been chosen: on the first `choose` of
    each data set, on their first half, or on all, which then are reported, too (`held_out` is False). The columns
    `choice_…` are those of the questions it was chosen on.

    Example: `cache_schedules(open_answers(Path("runs/cache"))[0]).query("recommended")`
    """
    rows: list[dict[str, Any]] = []
    for model, own in tried(answers).groupby("model", sort=False):
        named = own.assign(id=own["data"] + "\n" + own["id"].astype(str))
        rows += ({"model": model} | row for row in _rows(named, _chosen_on(named, choose)))
    frame = pd.DataFrame(rows, columns=list(_SCHEDULE_COLUMNS[:-1]))
    return frame.assign(recommended=_recommended(frame, within))


def _chosen_on(own: pd.DataFrame, choose: Choose) -> set[str]:
    """Ids of the questions that the recommendation is chosen on; all where no others would be left."""
    found: set[str] = set()
    for _, part in own[own["condition"] == RAG].groupby("data", sort=False):
        places = part["index"].sort_values()
        below = choose if isinstance(choose, int) else places.iloc[(len(places) - 1) // 2] + 1
        found |= set(part["id"] if choose == "all" else part.loc[part["index"] < below, "id"])
    return found


def _rows(own: pd.DataFrame, chosen_on: Collection[str]) -> Iterator[dict[str, Any]]:
    """Of one model; ids are those of questions over all data sets."""
    draws = draws_of(own)
    by = {name: own.pivot(index="id", columns="condition", values=name) for name in ("accuracy", "kl", *_SAVED)}
    for one, drawn in draws.items() if RAG in by["accuracy"].columns else ():
        both = by["accuracy"][[RAG, *drawn]].astype(float)
        pair = pd.DataFrame({"full": both[RAG], "edited": both[drawn].mean(axis=1)}).dropna()
        if pair.empty:
            continue
        for name, column in (("kl", "kl"), *zip(("saved", "saved_passes"), _SAVED, strict=True)):
            pair[name] = by[column].loc[pair.index, drawn].astype(float).mean(axis=1)
        choice, rest = pair[pair.index.isin(chosen_on)], pair[~pair.index.isin(chosen_on)]
        held_out = not (choice.empty or rest.empty)
        choice, pair = (choice, rest) if held_out else (pair, pair)
        used = own.loc[own["condition"].isin(drawn), "schedule"].dropna().unique()
        change = share_difference(pair["edited"].to_numpy(), pair["full"].to_numpy(), paired=True).numbers
        kl = pair["kl"].dropna().to_numpy()
        told = estimate(kl).numbers if len(kl) else dict.fromkeys(_NUMBERS, math.nan)
        yield {
            "edit": one.name,
            "settings": one.settings_label,
            "control": one.control or "",
            "draws": len(drawn),
            "schedule": " | ".join(sorted(used)),
            "saved": float(pair["saved"].mean()),
            "saved_passes": float(pair["saved_passes"].mean()),
            "full": float(pair["full"].mean()),
            "accuracy": float(pair["edited"].mean()),
            **{name: change[key] for name, key in zip(("change", "low", "high"), _NUMBERS, strict=True)},
            **{name: told[key] for name, key in zip(("kl", "kl_low", "kl_high"), _NUMBERS, strict=True)},
            "n": len(pair),
            "choice_change": float((choice["edited"] - choice["full"]).mean()),
            "choice_saved": float(choice["saved"].mean()),
            "choice_kl": float(choice["kl"].mean()),
            "choice_n": len(choice),
            "held_out": held_out,
        }


def _recommended(frame: pd.DataFrame, within: float) -> list[bool]:
    """For each row whether it is the recommendation for its model."""
    cheap = (100 * frame["choice_change"] >= -within - 1e-9) & (frame["choice_saved"] > 0)
    fitting = frame[(frame["control"] == "") & cheap]
    fitting = fitting.assign(place=fitting.index)  # last of all the later row, which has the milder dose of `least`
    order = ["choice_saved", "choice_kl", "place"]
    best = fitting.sort_values(order, ascending=[False, True, False]).groupby("model").head(1)
    return [place in best.index for place in frame.index]


def cache_layers(result: Result, schedules: pd.DataFrame | None = None) -> pd.DataFrame:
    """One row for each model and layer: how far known keys turn, how many keys hold 90, 95, 99 % of a row, and, with
    the frame of `cache_schedules`, the steps from one refresh to the next in the recommended schedule.

    Example: `cache_layers(fl.cacheability("runs/cache"))`
    """
    rows: list[dict[str, Any]] = []
    for group in result.without_controls():
        intervals = _intervals(group.model, schedules)
        numbers = {name: group.estimate(name).mean for name in ("turn", "top", *_KEYS)}
        for place, layer in enumerate(group.coordinate("turn", "layer")):
            row: dict[str, Any] = {
                "model": group.model,
                "layer": int(layer),
                "refresh": intervals.get(int(layer), math.nan),
            }
            row |= {name: float(values[place]) for name, values in numbers.items()}
            rows.append(row | {name: _whole(row[name]) for name in _KEYS} | {"questions": group.n})
    return pd.DataFrame(rows, columns=["model", "layer", "refresh", "turn", "top", *_KEYS, "questions"])


_KEYS = tuple(f"keys_{100 * share:.0f}" for share in SHARES)


def _whole(keys: float) -> float:
    """A number of keys to keep: what is needed on average, rounded up."""
    return float(np.ceil(np.asarray(keys, dtype=np.float64) - 1e-6))


def _intervals(model: str, schedules: pd.DataFrame | None) -> Mapping[int, int]:
    """Of the recommended schedule; nothing where there is none, it is a rule, or questions had different ones."""
    if schedules is None:
        return {}
    best = schedules[(schedules["model"] == model) & schedules["recommended"]]
    text = "" if best.empty else str(best.iloc[0]["schedule"])
    return intervals_of(text) if text and "|" not in text else {}
