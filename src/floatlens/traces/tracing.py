"""`trace`: build the prompt, decode under capture, and collect everything in one `Trace`. No file is written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from floatlens.attention.edit import Edit
from floatlens.attention.probe import Layout, Probe
from floatlens.attention.select import Select
from floatlens.attention.session import capture
from floatlens.attention.setting import BackendName
from floatlens.attention.softmax import Workspace
from floatlens.core.errors import FloatlensError
from floatlens.decoding import Canvas, decode_steps, plan
from floatlens.decoding.canvas import read_prompts
from floatlens.decoding.run import finish
from floatlens.probes import DEFAULT_PROBES, default_probes, make_probes
from floatlens.traces import Trace
from floatlens.traces.dataset import dataset
from floatlens.traces.inputs import Given, read_inputs
from floatlens.traces.samples import Sample, joined_layout, own_steps, taken
from floatlens.traces.schema import ALWAYS, BLOCKS, FORCED

if TYPE_CHECKING:
    from floatlens.models import LanguageModel
    from floatlens.prompts import DocumentLike, HoleLike, Prompt

__all__ = ["DEFAULT_PROBES", "Capture", "Ready", "layout_of", "make_ready", "probes_of", "trace", "trace_together"]


def trace(
    model: LanguageModel,
    *,
    question: str | None = None,
    documents: Iterable[DocumentLike] = (),
    gold: int | None = None,
    answers: str | Iterable[str] = (),
    prompt: str | Prompt | None = None,
    prompt_ids: Sequence[int] | Any = None,
    passage: str | None = None,
    hole: HoleLike | None = None,
    target: str | None = None,
    target_ids: Sequence[int] | Any = None,
    forced: bool | None = None,
    probes: Sequence[str | Probe] | None = None,
    select: Select | None = None,
    heads: Literal["all", "mean"] = "all",
    edits: Sequence[Edit] = (),
    template: str | Path = "default",
    chat: bool | None = None,
    sampler: str | None = None,
    workspace: Workspace | None = None,
    backend: BackendName = "auto",
    data_set: str | None = None,
    **settings: Any,
) -> Trace:
    """Decode one prompt and record its attention.

    The prompt is a `question` (with `documents`, the 0-based index `gold` of the one that holds the answer, and the
    accepted `answers` to mark the evidence), a `prompt` as text, `prompt_ids`, or a `passage` with a `hole` (a number
    of tokens in its middle, or (start, stop) in characters). With a `target` (a text, or `target_ids`) that text is
    written instead of the model's own; the target of a passage is what was cut out, unless `forced=False`. `probes` are
    names or instances (default: `DEFAULT_PROBES`), `select` limits layers, heads and steps, `heads="mean"` averages
    over heads, `workspace` sets the block size of attention, `backend` how it is captured: "rows", "fused" (attention
    kernels that return log-sum-exps), or "auto", fused on GPUs. `settings` go to the sampler (see `floatlens.decode`).

    Example: `fl.trace(model, question="Who built it?", documents=["Ann built it.", "It rained."], gold=0).data.flow`
    """
    what = (question, documents, gold, answers, prompt, prompt_ids, passage, hole, target, target_ids, forced)
    ready = make_ready(model, Given(*what, template=template, chat=chat), dict(sampler=sampler, **settings))
    return trace_together(model, [ready], Capture(probes, select, heads, edits, workspace, backend, data_set))[0]


@dataclass(frozen=True)
class Capture:
    """The arguments of `trace` that say what is recorded, and how."""

    probes: Sequence[str | Probe] | None = None
    select: Select | None = None
    heads: Literal["all", "mean"] = "all"
    edits: Sequence[Edit] = ()
    workspace: Workspace | None = None
    backend: BackendName = "auto"
    data_set: str | None = None

    def __post_init__(self) -> None:
        _check(self.heads, self.data_set)


@dataclass(frozen=True)
class Ready:
    """A prompt that is ready to be decoded: the other arguments of `plan`, and the layout of it alone."""

    prompt: Prompt
    decoding: dict[str, Any]
    canvas: Canvas


def make_ready(model: LanguageModel, given: Given, settings: dict[str, Any]) -> Ready:
    """The prompt, laid out alone; `settings` are the sampler and its settings."""
    prompt, decoding = read_inputs(model, given, settings)
    return Ready(prompt, decoding, plan(model, prompt.ids, **decoding))


def trace_together(model: LanguageModel, batch: Sequence[Ready], how: Capture) -> list[Trace]:
    """The traces of prompts that are decoded together."""
    decoding = batch[0].decoding
    if len(batch) > 1 and "target_ids" in decoding:
        forced = [read_prompts(one.decoding["target_ids"], model.vocab_size, "target")[0] for one in batch]
        decoding = {**decoding, "target_ids": forced}
    ids = [list(one.prompt.ids) for one in batch]
    canvas = plan(model, ids, **decoding)
    samples = [Sample(i, canvas.starts[i], _layout(one.prompt, one.canvas)) for i, one in enumerate(batch)]
    for edit in how.edits:
        if isinstance(edit, Edit) and edit.reads_prompts:
            edit.place([one.prompt for one in batch])
    with capture(
        model,
        _checked(make_probes(probes_of(model) if how.probes is None else how.probes)),
        edits=how.edits,
        layout=samples[0].layout if len(batch) == 1 else joined_layout(samples),
        select=how.select,
        steps=canvas.max_steps,
        length=canvas.length,
        mean_heads=how.heads == "mean",
        workspace=how.workspace,
        backend=how.backend,
    ) as recorder:
        steps = []
        for step in decode_steps(model, ids, **decoding):
            recorder.commit(step)
            steps.append(replace(step, sequence=step.sequence.int()))  # one per step is kept to the end
    made = []
    for one, sample in zip(batch, samples, strict=True):
        own = steps if len(batch) == 1 else own_steps(steps, sample)
        found = taken(recorder, sample, len(own), how.heads)
        data = dataset(model, one.prompt, finish(model, one.canvas, own, whole=True), found, how.heads)
        made.append(Trace(data if how.data_set is None else data.assign_attrs(data_set=how.data_set)))
    return made


def probes_of(model: LanguageModel) -> tuple[str, ...]:
    """What a trace of a model records unless told otherwise."""
    own = len(model.attention_layers)
    return default_probes(model.kind, None if own == model.num_layers else own)


def _check(heads: Any, data_set: Any) -> None:
    if heads not in ("all", "mean"):
        raise FloatlensError(f'heads="{heads}"; give "all" or "mean"')
    if data_set is not None and (not isinstance(data_set, str) or not data_set):
        raise FloatlensError(f'data_set={data_set!r}; give the name of a data set, such as "nq"')


def _checked(probes: list[Probe]) -> list[Probe]:
    """The probes; an error where two write a variable of the same name, or one that every trace has."""
    taken = dict.fromkeys([*ALWAYS, *FORCED, *BLOCKS], "every trace")
    for probe in probes:
        for variable in probe.variables:
            if variable.name in taken:
                owner = taken[variable.name]
                raise FloatlensError(f'probe "{probe.name}" writes "{variable.name}", which {owner} writes; rename it')
            taken[variable.name] = f'the probe "{probe.name}"'
    return probes


def layout_of(spans: Sequence[tuple[str, int]], canvas: Canvas) -> Layout:
    """A layout from (region, number of tokens) in order; the rest of the canvas is the answer."""
    names = [*dict.fromkeys(name for name, _ in spans), "answer"]
    region_of = np.full((1, canvas.length), len(names) - 1, dtype=np.int64)
    given = np.repeat([names.index(name) for name, _ in spans], [count for _, count in spans])
    region_of[0, : len(given)] = given
    return Layout(tuple(names), region_of)


def _layout(prompt: Prompt, canvas: Canvas) -> Layout:
    """Regions of the whole canvas: those of the prompt, and the answer at all positions to be written."""
    region_of = np.full((1, canvas.length), prompt.regions.index("answer"), dtype=np.int64)
    region_of[0, : len(prompt.ids)] = prompt.region_of
    region_of[canvas.answer.numpy()] = prompt.regions.index("answer")
    evidence = np.zeros((1, canvas.length), dtype=bool)
    evidence[0, : len(prompt.ids)] = prompt.evidence
    return Layout(tuple(prompt.regions), region_of, evidence if evidence.any() else None)
