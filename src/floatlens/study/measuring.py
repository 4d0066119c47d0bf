"""One question traced under an edit, for what stands beside its answer: drift, absorption, attention moved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from floatlens.analysis import absorption, drift
from floatlens.capture.edits import Intervention
from floatlens.tracer import trace

if TYPE_CHECKING:
    from floatlens.config import AskConfig
    from floatlens.models import LanguageModel
    from floatlens.qa.answering import Asked

__all__ = ["measure"]


def measure(model: LanguageModel, asked: Asked, config: AskConfig) -> dict[str, float]:
    """Means over layers of: overlap of anchors from step to step, positions the strongest key moves per step, percent
    of attention on the first position and on the strongest key; and attention moved per row that was changed."""
    edits = [] if asked.edit is None else [asked.edit.build(model)]
    how: dict[str, Any] = {"sampler": config.decoding.sampler, **config.decoding.settings}
    found = trace(
        model,
        question=asked.example.question,
        documents=asked.example.documents,
        answers=asked.example.answers,
        template=config.prompt.template,
        chat=config.prompt.chat,
        probes=["received"],
        edits=edits,
        **how,
    )
    moves, absorbed = drift(found).groups[0], absorption(found).groups[0]
    shares = absorbed.values("absorbed")[0]
    values = {
        "overlap": moves.values("jaccard_by_layer"),
        "speed": moves.values("slope_by_layer"),
        "first position": shares[absorbed.coordinate("absorbed", "view").index("fixed")],
        "strongest key": shares[absorbed.coordinate("absorbed", "view").index("floating")],
    }
    kept = {name: float(np.nanmean(value)) for name, value in values.items() if np.isfinite(value).any()}
    changes = [change for edit in edits if isinstance(edit, Intervention) for change in edit.report()]
    rows = sum(change.rows for change in changes)
    return kept | ({"moved": sum(change.mass for change in changes) / rows} if rows else {})
