"""The tensors of a checkpoint by name and shape, from headers and indexes: no weight is read.

`check_tensors` compares what transformers found with what its class needs; `load` uses it after reading weights, and
`requirements` before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from floatlens.core.errors import FloatlensError
from floatlens.models.checkpoint import Checkpoint, brief

__all__ = ["Shapes", "check_names", "check_tensors", "list_tensors"]

Shapes = Mapping[str, tuple[int, ...] | None]
"""Names of tensors, and their shapes where these are known (an index has names alone)."""


def list_tensors(checkpoint: Checkpoint) -> tuple[Shapes, dict[str, int]]:
    """The tensors of the weight files, and the number of tensors of each stored dtype.

    Of a hub repository, or where shards are missing, only the index is known, which has no shapes and no dtypes.
    """
    folder = checkpoint.folder
    for single in ("model.safetensors", "pytorch_model.bin"):
        if (folder / single).is_file():
            return _read_headers([folder / single])
        listed = checkpoint.tensor_index(single)
        if listed and (checkpoint.hub_id is not None or checkpoint.missing_shards()):
            return dict.fromkeys(listed), {}
        if listed:
            return _read_headers(checkpoint.weight_files(single))
    if checkpoint.hub_id is not None:
        return {}, {}
    raise FloatlensError(f"{folder}: no weights in it, and no index of them")


def _read_headers(files: Sequence[Path]) -> tuple[Shapes, dict[str, int]]:
    shapes: dict[str, tuple[int, ...] | None] = {}
    dtypes: dict[str, int] = {}
    for file in files:
        for name, shape, dtype in _header(file):
            shapes[name] = shape
            dtypes[dtype] = dtypes.get(dtype, 0) + 1
    return shapes, dtypes


def _header(file: Path) -> list[tuple[str, tuple[int, ...], str]]:
    """(name, shape, dtype) of every tensor in one file."""
    import torch
    from safetensors import SafetensorError, safe_open

    try:
        if file.suffix == ".safetensors":
            with safe_open(file, framework="pt") as opened:
                slices = {name: opened.get_slice(name) for name in opened.keys()}  # noqa: SIM118
                return [(name, tuple(one.get_shape()), str(one.get_dtype())) for name, one in slices.items()]
        held = torch.load(file, map_location="meta", weights_only=True, mmap=True)
    except (SafetensorError, OSError, ValueError, RuntimeError) as error:
        raise FloatlensError(f"{file}: damaged or cut short ({brief(error)}); download it again") from error
    except Exception as error:  # whatever else unpickling raises: it holds more than tensors
        raise FloatlensError(f"{file}: it holds more than tensors, which floatlens does not unpickle") from error
    return [(name, tuple(one.shape), str(one.dtype).removeprefix("torch.")) for name, one in held.items()]


def check_tensors(info: Mapping[str, Any], kind: str, surplus: Sequence[str], where: Path) -> None:
    """Every tensor has found its place, or the first that has not is named."""
    for key, here, needed in sorted(info["mismatched_keys"]):
        raise FloatlensError(
            f"{where}: tensor {key} is {_shape(here)} in the file, but its configuration makes it {_shape(needed)}"
        )
    missing = sorted(info["missing_keys"])
    if missing:
        raise FloatlensError(f"{where}: tensor {missing[0]} of {kind} is missing from the weights{_more(missing)}")
    over = [key for key in sorted(info["unexpected_keys"]) if not any(re.search(known, key) for known in surplus)]
    if over:
        raise FloatlensError(f"{where}: tensor {over[0]} of the weights has no place in {kind}{_more(over)}")


def check_names(
    names: Sequence[str], module: Any, mapping: Mapping[str, str] | None, surplus: Sequence[str], where: Path
) -> None:
    """As `check_tensors`, from names alone, by transformers' own renaming."""
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import WeightConverter, WeightRenaming, rename_source_key

    transforms = get_model_conversion_mapping(module, dict(mapping) if mapping is not None else None)
    renamings = [one for one in transforms if isinstance(one, WeightRenaming)]
    converters = [one for one in transforms if isinstance(one, WeightConverter)]
    expected = module.state_dict()
    tied = set(getattr(module, "all_tied_weights_keys", None) or ())
    found: set[str] = set()
    for name in names:
        target, pattern = rename_source_key(name, renamings, converters, module.base_model_prefix, expected)
        found.add(target)
        for converter in converters:
            if pattern is not None and pattern in converter.source_patterns and target not in names:
                first, *others = converter.target_patterns
                found |= {target.replace(first, other) for other in others}
    info = {"mismatched_keys": (), "missing_keys": set(expected) - found - tied}
    check_tensors(info | {"unexpected_keys": found - set(expected)}, type(module).__name__, surplus, where)


def _shape(shape: Any) -> str:
    return " x ".join(str(size) for size in shape)


def _more(keys: list[str]) -> str:
    return f" (and {len(keys) - 1} more)" if len(keys) > 1 else ""
