"""One prompt of a batch, as if it had been captured alone: its columns, steps, tokens and regions.

Batches are padded on the left, so a position alone is the column of the batch minus that of the prompt's first token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from floatlens.attention.probe import Layout
from floatlens.attention.recorder import Committed, Recorder
from floatlens.decoding import Step

__all__ = ["Sample", "Taken", "joined_layout", "own_steps", "taken"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Sample:
    """Where a prompt is in its batch: its number, the column of its first token, and its own layout."""

    number: int
    start: int
    layout: Layout


@dataclass(frozen=True)
class Taken:
    """What a capture holds of one prompt. `arrays` maps variables to their dims and values, (step, …)."""

    recorder: Recorder
    layout: Layout
    steps: Sequence[int]
    arrays: dict[str, tuple[tuple[str, ...], Array]]
    committed: Sequence[Committed]
    blocks: Sequence[Array | None]


def joined_layout(samples: Sequence[Sample]) -> Layout:
    """The layout of a batch: all regions of its prompts, the answer last as in each; padding is -1."""
    names = [name for one in samples for name in one.layout.regions if name != "answer"]
    regions = (*dict.fromkeys(names), "answer")
    length = max(one.start + one.layout.region_of.shape[1] for one in samples)
    region_of = np.full((len(samples), length), -1, dtype=np.int64)
    evidence = np.zeros((len(samples), length), dtype=bool)
    for row, one in enumerate(samples):
        region_of[row, one.start :] = _regions(one.layout, regions)[one.layout.region_of[0]]
        if one.layout.evidence is not None:
            evidence[row, one.start :] = one.layout.evidence[0]
    return Layout(regions, region_of, evidence if evidence.any() else None)


def _regions(layout: Layout, all_regions: Sequence[str]) -> NDArray[np.int64]:
    """Of each region of a layout, its index in those of the batch."""
    return np.array([list(all_regions).index(name) for name in layout.regions], dtype=np.int64)


def own_steps(steps: Sequence[Step], sample: Sample) -> list[Step]:
    """The steps until the prompt was complete, as of a batch of one."""
    found = []
    for step in steps:
        if not bool(step.unfinished[sample.number]):
            break
        own = step.sample == sample.number
        found.append(
            replace(
                step,
                sequence=step.sequence[sample.number, None, sample.start :],
                sample=torch.zeros_like(step.sample[own]),
                position=step.position[own] - sample.start,
                token=step.token[own],
                confidence=step.confidence[own],
                row=step.row[own] - sample.start,
                unfinished=step.unfinished[sample.number, None],
                probability=None if step.probability is None else step.probability[own],
            )
        )
    return found


def taken(recorder: Recorder, sample: Sample, steps: int, heads: str) -> Taken:
    """What the capture holds of a prompt that took that many steps."""
    assert recorder.layout is not None
    regions = _regions(sample.layout, recorder.layout.regions)
    recorded = [number for number in recorder.steps if number < steps]
    arrays = {}
    for name, store in recorder.variables.items():
        if len(store):
            dims = recorder.specs[name].dims
            if heads == "mean":
                dims = tuple(dim for dim in dims if dim not in ("head", "kv_head"))
            values = store.stack()[: len(recorded), sample.number]
            arrays[name] = (dims, _own(values, dims, sample, regions))
    committed = [_alone(one, recorder, sample, regions) for one in recorder.committed if one.sample == sample.number]
    blocks = [None if one is None else one[sample.number, sample.start :] for one in recorder.blocks[: len(recorded)]]
    return Taken(recorder, sample.layout, recorded, arrays, committed, blocks)


def _own(values: Array, dims: Sequence[str], sample: Sample, regions: NDArray[np.int64]) -> Array:
    """The prompt's own positions and regions of an array."""
    for axis, dim in enumerate(dims):
        if dim in ("region", "from_region") and not np.array_equal(regions, np.arange(values.shape[axis])):
            values = np.take(values, regions, axis=axis)
        elif dim in ("key", "query") and sample.start:
            values = values[(slice(None),) * axis + (slice(sample.start, None),)]
    return values


def _alone(one: Committed, recorder: Recorder, sample: Sample, regions: NDArray[np.int64]) -> Committed:
    """A token of the prompt, as of a batch of one."""
    places = {name for probe in recorder.probes for name in probe.holds_positions}
    found = {}
    for name, values in one.found.items():
        found[name] = _own(values, recorder.specs[name].dims[1:], sample, regions)
        if name in places:
            found[name] = np.where(values >= 0, values - sample.start, values)
    return replace(one, sample=0, position=one.position - sample.start, row=one.row - sample.start, found=found)
