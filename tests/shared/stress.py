"""Stress tests by the name of the test or of a point's test, with default settings."""

from __future__ import annotations

from floatlens.data import Example
from floatlens.data.stress import Point, Pool, StressSettings

__all__ = ["apply", "unfit"]


def apply(example: Example, point: Point, pool: Pool, settings: StressSettings | None = None) -> Example:
    return (settings or StressSettings()).of(point.test).apply(example, point, pool)


def unfit(example: Example, test: str, settings: StressSettings | None = None, pool: Pool | None = None) -> str | None:
    return (settings or StressSettings()).of(test).unfit(example, pool)
