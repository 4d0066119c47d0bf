"""Attention rollout (methods §7): add the identity, normalise rows, multiply over layers. Rows stay stochastic."""

from __future__ import annotations

import numpy as np

from floatlens.analysis.kernels import Floats

__all__ = ["rollout"]


def rollout(attention: Floats) -> Floats:
    """(layer, from, to) → (layer, from, to): the rollout through each layer and all before it.

    An undefined row (a region without queries) becomes the identity.
    """
    size = attention.shape[-1]
    identity = np.eye(size)
    undefined = np.isnan(attention).any(axis=-1, keepdims=True)
    mixed = np.where(undefined, identity, attention) + identity
    mixed /= mixed.sum(axis=-1, keepdims=True)
    through = np.empty_like(mixed)
    held = identity
    for layer, step in enumerate(mixed):
        held = step @ held
        through[layer] = held
    return through
