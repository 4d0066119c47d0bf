"""What the traces of a study tell edits that wait for them: which heads retrieve, and how the keys of a layer turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from floatlens.runs.refresh_schedules import schedule_for
from floatlens.runs.retrieval_heads import heads_for

if TYPE_CHECKING:
    import xarray as xr

    from floatlens.analysis import Group
    from floatlens.edits.spec import EditSpec

__all__ = ["REQUIRED", "Told"]

REQUIRED = {"retrieval scores": "retrieval_heads", "refresh schedule": "cacheability"}
"""The analysis whose variables must be in the traces, by what an edit needs."""


@dataclass(frozen=True)
class Told:
    """By model: copy scores (layer, head), and what the analysis `cacheability` found."""

    heads: Mapping[str, xr.DataArray] = field(default_factory=dict)
    drifts: Mapping[str, Group] = field(default_factory=dict)

    def settled(self, spec: EditSpec, model: str) -> EditSpec:
        """The edit with what it needs for this model; one that needs nothing as it is."""
        if "refresh schedule" in spec.build().needs:
            return schedule_for(spec, model, self.drifts)
        return heads_for(spec, model, self.heads)
