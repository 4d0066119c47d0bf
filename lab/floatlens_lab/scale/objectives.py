"""What a model is asked about a batch of rows: the next token everywhere, or the masked ones. Nothing else differs.

Weights per position are the same for both: answers and the EOS that ends them count in full, further EOS and the
context a little. A masked context token counts more than a context token read from left to right, because few are
masked, so the context as a whole has about the same weight.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from floatlens_lab.scale.rows import ANSWER, CONTEXT, END, FILL, Rows

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from floatlens_lab.scale.blueprints import Blueprint

__all__ = ["Score", "draw_mask", "score"]

_WEIGHT = {CONTEXT: 0.1, ANSWER: 1.0, END: 1.0, FILL: 0.1}
_MASKED_CONTEXT = 0.5


@dataclass(frozen=True)
class Score:
    """The loss to descend, and two numbers to watch: mean loss and accuracy over the answer tokens that were asked."""

    loss: Tensor
    answer_loss: float
    accuracy: float


def draw_mask(
    random: np.random.Generator, rows: Rows, *, every_answer: float, context_mask: float
) -> NDArray[np.bool_]:
    """(row, position) what a diffusion model does not see: mostly every answer of a row, sometimes a share of them.

    In half the rows, `context_mask` of the context is hidden as well.
    """
    shape = (len(rows.ids), 1)
    answers = np.where(random.random(shape) < every_answer, 1.0, random.random(shape))
    context = np.where(random.random(shape) < 0.5, context_mask, 0.0)
    mask: NDArray[np.bool_] = random.random(rows.ids.shape) < np.where(rows.part == CONTEXT, context, answers)
    mask[:, 0] = False
    return mask


def score(module: PreTrainedModel, plan: Blueprint, rows: Rows, mask: NDArray[np.bool_], mask_id: int) -> Score:
    """The loss of one batch. `mask` is used by diffusion models only; logits are computed where a token is asked."""
    ids, part = torch.from_numpy(rows.ids), torch.from_numpy(rows.part)
    weight = torch.tensor([_WEIGHT[kind] for kind in sorted(_WEIGHT)])[part.long()]
    if plan.kind == "mdm":
        asked = torch.from_numpy(mask)
        seen = ids.masked_fill(asked, mask_id)
        weight = weight.masked_fill(part == CONTEXT, _MASKED_CONTEXT)
    else:
        asked = torch.ones_like(ids, dtype=torch.bool)
        asked[:, 0] = False
        seen = ids
    states = module.base_model(seen, use_cache=False).last_hidden_state
    rows_of = asked.roll(-1, dims=1) if plan.shift else asked  # position 0 is never asked, so nothing wraps around
    logits = module.get_output_embeddings()(states[rows_of])  # type: ignore[no-untyped-call]
    target, weight, answer = ids[asked], weight[asked], part[asked] == ANSWER
    each = cross_entropy(logits, target, reduction="none")
    hit = logits.argmax(dim=-1) == target
    return Score(
        loss=(each * weight).sum() / weight.sum(),
        answer_loss=float(each.detach()[answer].mean()),
        accuracy=float(hit[answer].float().mean()),
    )
