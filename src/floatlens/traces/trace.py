"""`Trace`: everything recorded for one prompt, as one labelled dataset with its provenance."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from floatlens.core.errors import FloatlensError
from floatlens.traces import store
from floatlens.traces.schema import FORCED, probe_of, schema, validate

__all__ = ["Trace", "open_trace"]


@dataclass(frozen=True, eq=False)
class Trace:
    """A recording. `data` is an xarray Dataset (see `floatlens.traces.schema`); its attributes hold the provenance.

    Example: `trace.data.received.sel(layer=0).mean("head")  # step × key`
    """

    data: xr.Dataset

    def __post_init__(self) -> None:
        validate(self.data, "trace")

    @property
    def model(self) -> dict[str, Any]:
        """ref, family, kind, revision, sizes and special tokens of the model."""
        return dict(self.data.attrs["model"])

    @property
    def data_set(self) -> str | None:
        """The name of the data set of the question, if known."""
        name: str | None = self.data.attrs.get("data_set")
        return name

    @property
    def regions(self) -> tuple[str, ...]:
        return tuple(self.data.attrs["regions"])

    @property
    def tokens(self) -> tuple[str, ...]:
        """The finished sequence as text pieces; empty where the model has no tokenizer."""
        return tuple(self.data.attrs["token_text"])

    @property
    def answer(self) -> str | None:
        """The text written, None without a tokenizer; the model's own unless the trace is `forced`."""
        answer: str | None = self.data.attrs["decoding"]["answer"]
        return answer

    @property
    def forced(self) -> bool:
        """Whether a given text was written instead of the model's own."""
        return bool(self.data.attrs["decoding"].get("forced", False))

    @property
    def log_likelihood(self) -> float | None:
        """Mean log probability (nats per token) of a forced text, each token as seen when it was written; else None."""
        found: float | None = self.data.attrs["decoding"].get("log_likelihood")
        return found

    @property
    def by_probe(self) -> dict[str, list[str]]:
        """The variables that each probe wrote, by the probe's name."""
        found: dict[str, list[str]] = {}
        for name, declared in self.data.attrs["variables"].items():
            if name in self.data.variables:
                found.setdefault(declared["probe"], []).append(name)
        return found

    @property
    def masked(self) -> NDArray[np.bool_]:
        """(step, key): which positions were still masked before each pass."""
        mask_id = self.model["mask_id"]
        sequence: NDArray[np.int32] = self.data["sequence"].values
        return np.zeros(sequence.shape, dtype=bool) if mask_id is None else sequence == mask_id

    def require(self, *names: str) -> None:
        """Check that the trace holds these variables; the error names the probe that writes them."""
        for name in names:
            if name in self.data.variables:
                continue
            if name in FORCED:
                raise FloatlensError(f'this trace holds no "{name}": only those of a forced text do')
            if name not in schema():
                raise FloatlensError(f'"{name}" is not a variable of traces; see floatlens.traces.schema')
            ref, probe = self.model["ref"], probe_of(name)
            raise FloatlensError(f'this trace of {ref} holds no "{name}"; trace again with the probe "{probe}" on')

    def save(self, path: str | Path) -> Path:
        """Write the trace to one `.zarr.zip` file and return its path."""
        return store.write(self.data, path)

    def __repr__(self) -> str:
        sizes = self.data.sizes
        held = sorted(self.by_probe)
        what = " ".join(f"{sizes[dim]} {dim}s" for dim in ("step", "layer", "head", "key") if dim in sizes)
        said = self.answer or ""
        what_it_is = "forced" if self.forced else "answer"
        answer = "" if self.answer is None else f", {what_it_is} {said if len(said) <= 60 else said[:59] + '…'!r}"
        return f"Trace({self.model['ref']}: {what}; {', '.join(held) or 'no probes'}{answer})"


def open_trace(path: str | Path) -> Trace:
    """Open a saved trace; arrays are read when they are used. Example: `open_trace("ann.zarr.zip").data.received`"""
    return Trace(store.read(path))
