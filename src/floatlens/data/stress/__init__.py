"""Stress tests (docs/stress.md): seeded transformations of questions and their documents, one for every point.

They take examples and give examples. They build no prompts, run no models and score nothing.

    settings = StressSettings(seed=1)
    pool = Pool.of(data.examples())
    for point in points("noise", settings):
        stressed = apply(example, point, pool, settings)
"""

from floatlens.data.stress.points import TESTS, Point, StressSettings, Test, points
from floatlens.data.stress.pool import Pool
from floatlens.data.stress.transform import apply, unfit

__all__ = ["TESTS", "Point", "Pool", "StressSettings", "Test", "apply", "points", "unfit"]
