"""`trace_many`: traces of many prompts, decoded together where that gives the same numbers as one at a time."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from floatlens.attention.memory_budget import out_of_memory, release_memory
from floatlens.attention.session import ambient_edits
from floatlens.core.errors import FloatlensError
from floatlens.probes import make_probes
from floatlens.traces import Trace
from floatlens.traces.inputs import Given
from floatlens.traces.tracing import Capture, Ready, make_ready, probes_of, trace_together

if TYPE_CHECKING:
    from floatlens.models import LanguageModel

__all__ = ["ready_from", "trace_many", "trace_ready"]

_TOGETHER = ("ar", "llada", "dream", "threshold")
"""Samplers in which a prompt takes the same steps alone and in a batch."""


def trace_many(
    model: LanguageModel, prompts: Sequence[Mapping[str, Any]], *, batch: int = 8, **shared: Any
) -> list[Trace]:
    """The traces of many prompts, in their order; each prompt gives arguments of `fl.trace`, and `shared` those of all.

    Up to `batch` prompts are decoded together, fewer where memory runs out. The numbers are those of `fl.trace` up to
    rounding. One at a time: prompts under edits, with masks or lengths to write that differ, with samplers other than
    ar, llada, dream and threshold, models with layers without attention, and probes that keep one prompt only (matrix,
    lens, smoothing, cacheability, heatmaps of qk; see `Probe.batched`).

    Example: `fl.trace_many(model, [{"question": "Who built it?"}, {"question": "Who paid?"}], gen_length=8)`
    """
    if batch < 1:
        raise FloatlensError(f"batch={batch}; give at least 1")
    of_all = {one.name for one in fields(Capture)}
    how = Capture(**{name: shared.pop(name) for name in of_all & set(shared)})
    for number, one in enumerate(prompts):
        for name in of_all & set(one):
            raise FloatlensError(f"prompt {number}: {name} is the same for all prompts; give it beside them")
    return trace_ready(model, [ready_from(model, {**shared, **one}) for one in prompts], how, batch)


def trace_ready(model: LanguageModel, ready: Sequence[Ready], how: Capture, batch: int) -> list[Trace]:
    """The same of prompts that are ready to be decoded."""
    found: dict[int, Trace] = {}
    for group in _groups(model, ready, how, batch):
        found |= zip(group, _in_memory(model, [ready[i] for i in group], how), strict=True)
    return [found[i] for i in range(len(ready))]


def ready_from(model: LanguageModel, arguments: Mapping[str, Any]) -> Ready:
    """A prompt from the arguments of `trace` that say what is decoded."""
    arguments = {"sampler": None, **arguments}
    said = {one.name for one in fields(Given)} & set(arguments)
    given = Given(**{name: arguments.pop(name) for name in said})
    return make_ready(model, given, arguments)


def _groups(model: LanguageModel, ready: Sequence[Ready], how: Capture, batch: int) -> list[list[int]]:
    """Prompts that are decoded together: alike in what is written, and in length as far as possible."""
    probes = make_probes(probes_of(model) if how.probes is None else how.probes)
    edited = bool(how.edits) or bool(ambient_edits(model))
    able = not edited and all(probe.batched for probe in probes) and model.block_size is None
    able &= tuple(model.attention_layers) == tuple(range(model.num_layers))
    alike: dict[Hashable, list[int]] = {}
    for number, one in enumerate(ready):
        canvas = one.canvas
        together = able and canvas.sampler in _TOGETHER and canvas.blocks is None
        together &= isinstance(canvas.settings.seed, int)
        what = (canvas.sampler, canvas.settings.model_dump_json(), int(canvas.answer.sum()))
        key = (*what, canvas.target is None, one.prompt.evidence.any()) if together else number
        alike.setdefault(key, []).append(number)
    groups = []
    for numbers in alike.values():
        numbers.sort(key=lambda number: ready[number].canvas.length)
        groups += [numbers[at : at + batch] for at in range(0, len(numbers), batch)]
    return groups


def _in_memory(model: LanguageModel, batch: Sequence[Ready], how: Capture) -> list[Trace]:
    """Their traces; where memory runs out, those of the two halves."""
    try:
        return trace_together(model, batch, how)
    except (RuntimeError, MemoryError) as error:
        if len(batch) == 1 or not out_of_memory(error):
            raise
    release_memory()  # outside of the except block, so the traceback no longer holds the tensors of the attempt
    half = len(batch) // 2
    return [*_in_memory(model, batch[:half], how), *_in_memory(model, batch[half:], how)]
