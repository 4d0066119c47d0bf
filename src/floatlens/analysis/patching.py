"""What activation patching does, from the patching frame: effects by layer, anchors beside their random control.

An effect of 0 leaves the answer as it is, 1 moves it all the way to that of the counterfactual prompt. Questions whose
two answers begin with the same token have no effect and do not count.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from floatlens.analysis.intervals import Estimate, estimate
from floatlens.analysis.kernels import Floats, nanmean

__all__ = ["patching_differences", "patching_effects", "patching_means", "patching_tables", "without_effect"]

_WHO = ("model", "kind", "data", "what")
_NUMBERS = ("effect", "low", "high", "n")
_PARTS = ("anchors", "control")


def patching_effects(frame: pd.DataFrame) -> pd.DataFrame:
    """One row for each model, data set, kind of states, patched keys (anchors, control) and layer: the mean effect over
    questions with its interval, the attention that the patched keys receive (`mass`) and their number (`keys`).

    Example: `patching_effects(open_patching(Path("runs/qa"))).query("patched == 'anchors'")`
    """
    rows = []
    for who, own in _groups(frame):
        for patched in _PARTS:
            part = own[own["patched"] == patched]
            effect, mass, keys = (part.pivot(index="id", columns="layer", values=v) for v in ("effect", "mass", "keys"))
            found = _by_layer(estimate(effect.to_numpy(dtype=np.float64)))
            for layer, numbers in zip(effect.columns, found, strict=True):
                more = {"mass": mass[layer].mean(), "keys": keys[layer].mean()}
                rows.append(who | {"patched": patched, "layer": layer} | numbers | more)
    return pd.DataFrame(rows, columns=[*_WHO, "patched", "layer", *_NUMBERS, "mass", "keys"])


def patching_differences(frame: pd.DataFrame) -> pd.DataFrame:
    """One row for each model, data set, kind of states and layer: effect of anchors minus that of their control, over
    the same questions, with the paired interval.

    Example: `patching_differences(open_patching(Path("runs/qa"))).query("low > 0")`
    """
    rows = []
    for who, own in _groups(frame):
        anchors, control = _effects(own)
        for layer, numbers in zip(sorted(set(own["layer"])), _by_layer(estimate(anchors - control)), strict=True):
            rows.append(who | {"layer": layer} | numbers)
    return pd.DataFrame(rows, columns=[*_WHO, "layer", *_NUMBERS]).rename(columns={"effect": "difference"})


def patching_means(frame: pd.DataFrame) -> pd.DataFrame:
    """One row for each model, data set, kind of states and part: the effect averaged over layers, question by question,
    of anchors, of the control, and of anchors minus control (`difference`), with intervals over questions.

    Example: `patching_means(open_patching(Path("runs/qa"))).query("part == 'difference'")`
    """
    rows = []
    for who, own in _groups(frame):
        anchors, control = (nanmean(values.T) for values in _effects(own))  # (question,)
        for part, values in (("anchors", anchors), ("control", control), ("difference", anchors - control)):
            (numbers,) = _by_layer(estimate(values[:, None]))
            rows.append(who | {"part": part} | numbers)
    return pd.DataFrame(rows, columns=[*_WHO, "part", *_NUMBERS])


def patching_tables(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Every table by name; nothing where no question was patched."""
    if frame.empty:
        return {}
    return {
        "patching": patching_effects(frame),
        "patching_difference": patching_differences(frame),
        "patching_mean": patching_means(frame),
    }


def without_effect(frame: pd.DataFrame) -> list[tuple[str, str, int, int]]:
    """(model, data set, questions without an effect, all questions) wherever there are some without: the model begins
    its answers to both prompts with the same token."""
    found = []
    for (model, data), own in frame.groupby(["model", "data"], sort=False):
        defined = own.groupby("id")["effect"].apply(lambda values: values.notna().any())
        if not defined.all():
            found.append((str(model), str(data), int((~defined).sum()), len(defined)))
    return found


def _groups(frame: pd.DataFrame) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    for key, own in frame.groupby(["model", "model_kind", "data", "what"], sort=False):
        yield dict(zip(_WHO, key, strict=True)), own


def _effects(own: pd.DataFrame) -> tuple[Floats, Floats]:
    """Effects of anchors and of the control, (question, layer) each, with the same questions in the same order."""
    wide = own.pivot(index="id", columns=["patched", "layer"], values="effect").sort_index(axis=1)
    anchors, control = (wide[part].to_numpy(dtype=np.float64) for part in _PARTS)
    return anchors, control


def _by_layer(found: Estimate) -> list[dict[str, float]]:
    columns = [np.asarray(part).tolist() for part in (found.mean, found.low, found.high, found.n)]
    return [dict(zip(_NUMBERS, numbers, strict=True)) for numbers in zip(*columns, strict=True)]
