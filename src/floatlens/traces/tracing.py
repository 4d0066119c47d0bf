"""`trace`: build the prompt, decode under capture, and collect everything in one `Trace`. No file is written."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xarray as xr

from floatlens import __version__, prompts
from floatlens.attention.edit import Edit
from floatlens.attention.mixing import reach_by_layer
from floatlens.attention.probe import Layout, Probe
from floatlens.attention.recorder import Recorder
from floatlens.attention.select import Select
from floatlens.attention.session import capture
from floatlens.attention.softmax import Workspace
from floatlens.core.errors import FloatlensError
from floatlens.decoding import Canvas, Decoded, Step, decode_steps, plan
from floatlens.decoding.run import finish
from floatlens.probes import DEFAULT_PROBES, default_probes, make_probes
from floatlens.traces import SCHEMA_VERSION, Trace
from floatlens.traces.inputs import Given, read_inputs
from floatlens.traces.schema import ALWAYS, BLOCKS, FORCED
from floatlens.traces.store import with_labels

if TYPE_CHECKING:
    from floatlens.models import LanguageModel
    from floatlens.prompts import DocumentLike, HoleLike, Prompt

__all__ = ["DEFAULT_PROBES", "layout_of", "trace"]


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
    data_set: str | None = None,
    **settings: Any,
) -> Trace:
    """Decode one prompt and record its attention.

    The prompt is a `question` (with `documents`, the 0-based index `gold` of the one that holds the answer, and the
    accepted `answers` to mark the evidence), a `prompt` as text, `prompt_ids`, or a `passage` with a `hole` (a number
    of tokens in its middle, or (start, stop) in characters). With a `target` (a text, or `target_ids`) that text is
    written instead of the model's own; the target of a passage is what was cut out, unless `forced=False`. `probes` are
    names or instances (default: `DEFAULT_PROBES`), `select` limits layers, heads and steps, `heads="mean"` averages
    over heads, `workspace` sets the block size of attention. `settings` go to the sampler (see `floatlens.decode`).

    Example: `fl.trace(model, question="Who built it?", documents=["Ann built it.", "It rained."], gold=0).data.flow`
    """
    _check(heads, data_set)
    what = (question, documents, gold, answers, prompt, prompt_ids, passage, hole, target, target_ids, forced)
    given = Given(*what, template=template, chat=chat)
    built, decoding = read_inputs(model, given, dict(sampler=sampler, **settings))
    canvas = plan(model, built.ids, **decoding)
    for one in edits:
        if isinstance(one, Edit) and one.reads_prompts:
            one.place([built])
    with capture(
        model,
        _checked(make_probes(_default(model) if probes is None else probes)),
        edits=edits,
        layout=_layout(built, canvas),
        select=select,
        steps=canvas.max_steps,
        length=canvas.length,
        mean_heads=heads == "mean",
        workspace=workspace,
    ) as recorder:
        steps = []
        for step in decode_steps(model, built.ids, **decoding):
            recorder.commit(step)
            steps.append(step)
    made = _dataset(model, built, finish(model, canvas, steps, whole=True), recorder, heads)
    return Trace(made if data_set is None else made.assign_attrs(data_set=data_set))


def _default(model: LanguageModel) -> tuple[str, ...]:
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


def _dataset(model: LanguageModel, prompt: Prompt, decoded: Decoded, recorder: Recorder, heads: str) -> xr.Dataset:
    final = decoded.sequence[0].numpy().astype(np.int32)
    length = len(final)
    arrays: dict[str, tuple[tuple[str, ...], Any]] = {}
    for name, store in recorder.variables.items():
        if len(store):
            dims = recorder.specs[name].dims
            if heads == "mean":
                dims = tuple(dim for dim in dims if dim not in ("head", "kv_head"))
            stacked = store.stack()[:, 0]
            arrays[name] = (dims, stacked[..., :length] if dims[-1] in ("key", "query") else stacked)
    coords: dict[str, Any] = {"step": np.array(recorder.steps, dtype=np.int64), "layer": np.array(recorder.layers)}
    if heads == "all" or any(v.dims[0] == "token" and "head" in v.dims for v in recorder.specs.values()):
        coords["head"] = np.array(recorder.heads)
    for probe in recorder.probes:
        for name, array in probe.finish(length).items():
            arrays[name] = (tuple(map(str, array.dims)), array.values)
            coords |= {str(coord): values.values for coord, values in array.coords.items()}
    _add_tokens(recorder, arrays)
    _add_always(recorder, decoded, final, arrays)
    known = {**ALWAYS, **FORCED, **BLOCKS, **recorder.specs}
    data = xr.Dataset({n: (d, np.asarray(a, dtype=known[n].dtype)) for n, (d, a) in arrays.items()}, coords)
    data = data.assign_coords(key=np.arange(length))
    data.attrs = _provenance(model, prompt, decoded, recorder, heads)
    for variable in data.data_vars:
        data[variable].attrs["meaning"] = known[str(variable)].meaning
    return with_labels(data)


def _add_tokens(recorder: Recorder, arrays: dict[str, Any]) -> None:
    """One entry per committed token, in order of commitment."""
    tokens = recorder.committed
    for name in ("position", "id", "step", "row", "confidence"):
        values = [getattr(token, "token" if name == "id" else name) for token in tokens]
        arrays[f"token_{name}"] = (("token",), np.array(values))
    if tokens and tokens[0].probability is not None:
        arrays["token_probability"] = (("token",), np.array([token.probability for token in tokens]))
    for name, variable in recorder.specs.items():
        if variable.dims[0] == "token":
            shape = next((token.found[name].shape for token in tokens if name in token.found), None)
            regions = 1 if recorder.layout is None else len(recorder.layout.regions)
            sizes = {"layer": len(recorder.layers), "head": len(recorder.heads), "region": regions}
            missing = -1 if "int" in variable.dtype else np.nan  # of tokens whose step was not recorded
            blank = np.full(shape or [sizes[dim] for dim in variable.dims[1:]], missing)
            arrays[name] = (variable.dims, np.stack([token.found.get(name, blank) for token in tokens]))


def _add_always(recorder: Recorder, decoded: Decoded, final: Any, arrays: dict[str, Any]) -> None:
    length, layout = len(final), recorder.layout
    assert layout is not None
    sequence = np.full((len(recorder.steps), length), -1, dtype=np.int32)
    for i, number in enumerate(recorder.steps):
        before = decoded.steps[number].sequence[0].numpy()[:length]
        sequence[i, : len(before)] = before
    arrays["sequence"] = (ALWAYS["sequence"].dims, sequence)
    if recorder.blocks and all(one is not None for one in recorder.blocks):
        block_of = np.full_like(sequence, -1)
        for i, one in enumerate(recorder.blocks):
            assert one is not None
            block_of[i, : one.shape[1]] = one[0, :length]
        arrays["block_of"] = (BLOCKS["block_of"].dims, block_of)
    arrays["final"] = (("key",), final)
    arrays["region_of"] = (("key",), layout.region_of[0, :length])
    evidence = np.zeros(length, dtype=bool) if layout.evidence is None else layout.evidence[0, :length]
    arrays["evidence"] = (("key",), evidence)


def _provenance(
    model: LanguageModel, prompt: Prompt, decoded: Decoded, recorder: Recorder, heads: str
) -> dict[str, Any]:
    """The attributes of a trace: where it comes from, as JSON."""
    tokenizer, canvas, answer = model.tokenizer, decoded.canvas, decoded.answers()[0]
    return {
        "schema_version": SCHEMA_VERSION,
        "model": {
            "ref": model.ref,
            "revision": model.revision,
            "family": model.family,
            "kind": model.kind,
            "class": type(model.module).__name__,
            "shift": model.shift,
            "mask_id": model.mask_id,
            "bos_id": model.bos_id,
            "eos_ids": list(model.eos_ids),
            "layers": model.num_layers,
            "heads": model.num_heads,
            "kv_heads": model.num_kv_heads,
            **({} if len(model.attention_layers) == model.num_layers else {"reach": reach_by_layer(model)}),
            "dtype": str(model.dtype).removeprefix("torch."),
            **({} if model.control is None else {"control": dict(model.control)}),
            **({} if model.course is None else {"course": model.course.to_dict()}),
        },
        "decoding": {
            "sampler": canvas.sampler,
            "settings": canvas.settings.model_dump(mode="json"),
            "forward_passes": decoded.forward_passes,
            "prompt_length": len(prompt.ids),
            "answer_ids": answer,
            "answer": None if tokenizer is None else prompts.answer_text(tokenizer, answer),
            "forced": decoded.forced,
            **({"log_likelihood": _log_likelihood(decoded.steps)} if decoded.forced else {}),
        },
        "prompt": _prompt_provenance(prompt),
        "probes": [probe.name for probe in recorder.probes],
        "variables": {v.name: v.declaration(probe.name) for probe in recorder.probes for v in probe.variables},
        "edits": [repr(edit) for edit in recorder.edits],
        "heads": heads,
        "causal": model.kind == "arm",
        "attention": model.attention,
        **({} if model.block_size is None else {"block_size": model.block_size}),
        "regions": list(prompt.regions),
        "token_text": [] if tokenizer is None else prompts.token_pieces(tokenizer, decoded.sequence[0].tolist()),
        "versions": versions(),
    }


def _prompt_provenance(prompt: Prompt) -> dict[str, Any]:
    return {
        "question": prompt.question,
        "titles": [document.title for document in prompt.documents],
        "gold": prompt.gold,
        "evidence_kind": prompt.evidence_kind,
        "template": prompt.template,
        "chat": prompt.chat,
        "dropped_documents": 0 if prompt.dropped is None else prompt.dropped.documents,
        **({} if prompt.hole is None else {"hole": asdict(prompt.hole), "passage": prompt.passage}),
    }


def _log_likelihood(steps: Sequence[Step]) -> float:
    """Mean log probability of the forced tokens, in nats."""
    found = [float(p) for step in steps if step.probability is not None for p in step.probability.log()]
    return math.fsum(found) / len(found)


def versions() -> dict[str, str]:
    """Versions of the libraries that can change a number."""
    libraries = ("torch", "transformers", "numpy", "tokenizers", "numba")
    found = {name: version(name) for name in libraries if find_spec(name) is not None}
    return {"python": platform.python_version(), "floatlens": __version__, **found}
