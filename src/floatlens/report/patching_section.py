"""The section on activation patching: one for each run with patched questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from floatlens.analysis.patching import patching_tables, without_effect
from floatlens.report.inputs import RunAnswers, run_name
from floatlens.report.sections import figures_of, table

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["patching_sections"]

_READING = (
    "In the pass that decides the first token of the answer, the states at a layer's strongest keys are replaced by "
    "those of a counterfactual prompt, whose documents state another answer. At 0 the answer stays, at 1 it moves "
    "all the way to that of the counterfactual prompt. Crosses are random other keys that receive as much attention: "
    "only a difference from them is due to the anchors."
)
_METHOD = (
    "The effect is the share of the way that the difference of two logits moves from its value for the original prompt "
    "to that for the counterfactual one; the tokens are those that the model puts first in its two answers. In the "
    "counterfactual prompt, another question's answer takes the place of the question's own in all documents and keeps "
    "the number of tokens. Each layer is patched alone; the position whose row decides is never patched."
)
_TERMS = [
    ("kv", "Keys and values of the patched positions are replaced inside the layer's attention."),
    ("residual", "The states that enter the layer at the patched positions are replaced."),
    ("anchors", "The k keys of a layer that receive the most attention."),
    ("control", "Random other keys, as many as it takes to receive as much; the mean over its draws."),
    ("difference", "Effect of anchors minus effect of the control, on the same questions."),
]
_TITLES = {
    "patching_mean": "Mean over layers, with intervals",
    "patching_difference": "Anchors minus control, by layer",
    "patching": "Effects by layer, with intervals",
}


def patching_sections(runs: Sequence[RunAnswers]) -> list[dict[str, Any]]:
    """Everything that the sections show, in the form of `answer_sections`."""
    held = [(run, run.patching) for run in runs if run.patching is not None and not run.patching.empty]
    names = [run for run, _ in held]
    return [
        _made(run, frame, "" if place == 0 else f"-{place + 1}")
        | {"run": None if len(held) == 1 else run_name(run, names), "of": run}
        for place, (run, frame) in enumerate(held)
    ]


def _made(run: RunAnswers, frame: pd.DataFrame, suffix: str) -> dict[str, Any]:
    tables = patching_tables(frame)
    return {
        "id": f"patching{suffix}",
        "suffix": suffix,
        "kind": "patch",
        "title": "Activation patching: do anchors carry the answer?",
        "short": "Patching",
        "reading": _READING,
        "notes": _notes(frame),
        "figures": figures_of("patching", tables, suffix),
        "tables": [
            {"id": f"{name}{suffix}", "title": title, "open": name == "patching_mean", "table": table(tables[name])}
            for name, title in _TITLES.items()
        ],
        "definition": {"summary": _METHOD, "terms": _TERMS, "used": _used(frame, run)},
    }


def _notes(frame: pd.DataFrame) -> list[str]:
    return [
        f"Left out: {lost} of {total} questions of {data} for {model}, where both answers begin with the same token."
        for model, data, lost, total in without_effect(frame)
    ]


def _used(frame: pd.DataFrame, run: RunAnswers) -> list[tuple[str, str]]:
    asked = frame.groupby(["model", "data"], sort=False)
    used = [(f"n, {model}, {data}", f"{own['id'].nunique()} questions") for (model, data), own in asked]
    settings = run.manifest.get("patching") or {}
    for key, words in (("k", "keys patched together"), ("rows", "rows that rank the keys"), ("draws", "control draws")):
        if key in settings:
            used.append((words, str(settings[key])))
    used.append(("prompt template", str(run.manifest.get("template"))))
    return [*used, ("intervals", "95 %, over questions; t intervals corrected for skewness (Hall 1992)")]
