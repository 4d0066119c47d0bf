"""`floatlens bench`: cost of capture and edits and speed-up with two workers, as ratios measured in one run.

Timing is reported, never asserted.
"""

from __future__ import annotations

from floatlens_lab.bench.edits import EditPlan, EditsMeasured, run_edits
from floatlens_lab.bench.report import as_markdown, edits_as_markdown, save, save_edits
from floatlens_lab.bench.run import Measured, Plan, run

__all__ = [
    "EditPlan",
    "EditsMeasured",
    "Measured",
    "Plan",
    "as_markdown",
    "edits_as_markdown",
    "run",
    "run_edits",
    "save",
    "save_edits",
]
