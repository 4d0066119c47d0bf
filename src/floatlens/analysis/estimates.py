"""`Estimates`: one variable of a result with its intervals, labelled; the same type for one model and for many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from floatlens.analysis.intervals import Estimate

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["NUMBERS", "Estimates", "labelled"]

NUMBERS = ("mean", "std", "low", "high", "n")
_ROWS = 24


@dataclass(frozen=True, eq=False)
class Estimates:
    """`mean`, `std`, `low`, `high` (a 95 % interval) and `n` (questions) as arrays of one shape.

    The first dim is `model`; where groups are finer than models it is `group`, with model and condition as coordinates.
    Layers, heads or regions that only some models have are NaN in the others. `data` holds all five as a dataset.

    `float(…)` is the mean of a single number.

    Example: `fl.drift(traces).slope.sel(model="scale:llada").mean`
    """

    variable: str
    data: xr.Dataset

    @property
    def mean(self) -> xr.DataArray:
        return self.data["mean"]

    @property
    def std(self) -> xr.DataArray:
        return self.data["std"]

    @property
    def low(self) -> xr.DataArray:
        return self.data["low"]

    @property
    def high(self) -> xr.DataArray:
        return self.data["high"]

    @property
    def n(self) -> xr.DataArray:
        return self.data["n"]

    def __float__(self) -> float:
        """The mean, where there is a single one."""
        return float(self.mean.item())

    def sel(self, **labels: Any) -> Estimates:
        """The part with these labels, as `xarray.Dataset.sel` finds it; also by a coordinate such as `gold`."""
        held = self.data
        for name, value in labels.items():
            if name in held.dims:
                held = held.sel({name: value})
            else:
                held = held.isel({held[name].dims[0]: np.flatnonzero(held[name].values == value)})
        return Estimates(self.variable, held)

    def to_frame(self) -> pd.DataFrame:
        """One row for each model and coordinate: mean, std, low, high, n."""
        whole = self.data if self.data.dims else self.data.expand_dims("model")
        frame = whole.to_dataframe().reset_index()
        frame = frame[frame["n"].notna()]
        return frame[[*(name for name in frame if name not in NUMBERS), *NUMBERS]]

    def __repr__(self) -> str:
        return (
            f"{self.variable}\n{self.to_frame().to_string(index=False, max_rows=_ROWS, float_format='{:.4g}'.format)}"
        )

    def _repr_html_(self) -> str:
        return self.to_frame().to_html(index=False, max_rows=_ROWS, float_format="{:.4g}".format)


def labelled(variable: str, found: Sequence[tuple[Mapping[str, Any], xr.DataArray, Estimate]]) -> Estimates:
    """Estimates from those of groups: their keys, the samples (for dims and labels), and the estimate."""
    held = []
    for _, samples, one in found:
        array = samples.isel(sample=0, drop=True)
        coords = {dim: array[dim].values for dim in array.dims}
        held.append(xr.Dataset({name: (array.dims, getattr(one, name)) for name in NUMBERS}, coords=coords))
    keys = {key: [group.get(key) for group, *_ in found] for key in dict.fromkeys(k for g, *_ in found for k in g)}
    if list(keys) == ["model"]:
        models = xr.DataArray(np.array(keys["model"], dtype=str), dims="model", name="model")
        return Estimates(variable, xr.concat(held, models, join="outer"))
    whole = xr.concat(held, xr.DataArray(np.arange(len(held)), dims="group", name="group"), join="outer")
    return Estimates(variable, whole.assign_coords({key: ("group", values) for key, values in keys.items()}))
