"""Stress tests (docs/stress.md): seeded transformations of questions and their documents, a series of points for each.

They take examples and return examples. They build no prompts, run no models and score nothing.

    noise, pool = StressSettings(seed=1).of("noise"), Pool.of(data.examples())
    stressed = [noise.apply(example, point, pool) for point in noise.points()]
"""

from floatlens.data.stress.base import Appended, Distinct, Point, StressTest
from floatlens.data.stress.pool import Pool
from floatlens.data.stress.settings import STRESS_TESTS, StressSettings, points, stress_names

__all__ = [
    "STRESS_TESTS",
    "Appended",
    "Distinct",
    "Point",
    "Pool",
    "StressSettings",
    "StressTest",
    "points",
    "stress_names",
]
