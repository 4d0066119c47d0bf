"""A trace's dataset: arrays of a capture with named dimensions, what every trace has, and where it all comes from."""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from floatlens import __version__, prompts
from floatlens.attention.mixing import reach_by_layer
from floatlens.decoding import Decoded, Step
from floatlens.traces import SCHEMA_VERSION
from floatlens.traces.samples import Taken
from floatlens.traces.schema import ALWAYS, BLOCKS, FORCED
from floatlens.traces.store import with_labels

if TYPE_CHECKING:
    from floatlens.models import LanguageModel
    from floatlens.prompts import Prompt

__all__ = ["dataset", "versions"]


def dataset(model: LanguageModel, prompt: Prompt, decoded: Decoded, taken: Taken, heads: str) -> xr.Dataset:
    """The dataset of one prompt; `heads` is "all" or "mean"."""
    recorder = taken.recorder
    final = decoded.sequence[0].numpy().astype(np.int32)
    length = len(final)
    arrays: dict[str, tuple[tuple[str, ...], Any]] = {}
    for name, (dims, values) in taken.arrays.items():
        arrays[name] = (dims, values[..., :length] if dims[-1] in ("key", "query") else values)
    coords: dict[str, Any] = {"step": np.array(taken.steps, dtype=np.int64), "layer": np.array(recorder.layers)}
    if heads == "all" or any(v.dims[0] == "token" and "head" in v.dims for v in recorder.specs.values()):
        coords["head"] = np.array(recorder.heads)
    for probe in recorder.probes:
        for name, array in probe.finish(length).items():
            arrays[name] = (tuple(map(str, array.dims)), array.values)
            coords |= {str(coord): values.values for coord, values in array.coords.items()}
    _add_tokens(taken, arrays)
    _add_always(taken, decoded, final, arrays)
    known = {**ALWAYS, **FORCED, **BLOCKS, **recorder.specs}
    data = xr.Dataset({n: (d, np.asarray(a, dtype=known[n].dtype)) for n, (d, a) in arrays.items()}, coords)
    data = data.assign_coords(key=np.arange(length))
    data.attrs = _provenance(model, prompt, decoded, taken, heads)
    for variable in data.data_vars:
        data[variable].attrs["meaning"] = known[str(variable)].meaning
    return with_labels(data)


def _add_tokens(taken: Taken, arrays: dict[str, Any]) -> None:
    """One entry per committed token, in order of commitment."""
    tokens, recorder = taken.committed, taken.recorder
    for name in ("position", "id", "step", "row", "confidence"):
        values = [getattr(token, "token" if name == "id" else name) for token in tokens]
        arrays[f"token_{name}"] = (("token",), np.array(values))
    if tokens and tokens[0].probability is not None:
        arrays["token_probability"] = (("token",), np.array([token.probability for token in tokens]))
    for name, variable in recorder.specs.items():
        if variable.dims[0] == "token":
            shape = next((token.found[name].shape for token in tokens if name in token.found), None)
            regions = len(taken.layout.regions)
            sizes = {"layer": len(recorder.layers), "head": len(recorder.heads), "region": regions}
            missing = -1 if "int" in variable.dtype else np.nan  # of tokens whose step was not recorded
            blank = np.full(shape or [sizes[dim] for dim in variable.dims[1:]], missing)
            arrays[name] = (variable.dims, np.stack([token.found.get(name, blank) for token in tokens]))


def _add_always(taken: Taken, decoded: Decoded, final: Any, arrays: dict[str, Any]) -> None:
    length, layout = len(final), taken.layout
    sequence = np.full((len(taken.steps), length), -1, dtype=np.int32)
    for i, number in enumerate(taken.steps):
        before = decoded.steps[number].sequence[0].numpy()[:length]
        sequence[i, : len(before)] = before
    arrays["sequence"] = (ALWAYS["sequence"].dims, sequence)
    if taken.blocks and all(one is not None for one in taken.blocks):
        block_of = np.full_like(sequence, -1)
        for i, one in enumerate(taken.blocks):
            assert one is not None
            block_of[i, : len(one)] = one[:length]
        arrays["block_of"] = (BLOCKS["block_of"].dims, block_of)
    arrays["final"] = (("key",), final)
    arrays["region_of"] = (("key",), layout.region_of[0, :length])
    evidence = np.zeros(length, dtype=bool) if layout.evidence is None else layout.evidence[0, :length]
    arrays["evidence"] = (("key",), evidence)


def _provenance(model: LanguageModel, prompt: Prompt, decoded: Decoded, taken: Taken, heads: str) -> dict[str, Any]:
    """The attributes of a trace: where it comes from, as JSON."""
    tokenizer, canvas, answer = model.tokenizer, decoded.canvas, decoded.answers()[0]
    recorder = taken.recorder
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
        **({} if recorder.backend is None else {"capture": recorder.backend.to_dict()}),
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
