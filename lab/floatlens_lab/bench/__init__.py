"""`floatlens bench`: costs of capture, edits, digests and contributions, speed-up with two workers: ratios of one run.

Timing is reported, never asserted.
"""

from __future__ import annotations

from floatlens_lab.bench.contribution import ContributionMeasured, ContributionPlan, run_contribution
from floatlens_lab.bench.digests import DigestPlan, DigestsMeasured, run_digests
from floatlens_lab.bench.edits import EditPlan, EditsMeasured, run_edits
from floatlens_lab.bench.report import (
    as_markdown,
    contribution_as_markdown,
    digests_as_markdown,
    edits_as_markdown,
    save,
    save_contribution,
    save_digests,
    save_edits,
)
from floatlens_lab.bench.run import Measured, Plan, run

__all__ = [
    "ContributionMeasured",
    "ContributionPlan",
    "DigestPlan",
    "DigestsMeasured",
    "EditPlan",
    "EditsMeasured",
    "Measured",
    "Plan",
    "as_markdown",
    "contribution_as_markdown",
    "digests_as_markdown",
    "edits_as_markdown",
    "run",
    "run_contribution",
    "run_digests",
    "run_edits",
    "save",
    "save_contribution",
    "save_digests",
    "save_edits",
]
