"""A recipe that takes seconds; the base and the data are fixtures of all tests."""

from __future__ import annotations

import pytest

from floatlens.adaptation import Recipe


@pytest.fixture(scope="session")
def data(world_data):
    return world_data


@pytest.fixture
def small():
    return Recipe(steps=4, rows=2, width=64, rank=2, learning_rate=5e-3, warmup=1)
