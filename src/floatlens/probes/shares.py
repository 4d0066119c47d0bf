"""Classes that the probe `cacheability` counts by, for readers that do without torch."""

from __future__ import annotations

__all__ = ["DISTANCES", "SHARES"]

SHARES = (0.90, 0.95, 0.99)
"""Shares of a row that the fewest keys are counted for."""
DISTANCES = (1, 2, 4, 8, 16, 32, 64)
"""Smallest distance of each class of masked positions ahead of a row; the last is open."""
