"""The values of the paper's Table 1: those that are known exactly, and consistent among themselves."""

from __future__ import annotations

import pytest

from floatlens.analysis.scores import AVERAGES, VALUES
from floatlens.data import SETS


def test_the_papers_table() -> None:
    assert VALUES["nq", "accuracy"]["LLaDA"] == (11.77, 55.30)
    assert {name for name, _ in VALUES} == {"nq"}  # the others are not known, so not there
    assert {name for name, _ in VALUES} <= set(SETS)
    for average in AVERAGES.values():  # the printed gain was rounded by itself
        assert average.gain == pytest.approx(average.rag - average.closed, abs=0.011)
