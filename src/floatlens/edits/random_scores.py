"""Random choices of control edits: the same for a sample alone or in any batch, padded or not, cached or not.

Each number belongs to a token's index among the real tokens of its sample. It depends on the seed, the sample's prompt
and, unless the choice holds for a whole run, the step and the layer.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from floatlens.attention.run_tracker import PassPosition
from floatlens.core.errors import FloatlensError

__all__ = ["check_seed", "random_scores"]


def check_seed(who: object, seed: int) -> int:
    """The seed, if it is a valid one."""
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise FloatlensError(f"{type(who).__name__}(seed={seed!r}): give a whole number from 0")
    return seed


def random_scores(position: PassPosition, seed: int, heads: int, *key: int) -> Tensor:
    """(batch, head, key) numbers in [0, 1), -1 on padding."""
    drawn = np.full((len(position.real), heads, position.real.shape[1]), -1.0)
    for sample, (there, mark) in enumerate(zip(position.real, position.run.fingerprints, strict=True)):
        random = np.random.default_rng([seed, mark, *key])
        drawn[sample][:, there] = random.random((int(there.sum()), heads)).T  # token-major order
    return torch.from_numpy(drawn)
