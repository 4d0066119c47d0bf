"""The schema of a trace: every array by name, its named dimensions, its type and what it means.

Probes declare what they provide by pointing here, analyses what they require; whatever is written or read is validated
against it. Nothing in this room imports torch.

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
Where a trace comes from, as JSON: model, decoding, prompt, versions, edits, … Every trace has those that are required;
`data_set`, the name of the data set that the question is of, is there only where it is known. Traces of a single
question do not have it, nor do those made before it was recorded. `decoding` says whether a text was `forced`, and
then its mean `log_likelihood` (nats per token); the answer is that text, not the model's. `prompt` has a `hole` where a
passage was cut open (its first token, how many, whether the text after it was seen) and a digest of the `passage`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import xarray as xr

from floatlens.core.errors import FloatlensError

__all__ = ["ALWAYS", "BY_PROBE", "FORCED", "SCHEMA", "SCHEMA_VERSION", "Merge", "Variable", "probe_of", "validate"]

SCHEMA_VERSION = 2
Merge = Literal["mean", "append", "replace"]


@dataclass(frozen=True)
class Variable:
    """One array of a trace. `merge` says how a cached pass joins the passes before it, so that every step equals a full
    pass: `mean` adds weighted sums over queries, `append` puts new queries after the old, `replace` starts anew."""

    name: str
    dims: tuple[str, ...]
    merge: Merge
    meaning: str
    dtype: str = "float32"


def _table(*rows: Variable) -> dict[str, Variable]:
    return {row.name: row for row in rows}


_KEYS = ("step", "layer", "head", "key")
_KV_KEYS = ("step", "layer", "kv_head", "key")
_TOKENS = ("token", "layer", "head")


def _pictures(prefix: str) -> tuple[str, ...]:
    return (f"{prefix}_step", f"{prefix}_layer", f"{prefix}_head", "query", "key")


BY_PROBE: dict[str, dict[str, Variable]] = {
    "received": _table(
        Variable("received", _KEYS, "mean", "mean attention that a key receives over all queries; sums to 1"),
        Variable("received_masked", _KEYS, "mean", "the same over queries that are still masked; NaN without any"),
        Variable("received_committed", _KEYS, "mean", "the same over queries that hold a token"),
        Variable("received_answer", _KEYS, "mean", "the same over queries in the answer, masked or not"),
    ),
    "entropy": _table(
        Variable("entropy", ("step", "layer", "head", "query"), "append", "entropy of a query's attention, in nats"),
    ),
    "flow": _table(
        Variable(
            "flow", ("step", "layer", "from_region", "region"), "mean", "mean mass from a region's queries, head mean"
        ),
        Variable("question_flow", ("step", "layer", "head", "region"), "mean", "the same from the question, per head"),
    ),
    "answer_rows": _table(
        Variable("answer_argmax", _TOKENS, "replace", "key with the largest weight in the deciding row", "int32"),
        Variable("answer_peak", _TOKENS, "replace", "that largest weight"),
        Variable("answer_evidence", _TOKENS, "replace", "mass of that row on the evidence; NaN without evidence"),
    ),
    "qk": _table(
        Variable("qk_dot", _KEYS, "mean", "mean over the queries that see the key of q·k, after rotary, unscaled"),
        Variable("qk_cos", _KEYS, "mean", "the same of the cosine between q and k"),
        Variable("qk_norm", _KEYS, "mean", "the same of |q||k|"),
        Variable("key_norm", _KV_KEYS, "replace", "|k| after rotary"),
        Variable("query_norm", ("step", "layer", "head", "query"), "append", "|q| after rotary"),
        Variable("qk_matrix", _pictures("qk_matrix"), "append", "q·k of every query and key, where asked for"),
    ),
    "extremes": _table(
        Variable("value_norm", _KV_KEYS, "replace", "|v|"),
        Variable("residual_norm", ("step", "layer", "key"), "append", "|x| of the state that enters the layer"),
    ),
    "matrix": _table(
        Variable("matrix", _pictures("matrix"), "append", "attention weights, where asked for"),
    ),
}
"""What each probe provides. `merge` is about key/value caches; see `Variable`."""

ALWAYS: dict[str, Variable] = _table(
    Variable("sequence", ("step", "key"), "replace", "token ids before the pass; -1 where nothing stands yet", "int32"),
    Variable("final", ("key",), "replace", "token ids of the finished sequence", "int32"),
    Variable("region_of", ("key",), "replace", "index into the region names", "int16"),
    Variable("evidence", ("key",), "replace", "True on the evidence span", "bool"),
    Variable("token_position", ("token",), "replace", "position of a committed token", "int32"),
    Variable("token_id", ("token",), "replace", "its id", "int32"),
    Variable("token_step", ("token",), "replace", "step (number in the run) whose pass decided it", "int32"),
    Variable("token_row", ("token",), "replace", "query whose logits decided it", "int32"),
    Variable("token_confidence", ("token",), "replace", "the sampler's confidence in it", "float32"),
)
"""What every trace holds, whatever probes were on."""

FORCED: dict[str, Variable] = _table(
    Variable("token_probability", ("token",), "replace", "probability of a forced token, by the model's plain softmax"),
)
"""What traces of a forced text hold besides."""

SCHEMA: dict[str, Variable] = {**ALWAYS, **FORCED, **{n: v for group in BY_PROBE.values() for n, v in group.items()}}

_ATTRIBUTES: dict[str, type] = {
    **dict.fromkeys(("model", "decoding", "prompt", "versions"), dict),
    **dict.fromkeys(("regions", "token_text"), list),
    "heads": str,
    "causal": bool,
}

_OPTIONAL: dict[str, type] = {"data_set": str, "attention": str}
"""Attributes that a trace may lack, so that files from before they existed still open; checked where it has them."""


def probe_of(name: str) -> str:
    """The probe that provides a variable."""
    for probe, table in BY_PROBE.items():
        if name in table:
            return probe
    raise FloatlensError(f'"{name}" is not a variable that a probe provides; see floatlens.traces.schema')


def validate(data: xr.Dataset, where: str) -> None:
    """Refuse a dataset that does not keep to the schema, in one line that names the file and the first fault."""
    version = data.attrs.get("schema_version")
    if version != SCHEMA_VERSION:
        raise FloatlensError(
            f"{where}: trace schema version is {version!r} and this floatlens reads {SCHEMA_VERSION}; "
            f"delete {where} and run again"
        )
    _need(where, "attribute", _ATTRIBUTES, data.attrs)
    for attribute, kind in (_ATTRIBUTES | _OPTIONAL).items():
        if attribute not in data.attrs:
            continue
        given = data.attrs[attribute]
        wrong = (attribute == "heads" and given not in ("all", "mean")) or (attribute == "data_set" and not given)
        if not isinstance(given, kind) or wrong:
            raise FloatlensError(
                f'{where}: attribute "{attribute}" is {given!r:.60}, which no trace has; was the file changed?'
            )
    _need(where, "variable", ALWAYS, data.variables)
    for held in data.data_vars:
        variable = SCHEMA.get(str(held))
        if variable is None:
            raise FloatlensError(f'{where}: variable "{held}" is not in the trace schema; was the file changed?')
        _check(data, variable, where)
    if not set(np.unique(data["region_of"].values)) <= set(range(len(data.attrs["regions"]))):
        raise FloatlensError(f"{where}: region_of points outside the {len(data.attrs['regions'])} region names")
    texts = len(data.attrs["token_text"])
    if texts not in (0, data.sizes["key"]):
        raise FloatlensError(f"{where}: token_text has {texts} entries for {data.sizes['key']} keys")


def _need(where: str, what: str, names: Iterable[str], found: Iterable[object]) -> None:
    have = set(found)
    for name in names:
        if name not in have:
            raise FloatlensError(f'{where}: {what} "{name}" is missing; the file is not a whole trace')


def _check(data: xr.Dataset, variable: Variable, where: str) -> None:
    array = data[variable.name]
    dims = variable.dims
    if data.attrs["heads"] == "mean" and variable.dims[0] == "step":
        dims = tuple(dim for dim in dims if dim not in ("head", "kv_head"))
    if array.dims != dims:
        raise FloatlensError(f"{where}: {variable.name} has dims {array.dims}, the schema says {dims}")
    if array.dtype != np.dtype(variable.dtype):
        raise FloatlensError(f"{where}: {variable.name} has type {array.dtype}, the schema says {variable.dtype}")
