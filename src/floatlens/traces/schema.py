"""The schema of a trace: every array by name, its named dimensions, its type and what it means.

It is composed of the variables that every trace has (here) and those that probes declare (in their own files). A trace
file carries the declarations of its variables, so it can be read and checked where a probe is not installed, and
without torch.

Dimensions
----------
step        one forward pass of the decoder that was recorded, in order (coordinate: its number in the run)
layer       attention layer (coordinate: its number in the model)
head        attention head; absent when a trace was made with heads="mean"
kv_head     key/value head; query head h reads kv_head h // (heads / kv_heads)
key, query  position in the sequence (prompt, then answer)
region      where a position belongs: bos, question, doc1 … docN, answer, template; from_region is that of the query
token       committed answer token, in order of commitment

Attributes
----------
Provenance as JSON: model, decoding, prompt, versions, edits, … `model` has a `control` where it is a control of another
model: `of` (that model's ref), `kind` ("shuffled_weights") and `seed`. It has a `course` where it is a snapshot of one:
`name`, `step`, `tokens` (None: not known) and `origin` (the ref of the model that the course started from, or None),
and a `reach` where some layers have no attention: for each layer "mask" (it has attention), "all", [before, after] (a
window of positions) or "unknown". `variables` declares each variable of a probe: the probe, dims, dtype and meaning.
`data_set`, the name of the data set, is there only where it is known. `decoding` says whether a text was `forced`, and
then its mean `log_likelihood` (nats per token); the answer is then that text, not the model's. `prompt` has a `hole`
where a passage was cut open (its first token, how many, whether the text after it was seen) and a digest of the
`passage`. `capture` says how attention was captured: `asked` and `used` ("rows", "fused"), the `kernel`, and which
layers went by `rows` and why.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from floatlens.attention.variable import Variable
from floatlens.core.errors import FloatlensError
from floatlens.probes import PROBES
from floatlens.traces.attributes import check_attributes, check_sizes, need

__all__ = [
    "ALWAYS",
    "BLOCKS",
    "FORCED",
    "SCHEMA_VERSION",
    "Variable",
    "check_version",
    "probe_of",
    "schema",
    "validate",
]

SCHEMA_VERSION = 2


_EVERY = (
    Variable("sequence", ("step", "key"), "replace", "token ids before the pass; -1: no token yet", "int32"),
    Variable("final", ("key",), "replace", "token ids of the finished sequence", "int32"),
    Variable("region_of", ("key",), "replace", "index into the region names", "int16"),
    Variable("evidence", ("key",), "replace", "True on the evidence span", "bool"),
    Variable("token_position", ("token",), "replace", "position of a committed token", "int32"),
    Variable("token_id", ("token",), "replace", "its id", "int32"),
    Variable("token_step", ("token",), "replace", "step (number in the run) whose pass decided it", "int32"),
    Variable("token_row", ("token",), "replace", "query whose logits decided it", "int32"),
    Variable("token_confidence", ("token",), "replace", "the sampler's confidence in it", "float32"),
)
ALWAYS = {one.name: one for one in _EVERY}
"""Variables of every trace, whatever the probes."""
_PROBABILITY = "probability of a forced token, by the model's plain softmax"
FORCED = {"token_probability": Variable("token_probability", ("token",), "replace", _PROBABILITY)}
"""Variables of traces of a forced text."""
_BLOCK_OF = "block number of a position: a query sees its own block and those before it; -1: no token yet"
BLOCKS = {"block_of": Variable("block_of", ("step", "key"), "replace", _BLOCK_OF, "int32")}
"""Variables of traces of a model whose attention goes by blocks."""


def schema() -> dict[str, Variable]:
    """Every variable by name: those of every trace, and those of all probes in the registry (this imports torch)."""
    return {**ALWAYS, **FORCED, **BLOCKS, **{one.name: one for probe in PROBES.values() for one in probe.variables}}


def probe_of(name: str) -> str:
    """The probe that writes a variable (this imports torch)."""
    for probe, kind in PROBES.items():
        if any(one.name == name for one in kind.variables):
            return probe
    raise FloatlensError(f'"{name}" is not a variable that a probe writes; see floatlens.traces.schema')


def validate(data: xr.Dataset, where: str) -> None:
    """Refuse a dataset that does not follow the schema, in one line that names the file and the first fault."""
    check_version(data.attrs, where)
    check_attributes(data.attrs, where)
    check_sizes({str(dim): size for dim, size in data.sizes.items()}, data.attrs, where)
    need(where, "variable", ALWAYS, data.variables)
    known = {**ALWAYS, **FORCED, **BLOCKS, **_declared(data, where)}
    for held in data.data_vars:
        if str(held) not in known:
            raise FloatlensError(f'{where}: variable "{held}" is not in the trace schema; delete {where} and run again')
        _check(data, known[str(held)], where)
    _check_positions(data, where)


def check_version(attrs: Mapping[str, Any], where: str) -> None:
    """Refuse a trace of another version of the schema."""
    version = attrs.get("schema_version")
    if type(version) is not int or version != SCHEMA_VERSION:
        raise FloatlensError(
            f"{where}: trace schema version is {version!r:.60} and this floatlens reads {SCHEMA_VERSION}; "
            f"delete {where} and run again"
        )


def _declared(data: xr.Dataset, where: str) -> dict[str, Variable]:
    """The variables of probes, as the trace itself declares them."""
    declared: dict[str, Any] = data.attrs["variables"]
    try:
        return {
            name: Variable(name, tuple(one["dims"]), "replace", one["meaning"], one["dtype"])
            for name, one in declared.items()
        }
    except (KeyError, TypeError) as error:
        raise FloatlensError(
            f"{where}: its declarations of variables are broken; delete {where} and run again"
        ) from error


def _check(data: xr.Dataset, variable: Variable, where: str) -> None:
    array = data[variable.name]
    dims = variable.dims
    if data.attrs["heads"] == "mean" and variable.dims[0] == "step":
        dims = tuple(dim for dim in dims if dim not in ("head", "kv_head"))
    if array.dims != dims:
        raise FloatlensError(f"{where}: {variable.name} has dims {array.dims!s:.200}, the schema says {dims!s:.200}")
    if array.dtype != np.dtype(variable.dtype):
        raise FloatlensError(f"{where}: {variable.name} has type {array.dtype}, the schema says {variable.dtype}")


def _check_positions(data: xr.Dataset, where: str) -> None:
    """Refuse numbers that point to a region or a position which is not there."""
    regions, keys = len(data.attrs["regions"]), data.sizes["key"]
    if not _within(data["region_of"], 0, regions):
        raise FloatlensError(
            f"{where}: region_of points outside the {regions} region names; delete {where} and run again"
        )
    for name in ("token_position", "token_row"):
        if not _within(data[name], 0, keys):
            raise FloatlensError(f"{where}: {name} points outside the {keys} keys; delete {where} and run again")


def _within(array: xr.DataArray, low: int, high: int) -> bool:
    values = array.values
    return not values.size or bool(low <= values.min() and values.max() < high)
