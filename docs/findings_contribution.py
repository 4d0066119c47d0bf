"""Attention beside contribution, for docs/findings.py: layer by layer in models that have both, and claims by
contribution on scale:mamba beside scale:llada.

A key that is attended to and writes little is a sink by attention and none by contribution. Both are measured on the
same passes: the share of the strongest key, and of the first position, above the uniform share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from gallery import DOCUMENTS, GOLD, QUESTIONS, SEED
from numpy.typing import NDArray

import floatlens as fl
from floatlens.analysis.intervals import estimate
from floatlens.analysis.measure import MEASURES
from floatlens.claims import claims, claims_frame
from floatlens.cli.terminal import say
from floatlens.data import open_data
from floatlens.probes.registry import CONTRIBUTION_PROBES
from floatlens.subjects.scale import bundled

__all__ = ["KEYS", "LIMIT", "compare_mamba", "disagreements", "draw", "measured", "of_models"]

KEYS = {"first position": "fixed", "strongest key": "floating"}
"""The keys that are compared, by their view in the analysis `absorption`."""
LIMIT = 5.0
"""Percentage points above uniform that make a sink of a key: the mass floor of the claims (docs/claims.md)."""
MOST = 0.3
"""Share of what a head's queries attend to that makes the first position a sink of the head [Gu]."""
Values = Mapping[tuple[str, str], NDArray[np.float64]]
Run = Callable[..., None]


def measured(trace: fl.Trace) -> Values:
    """Numbers by layer of one trace, by (quantity, measure): excess of each key in percentage points; percent of heads
    and steps in which the first position is a sink; percent of steps in which both measures name one strongest key."""
    found = {}
    for by in MEASURES:
        absorbed = fl.absorption(trace, measure=by).groups[0]
        views = absorbed.coordinate("absorbed", "view")
        for key, view in KEYS.items():
            found[key, by] = absorbed.values("excess")[0, views.index(view)]
        name = "received" if by == "attention" else "contribution"
        first = trace.data[name].isel(key=0).transpose("step", "layer", "head").values
        found["sink heads", by] = 100 * (first > MOST).mean(axis=(0, 2))
    strongest = [
        trace.data[name].mean("head").fillna(-1).transpose("step", "layer", "key").values.argmax(-1)
        for name in ("received", "contribution")
    ]
    found["same strongest key", "both"] = 100 * (strongest[0] == strongest[1]).mean(axis=0)
    return found


def disagreements(model: str, found: Iterable[Values]) -> pd.DataFrame:
    """A row for each quantity and layer: means over questions by attention and by contribution with 95 % intervals,
    their paired difference, and which of the two has a sink there."""
    traces, rows = list(found), []
    for quantity in (*KEYS, "sink heads"):
        of = {by: np.stack([one[quantity, by] for one in traces]) for by in MEASURES}
        same = np.stack([one["same strongest key", "both"] for one in traces]).mean(0)
        for layer in range(of["attention"].shape[1]):
            row: dict[str, Any] = {"model": model, "quantity": quantity, "layer": layer, "n": len(traces)}
            for name, values in (*of.items(), ("difference", of["attention"] - of["contribution"])):
                one = estimate(values[:, layer]).numbers
                row |= {name: one["mean"], f"{name}_low": one["low"], f"{name}_high": one["high"]}
            sink = [_sink(row, by) for by in MEASURES] if quantity in KEYS else []
            rows.append(row | {"sink": _named(sink), "same_key": same[layer] if quantity == "strongest key" else None})
    return pd.DataFrame(rows)


def _sink(row: Mapping[str, Any], by: str) -> bool | None:
    """Whether a key is a sink by a measure; None where its interval holds the limit, or there is none."""
    low, high = row[f"{by}_low"], row[f"{by}_high"]
    return True if low > LIMIT else False if high < LIMIT else None


def _named(sink: list[bool | None]) -> str:
    if not sink:
        return ""
    if None in sink:
        return "undecided"
    names = {(True, True): "both", (True, False): "attention only", (False, True): "contribution only"}
    return names.get((bool(sink[0]), bool(sink[1])), "neither")


def of_models(models: Mapping[str, tuple[str, int]], **how: Any) -> pd.DataFrame:
    """The same of models by reference, each with its data set and number of questions; `how` goes to `fl.trace`."""
    parts = []
    for ref, (data, count) in models.items():
        model, found = fl.load(ref), []
        for one in open_data(data, limit=count).examples():
            asked = {"question": one.question, "documents": one.documents, "answers": one.answers}
            found.append(measured(fl.trace(model, **asked, probes=["received", "contribution"], **how)))
        parts.append(disagreements(ref, found))
        say(f"{ref}: attention and contribution of {len(found)} questions")
    return pd.concat(parts, ignore_index=True)


def draw(found: pd.DataFrame, file: Path) -> None:
    """A panel for each key and model: percentage points above uniform, by layer."""
    from matplotlib.figure import Figure

    models = list(dict.fromkeys(found["model"]))
    figure = Figure(figsize=(2.6 * len(models), 4.6), layout="constrained")
    axes = figure.subplots(len(KEYS), len(models), squeeze=False, sharey="row")
    for row, key in zip(axes, KEYS, strict=True):
        for axis, model in zip(row, models, strict=True):
            own = found[(found["model"] == model) & (found["quantity"] == key)]
            for by, colour in zip(MEASURES, ("#1f5fa8", "#c2571a"), strict=True):
                axis.plot(own["layer"], own[by], color=colour, label=f"by {by}")
                low, high = (own[f"{by}_{end}"].astype(float) for end in ("low", "high"))
                axis.fill_between(own["layer"], low, high, color=colour, alpha=0.2, linewidth=0)
            axis.axhline(LIMIT, color="0.6", linewidth=0.8, linestyle=":")
            axis.set_title(f"{model}\n{key}", fontsize=9)
            axis.set_xlabel("layer")
        row[0].set_ylabel("points above uniform")
    axes[0][0].legend(fontsize=8)
    figure.savefig(file, dpi=160)


def compare_mamba(run: Run, runs: Path, kept: Path, count: int = QUESTIONS) -> None:
    """Claims by contribution on scale:mamba and scale:llada: the questions and places of docs/gallery.py, with a
    control of shuffled weights for each model."""
    if "mamba" not in bundled():
        say("contribution: scale:mamba is not bundled yet, so it is not compared with scale:llada")
        return
    traced = []
    for gold in GOLD:
        data = runs / f"data{gold}" / "rag.jsonl"
        if not data.is_file():
            data.parent.mkdir(parents=True, exist_ok=True)
            shape = ("--count", count, "--documents", DOCUMENTS, "--place", gold, "--seed", SEED)
            run("scale", "questions", "--out", data, *map(str, shape))
        traced.append(runs / f"gold{gold}")
        probes = ("--probes", ",".join(CONTRIBUTION_PROBES), "--controls", "1", "--no-report")
        run(
            "trace", "scale:mamba", "scale:llada", "--data", data, "--out", traced[-1], "--set", "gen_length=8", *probes
        )
    found = claims_frame(claims(traced, measure="contribution", skipped={}))
    found.to_csv(kept / "contribution-claims.csv", index=False)
