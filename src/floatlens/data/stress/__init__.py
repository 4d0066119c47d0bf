"""Stress tests (docs/stress.md): seeded transformations of questions and their documents, a series of points for each.

They take examples and return examples. They build no prompts, run no models and score nothing.

    settings = StressSettings(seed=1)
    pool = Pool.of(data.examples())
    for point in points("noise", settings):
        stressed = apply(example, point, pool, settings)
"""

from floatlens.data.stress.base import Appended, Distinct, OnAxis, Point, StressTest
from floatlens.data.stress.pool import Pool
from floatlens.data.stress.settings import STRESS_TESTS, StressSettings, apply, points, stress_names, unfit

__all__ = [
    "STRESS_TESTS",
    "Appended",
    "Distinct",
    "OnAxis",
    "Point",
    "Pool",
    "StressSettings",
    "StressTest",
    "apply",
    "points",
    "stress_names",
    "unfit",
]
