"""Attributes and sizes of a trace: what must be there, of which kind, and how large a dimension may be.

Both are known before an array is read, so a trace that claims what no run can have is refused before memory is asked
for. Checked for traces in memory and for files alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from floatlens.core.errors import FloatlensError

__all__ = ["check_attributes", "check_sizes", "need"]

_Kinds = tuple[type | None, ...]

_ATTRIBUTES: dict[str, type] = {
    **dict.fromkeys(("model", "decoding", "prompt", "versions", "variables"), dict),
    **dict.fromkeys(("regions", "token_text"), list),
    "heads": str,
    "causal": bool,
}
_OPTIONAL: dict[str, type] = {"data_set": str, "attention": str, "capture": dict, "probes": list, "edits": list}
"""Attributes that a trace may lack; checked where it has them."""

_REQUIRED: dict[str, dict[str, _Kinds]] = {
    "model": {
        **dict.fromkeys(("ref", "kind"), (str,)),
        **dict.fromkeys(("mask_id", "bos_id"), (int, None)),
        **dict.fromkeys(("layers", "heads", "kv_heads"), (int,)),
        "eos_ids": (list,),
    },
    "decoding": {"answer": (str, None), "forward_passes": (int,)},
    "prompt": {"question": (str, None), "gold": (int, None)},
}
_KNOWN: dict[str, dict[str, _Kinds]] = {
    "model": {
        **dict.fromkeys(("family", "class", "dtype"), (str,)),
        "revision": (str, None),
        "shift": (bool,),
        "control": (dict,),
        "reach": (list,),
    },
    "decoding": {
        **dict.fromkeys(("sampler",), (str,)),
        "settings": (dict,),
        "prompt_length": (int,),
        "answer_ids": (list,),
        "forced": (bool,),
        "log_likelihood": (float, None),
    },
    "prompt": {
        **dict.fromkeys(("evidence_kind", "template", "passage"), (str, None)),
        "titles": (list,),
        "chat": (bool, None),
        "dropped_documents": (int,),
        "hole": (dict, None),
    },
}
"""Keys that an attribute may lack; checked where it has them."""

_LISTS: dict[tuple[str, ...], _Kinds] = {
    **dict.fromkeys((("regions",), ("token_text",), ("probes",), ("edits",)), (str,)),
    **dict.fromkeys((("model", "eos_ids"), ("decoding", "answer_ids")), (int,)),
    ("prompt", "titles"): (str, None),
}
"""Attributes that are lists, and what they list."""
_LARGEST = {"layers": 10_000, "heads": 10_000, "kv_heads": 10_000, "forward_passes": 10_000_000}
_LONGEST = 1 << 27
"""Entries of one dimension; longer ones are refused whatever they are."""


def need(where: str, what: str, names: Iterable[str], found: Iterable[object]) -> None:
    """Refuse where one of `names` is not among what was `found`."""
    have = set(found)
    for name in names:
        if name not in have:
            raise FloatlensError(f'{where}: {what} "{name}" is missing; delete {where} and run again')


def check_attributes(attrs: Mapping[str, Any], where: str) -> None:
    """Refuse attributes that no trace has, in one line that names the first."""
    need(where, "attribute", _ATTRIBUTES, attrs)
    for name, kind in (_ATTRIBUTES | _OPTIONAL).items():
        if name in attrs:
            _check(attrs[name], (kind,), name, where)
    if attrs["heads"] not in ("all", "mean"):
        _refuse(attrs["heads"], "heads", where)
    if "data_set" in attrs and not attrs["data_set"]:
        _refuse(attrs["data_set"], "data_set", where)
    for name, keys in _REQUIRED.items():
        need(where, f"{name} key", keys, attrs[name])
        for key, kinds in (keys | _KNOWN[name]).items():
            if key in attrs[name]:
                _check(attrs[name][key], kinds, f"{name}.{key}", where)
    for path, kinds in _LISTS.items():
        listed: Any = attrs
        for part in path:
            listed = listed.get(part, ())
        for one in listed:
            _check(one, kinds, ".".join(path), where)
    _check_names(attrs, where)
    for key, most in _LARGEST.items():
        given = attrs["decoding" if key == "forward_passes" else "model"][key]
        if not 0 <= given <= most:
            raise FloatlensError(f"{where}: {key} is {str(given)[:20]}, which no run has; delete {where} and run again")


def check_sizes(sizes: Mapping[str, int], attrs: Mapping[str, Any], where: str) -> None:
    """Refuse dimensions that disagree with the attributes, which say how many layers, heads, … there can be."""
    model, regions, texts = attrs["model"], len(attrs["regions"]), len(attrs["token_text"])
    passes = attrs["decoding"]["forward_passes"]
    most = {"layer": model["layers"], "head": model["heads"], "kv_head": model["kv_heads"], "step": passes}
    for dim, size in sizes.items():
        limit = most.get(dim, most.get(dim.rpartition("_")[2], _LONGEST))  # matrix_layer is a choice of layers
        if size > limit:
            raise FloatlensError(
                f"{where}: {size} entries in dimension {dim}, where there can be {limit}; delete {where} and run again"
            )
    exact = {"region": regions, "from_region": regions, "query": sizes.get("key", 0)}
    for dim, size in exact.items():
        if sizes.get(dim, size) != size:
            raise FloatlensError(
                f"{where}: dimension {dim} has {sizes[dim]} entries instead of {size}; delete {where} and run again"
            )
    if texts not in (0, sizes.get("key")):
        raise FloatlensError(
            f"{where}: token_text has {texts} entries for {sizes.get('key')} keys; delete {where} and run again"
        )


def _check_names(attrs: Mapping[str, Any], where: str) -> None:
    """Names that are used as keys: kinds of models, regions, versions."""
    if attrs["model"]["kind"] not in ("mdm", "arm"):
        _refuse(attrs["model"]["kind"], "model.kind", where)
    if len(set(attrs["regions"])) != len(attrs["regions"]):
        _refuse(attrs["regions"], "regions", where)
    for name, version in attrs["versions"].items():
        _check(version, (str,), f"versions.{name}", where)
    for name, declared in attrs["variables"].items():
        _check(declared, (dict,), f"variables.{name}", where)
        for key in ("probe", "meaning"):
            if key in declared:
                _check(declared[key], (str,), f"variables.{name}.{key}", where)
    reach = attrs["model"].get("reach")
    if reach is not None and (len(reach) != attrs["model"]["layers"] or not all(map(_is_reach, reach))):
        _refuse(reach, "model.reach", where)
    for key, one in attrs["model"].get("control", {}).items():
        _check(one, (int,) if key == "seed" else (str,), f"model.control.{key}", where)


def _is_reach(one: object) -> bool:
    """What a layer sees: its attention mask, all positions, or a number of them before and after a row."""
    if isinstance(one, list):
        return len(one) == 2 and all(type(part) is int and 0 <= part <= _LONGEST for part in one)
    return one in ("mask", "all", "unknown")


def _check(value: Any, kinds: _Kinds, name: str, where: str) -> None:
    fits = any(
        value is None if kind is None else isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        for kind in kinds
    )
    whole_number = float in kinds and isinstance(value, int) and not isinstance(value, bool)
    if not (fits or whole_number):
        _refuse(value, name, where)


def _refuse(value: Any, name: str, where: str) -> None:
    raise FloatlensError(
        f'{where}: attribute "{name}" is {str(value)[:60]!r}, which no trace has; delete {where} and run again'
    )
