"""Measurements beside an answer, from a trace of the same question: drift, absorption, attention moved by an edit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from floatlens.analysis import absorption, drift
from floatlens.analysis.drift import QUERIES
from floatlens.analysis.measure import Measure
from floatlens.attention.memory_budget import MemoryBudget, retry_with_smaller_blocks
from floatlens.traces.tracing import trace

if TYPE_CHECKING:
    from floatlens.attention.softmax import Workspace
    from floatlens.edits import Change, Edit
    from floatlens.evaluation.answers import AskConfig, Asked
    from floatlens.models import LanguageModel
    from floatlens.traces import Trace

__all__ = ["Measured", "measure", "measure_of"]

Moved = tuple[tuple[int, int, int, float], ...]
"""(step, layer, rows changed, attention moved in all of them) for each step and layer in which an edit acted."""


@dataclass(frozen=True)
class Measured:
    """Means over layers by name, what an edit moved, and warnings."""

    values: dict[str, float]
    moved: Moved | None
    said: tuple[str, ...] = ()


def measure(model: LanguageModel, asked: Asked, config: AskConfig, budget: MemoryBudget | None = None) -> Measured:
    """Means over layers, for the attention of all rows, or their contribution in a model of which some layers have no
    attention: overlap of anchors from step to step, positions the strongest anchor moves per step, percent of attention
    on the first position and on the strongest key, each also above what it would get under uniform attention; attention
    moved per row that was changed; and the edit's own numbers, see `Edit.numbers`."""
    said: list[str] = []
    otherwise = f"out of memory on {model.device}; set traces.edited (--traces) to 0, or show fewer documents"

    def attempt(workspace: Workspace) -> tuple[Trace, list[Change], dict[str, float]]:
        made = None if asked.edit is None else asked.edit.build()  # anew: its report is of one trace
        found = _trace(model, asked, config, made, workspace)
        return (found, [], {}) if made is None else (found, made.report(), made.numbers())

    found, changes, numbers = retry_with_smaller_blocks(budget or MemoryBudget(), attempt, said, otherwise)
    values = _means(found, measure_of(model)) | numbers
    rows = sum(change.rows for change in changes)
    if rows:
        values["moved"] = sum(change.mass for change in changes) / rows
    each = tuple((one.step, one.layer, one.rows, round(one.mass, 6)) for one in changes)
    return Measured(values, None if asked.edit is None else each, tuple(said))


def _trace(model: LanguageModel, asked: Asked, config: AskConfig, edit: Edit | None, workspace: Workspace) -> Trace:
    how: dict[str, Any] = {"sampler": config.decoding.sampler, **config.decoding.settings}
    return trace(
        model,
        question=asked.example.question,
        documents=asked.example.documents,
        answers=asked.example.answers,
        template=config.prompt.template,
        chat=config.prompt.chat,
        probes=["received" if measure_of(model) == "attention" else "contribution"],
        edits=[] if edit is None else [edit],
        workspace=workspace,
        **how,
    )


def measure_of(model: LanguageModel) -> Measure:
    """What is measured under edits of a model: attention, or contribution where not all layers have attention."""
    return "attention" if len(model.attention_layers) == model.num_layers else "contribution"


def _means(found: Trace, by: Measure) -> dict[str, float]:
    moves, absorbed = drift(found, measure=by).groups[0], absorption(found, measure=by).groups[0]
    views = absorbed.coordinate("absorbed", "view")
    first, strongest = views.index("fixed"), views.index("floating")
    share, excess = absorbed.values("absorbed")[0], absorbed.values("excess")[0]
    values = {
        "overlap": moves.values("jaccard_by_layer")[0, QUERIES.index("all")],
        "speed": moves.values("slope_by_layer")[0, QUERIES.index("all")],
        "first position": share[first],
        "first position, above uniform": excess[first],
        "strongest key": share[strongest],
        "strongest key, above uniform": excess[strongest],
    }
    return {name: float(np.nanmean(value)) for name, value in values.items() if np.isfinite(value).any()}
