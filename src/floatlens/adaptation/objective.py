"""Which tokens are asked for, what the model sees of the row, and the loss.

The tokens asked for are drawn alike for both objectives. A diffusion model has them replaced by masks and sees the rest
of the row as its attention allows; an autoregressive one predicts them from what precedes them. Logits are shifted in
both: row i decides position i + 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy, kl_div, log_softmax, softmax

from floatlens.adaptation.recipe import Attention, Recipe
from floatlens.adaptation.rows import ANSWER, CONTEXT, END, FILL, PADDING, TEXT, Rows

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["Asked", "Score", "draw", "hidden_states", "score", "visible"]

_WEIGHT = {CONTEXT: 0.3, ANSWER: 1.0, END: 1.0, FILL: 0.05}
RATIOS = (0.0, 0.33, 0.67, 1.0)
"""Bounds of the mask ratios by which the loss of plain text is reported."""


@dataclass(frozen=True)
class Asked:
    """(row, position) which tokens are asked for, the weight of each, and the mask ratio of its span."""

    where: NDArray[np.bool_]
    weight: NDArray[np.float32]
    ratio: NDArray[np.float32]


def draw(random: np.random.Generator, rows: Rows, recipe: Recipe) -> Asked:
    """Draw a mask ratio for every answer and every row of text, then the tokens.

    Under block attention half of the blocks of text are left whole, as what was written before would be, and the
    prompt is never asked for: it is causal there.
    """
    ratio = np.zeros(rows.ids.shape, dtype=np.float32)
    for row in range(len(rows.ids)):
        _draw_row(random, rows, row, ratio[row], recipe)
    where = random.random(ratio.shape) < ratio
    where[:, 0] = False
    if not where.any():  # the last token of a row, so every step has a loss
        where[0, int((rows.part[0] != PADDING).sum()) - 1] = True
    base = np.zeros(ratio.shape, dtype=np.float32)
    for part, value in {**_WEIGHT, TEXT: recipe.text_weight}.items():
        base[rows.part == part] = value
    # the context's ratio is small on purpose; weighing it up would make it the main task
    scale = np.where(rows.part == CONTEXT, 1.0, np.minimum(1 / np.maximum(ratio, 1e-3), recipe.largest_weight))
    return Asked(where, (base * scale * where).astype(np.float32), ratio)


def _draw_row(random: np.random.Generator, rows: Rows, row: int, ratio: NDArray[Any], recipe: Recipe) -> None:
    part, block = rows.part[row], rows.block[row]
    low = recipe.least_ratio
    if (part == TEXT).any():
        ratio[part == TEXT] = low + (1 - low) * random.random() ** recipe.text_power
        if recipe.mask == "block":
            whole = random.random(int(block.max()) + 1) < 0.5
            ratio[whole[block]] = 0
        return
    for number in range(int(block.max()) + 1):
        ratio[block == number] = 1.0 if random.random() < recipe.whole_answer else random.uniform(low, 1)
    if random.random() < 0.5 and recipe.mask == "full":
        ratio[part == CONTEXT] = recipe.context_mask


def visible(rows: Rows, attention: Attention, share: float = 1.0, random: np.random.Generator | None = None) -> Tensor:
    """(row, 1, query, key) bool: which keys each position sees. `share` of the later keys is visible, for annealing."""
    width = rows.ids.shape[1]
    place = np.arange(width)
    seen = np.broadcast_to(place[None, :] <= place[:, None], (len(rows.ids), width, width)).copy()
    if attention == "full":
        if share >= 1 or random is None:
            seen[:] = True
        else:
            seen |= random.random(seen.shape) < share
    elif attention == "block":
        seen |= (rows.block[:, :, None] == rows.block[:, None, :]) & (rows.block[:, :, None] >= 0)
    seen &= (rows.part != PADDING)[:, None, :]
    seen[:, place, place] = True  # padding sees itself, or its softmax would have no terms
    return torch.from_numpy(seen)[:, None]


@dataclass(frozen=True)
class Score:
    """The loss to descend, and what is reported of the batch: sums and counts by name."""

    loss: Tensor
    sums: dict[str, tuple[float, int]] = field(default_factory=dict)


def hidden_states(module: PreTrainedModel, ids: Tensor, mask: Tensor) -> Tensor:
    """Last hidden states (row, position, width) under an explicit attention mask."""
    positions = torch.arange(ids.shape[1])[None]
    states: Tensor = module.base_model(
        input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=False
    ).last_hidden_state
    return states


def score(
    module: PreTrainedModel,
    rows: Rows,
    asked: Asked,
    mask: Tensor,
    mask_id: int | None,
    teacher: Tensor | None = None,
    distill: float = 0.0,
) -> Score:
    """The loss of a batch: weighted cross-entropy over the tokens asked for. `mask_id` None leaves them in view.

    `teacher` (asked, vocabulary) are logits of the frozen base; `distill` is the share of the loss that follows them.
    """
    ids, where = torch.from_numpy(rows.ids), torch.from_numpy(asked.where)
    seen = ids if mask_id is None else ids.masked_fill(where, mask_id)
    states = hidden_states(module, seen, mask)
    logits = module.get_output_embeddings()(states[where.roll(-1, dims=1)])  # type: ignore[no-untyped-call]
    weight = torch.from_numpy(asked.weight)[where]
    target = ids[where]
    each = cross_entropy(logits, target, reduction="none")
    total = each
    if teacher is not None:
        apart = kl_div(log_softmax(logits, -1), softmax(teacher, -1), reduction="none").sum(-1)
        total = (1 - distill) * each + distill * apart
    loss = (total * weight).sum() / weight.sum()
    return Score(loss, _sums(rows, asked, each.detach(), logits.detach().argmax(-1) == target))


def _sums(rows: Rows, asked: Asked, each: Tensor, hit: Tensor) -> dict[str, tuple[float, int]]:
    """Loss and hits over answers, and loss over plain text by mask ratio: name → (sum, count)."""
    part, ratio = rows.part[asked.where], asked.ratio[asked.where]
    answer = part == ANSWER
    found = {
        "answer_loss": (float(each.numpy()[answer].sum()), int(answer.sum())),
        "answer_accuracy": (float(hit.numpy()[answer].sum()), int(answer.sum())),
    }
    for low, high in pairwise(RATIOS):
        inside = (part == TEXT) & (ratio > low) & (ratio <= high)
        found[f"text_loss_{int(high * 100)}"] = (float(each.numpy()[inside].sum()), int(inside.sum()))
    return found
