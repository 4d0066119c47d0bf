"""Stress tests by the name of the test or of a point's test, with default settings; and short names of points."""

from __future__ import annotations

from collections.abc import Sequence

from floatlens.data import Example
from floatlens.data.stress import Point, Pool, StressSettings

__all__ = ["apply", "name_of", "points", "unfit"]


def points(test: str, settings: StressSettings | None = None) -> Sequence[Point]:
    return (settings or StressSettings()).of(test).points()


def apply(example: Example, point: Point, pool: Pool, settings: StressSettings | None = None) -> Example:
    return (settings or StressSettings()).of(point.test).apply(example, point, pool)


def unfit(example: Example, test: str, settings: StressSettings | None = None, pool: Pool | None = None) -> str | None:
    return (settings or StressSettings()).of(test).unfit(example, pool)


def name_of(point: Point) -> str:
    """A name for tests: `noise-0.2`, `distractor-topic-4`, `layout-split`."""
    if not point.point:
        return point.test
    place = point.point if point.point.isalpha() else f"{point.x:.12g}"
    return "-".join([point.test, *([point.series] if point.series != point.test else []), place])
