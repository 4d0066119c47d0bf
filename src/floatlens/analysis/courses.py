"""Training steps as coordinates and columns: where models are snapshots of a training course, results say of which
course and at which step. Results without such models stay as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

__all__ = ["Course", "training_coords", "with_training"]

Course = Mapping[str, Any]
"""`name`, `step`, `tokens` and `origin`, as traces and manifests hold them."""


def training_coords(courses: Sequence[Course | None]) -> dict[str, list[Any]]:
    """Name of the course ("": none) and training step (NaN: none) of each group; nothing where all are None."""
    if not any(courses):
        return {}
    names = ["" if one is None else str(one["name"]) for one in courses]
    return {"course": names, "training_step": [np.nan if one is None else float(one["step"]) for one in courses]}


def with_training(frame: pd.DataFrame, courses: Mapping[str, Course | None]) -> pd.DataFrame:
    """A table by model with the columns course and training_step after the model, empty for models that are no
    snapshot; the same table where none of `courses`, by model, is one."""
    if not any(courses.values()):
        return frame
    made = frame.reset_index(drop=True)
    of = [courses.get(model) for model in made["model"]]
    steps = pd.Series([None if one is None else one["step"] for one in of], dtype="Int64")
    place = list(made.columns).index("model") + 1
    made.insert(place, "course", [None if one is None else one["name"] for one in of])
    made.insert(place + 1, "training_step", steps)
    return made
