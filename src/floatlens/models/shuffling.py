"""`shuffled`: a model with its weights shuffled, as a control for what its trained weights do.

The entries of every weight matrix change places within the matrix, so its values, their spread and the architecture
stay and what was learned is gone. The permutation of a matrix depends on the seed, the name of the parameter and its
size alone, so it is the same on every device, in every precision and however a checkpoint is divided into files.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from floatlens.core.errors import FloatlensError

from .base import LanguageModel

__all__ = ["SHUFFLED", "control_facts", "shuffle", "shuffled"]

SHUFFLED = "shuffled_weights"
"""The kind of these controls."""
_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integers by size in bytes: numpy has no bfloat16, but its bits may be moved as integers."""


def shuffled(model: LanguageModel, seed: int = 0) -> LanguageModel:
    """A copy of the model in which the entries of every weight matrix are permuted within the matrix.

    Matrices are the parameters with two dimensions or more: embeddings, projections, the head. Norms and biases stay as
    they are, and tied matrices stay tied. The copy has the family, tokenizer and settings of the model, a `ref` of its
    own and `control`, which says what it is a control of. The model itself is not changed; the copy needs as much
    memory again.

    Example: `fl.shuffled(fl.load("scale:llada"), seed=1).ref  # "scale:llada, weights shuffled (seed 1)"`
    """
    _check(model, seed)
    module, head = copy.deepcopy((model.module, model.head))  # at once: the head is a part of the module
    return shuffle(replace(model, module=module, head=head, observers=[]), seed)


def shuffle(model: LanguageModel, seed: int) -> LanguageModel:
    """The same, without a copy: the model that is given loses its weights and must not be used any more."""
    _check(model, seed)
    with torch.no_grad():
        for name, matrix in _matrices(model.module):
            _permute(matrix, _generator(seed, name))
    return replace(model, observers=[], **control_facts(model.ref, seed))


def control_facts(ref: str, seed: int) -> dict[str, Any]:
    """`ref` and `control` of the shuffled copy of a model."""
    return {
        "ref": f"{ref}, weights shuffled (seed {seed})",
        "control": {"of": ref, "kind": SHUFFLED, "seed": seed},
    }


def _check(model: LanguageModel, seed: int) -> None:
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise FloatlensError(f"seed={seed!r}; give a whole number, at least 0")
    if model.control is not None:
        raise FloatlensError(f"{model.ref} is a control already; shuffle the model that it is a control of")
    for name, matrix in _matrices(model.module):
        if matrix.is_meta:
            raise FloatlensError(
                f"{model.ref}: {name} is offloaded by its device_map, so it cannot be shuffled; load the model onto "
                "devices that hold all of it"
            )


def _matrices(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Each weight matrix once, by its name; matrices that are tied share the first of their names."""
    return ((name, one) for name, one in module.named_parameters() if one.ndim >= 2)


def _generator(seed: int, name: str) -> np.random.Generator:
    digest = hashlib.sha256(name.encode()).digest()
    return np.random.default_rng([seed, int.from_bytes(digest[:8], "big")])


def _permute(matrix: Tensor, generator: np.random.Generator) -> None:
    """Permute the entries in place; numpy shuffles on the CPU, without a list of places as large as the matrix."""
    entries = matrix.detach().contiguous().cpu()
    own = entries.data_ptr() == matrix.data_ptr()
    generator.shuffle(entries.view(_INTEGERS[entries.element_size()]).reshape(-1).numpy())
    if not own:
        matrix.copy_(entries)
