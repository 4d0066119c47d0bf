"""Refresh schedules of caches, for `stale:least=…`: from what traces show of keys, model by model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from floatlens.core.errors import FloatlensError
from floatlens.edits.schedule import written

if TYPE_CHECKING:
    from floatlens.analysis import Group
    from floatlens.edits.spec import EditSpec

__all__ = ["key_drifts", "schedule_for"]


def key_drifts(files: Sequence[Path]) -> dict[str, Group]:
    """What the analysis `cacheability` finds for each model, from trace files; nothing without files."""
    from floatlens.analysis import cacheability

    return {group.model: group for group in cacheability(files).groups} if files else {}


def schedule_for(spec: EditSpec, model: str, drifts: Mapping[str, Group]) -> EditSpec:
    """The edit with `least=x` replaced by the schedule of the model, see `cache_schedule.interval`."""
    from floatlens.analysis.cache_schedule import schedule_of

    given = dict(spec.settings)
    least = given.pop("least")
    if model not in drifts:
        raise FloatlensError(
            f"{spec.label}: no trace of {model}, so how its keys turn is not known; trace questions with the probe "
            "cacheability"
        )
    schedule = schedule_of(drifts[model], least)
    return replace(spec, settings=(("schedule", written(schedule)), *given.items()))
