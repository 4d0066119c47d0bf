"""Groups of plain arrays: what an analysis would have found, drawn sample by sample.

A study takes less than a millisecond, and making its datasets would take most of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from floatlens.analysis import Group

__all__ = ["Floats", "Simulated", "simulated"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Simulated(Group):
    """A group whose variables are `arrays` (sample, …) by name; `asked` are the questions of its samples. With `rows`,
    those rows of the arrays are its samples."""

    arrays: Mapping[str, Floats] = field(default_factory=dict)
    asked: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    rows: NDArray[np.int64] | None = None

    @property
    def questions(self) -> tuple[str, ...]:
        return self.asked

    @property
    def data_sets(self) -> tuple[str, ...]:
        return self.sets or ("",) * len(self.asked)

    @property
    def traces(self) -> int:
        return len(self.asked)

    def values(self, variable: str) -> Floats:
        found = self.arrays[variable]
        return found if self.rows is None else found[self.rows]

    def drawn(self, n: int, random: np.random.Generator) -> Simulated:
        """n of its samples, drawn with replacement, each as a question of its own."""
        rows = random.integers(self.traces, size=n)
        return replace(self, rows=rows, asked=tuple(map(str, range(n))), _made={})


def simulated(
    arrays: Mapping[str, Floats],
    *,
    kind: str,
    questions: Sequence[int] | None = None,
    sets: Sequence[str] = (),
    control_of: str | None = None,
    **keys: Any,
) -> Simulated:
    """The samples of one model, which is called as its `kind` unless `model` is given; each is a question of its own
    unless `questions` says otherwise. With `control_of` it is a control of that model."""
    n = len(next(iter(arrays.values())))
    asked = tuple(map(str, range(n) if questions is None else questions))
    facts: dict[str, Any] = {"kind": kind}
    if control_of is not None:
        facts["control"] = {"of": control_of, "kind": "shuffled_weights", "seed": 0}
        keys = {"model": f"{control_of}, control", **keys}
    return Simulated({"model": kind, **keys}, facts, xr.Dataset(), arrays=arrays, asked=asked, sets=tuple(sets))
