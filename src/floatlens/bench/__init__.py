"""`floatlens bench`: what capture costs and what a second worker brings, as ratios measured in one run.

Timing is reported, never asserted.
"""

from __future__ import annotations

from floatlens.bench.report import as_markdown, save
from floatlens.bench.run import Measured, Plan, run

__all__ = ["Measured", "Plan", "as_markdown", "run", "save"]
