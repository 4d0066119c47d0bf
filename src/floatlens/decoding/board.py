"""The sequence while a diffusion sampler writes it: open masks, their logits, and the step that fills some of them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from floatlens.core.errors import FloatlensError
from floatlens.decoding.canvas import Canvas
from floatlens.decoding.step import Step
from floatlens.models.base import LanguageModel

__all__ = ["Board", "Places", "check_finite", "probability_of"]


class Places(NamedTuple):
    """Masks of a batch in order of (sample, position); two tensors (n,) of the same length."""

    sample: Tensor
    position: Tensor


class Board:
    """A batch that is being decoded. `ids` (batch, length) is on the CPU and changes with every step.

    Samplers must not write the mask token, even if it has the highest logit: the published samplers then count the
    position as filled and leave a mask in the answer.
    """

    def __init__(self, model: LanguageModel, canvas: Canvas) -> None:
        assert model.mask_id is not None  # the contract of kind "mdm"
        self.model = model
        self.canvas = canvas
        self.mask_id = model.mask_id
        self.ids = canvas.ids.clone()
        self.steps = 0
        self._probability = torch.full(self.ids.shape, torch.nan, dtype=torch.float64)  # of forced tokens, latest pass
        # without padding no mask is passed at all: attention then takes its fastest path
        self._attention_mask = None if canvas.attention_mask.all() else canvas.attention_mask.to(model.device)

    def open(self) -> Tensor:
        """(batch, length) bool: the masks still to be filled."""
        return self.canvas.answer & (self.ids == self.mask_id)

    def places(self, inside: Tensor | None = None) -> Places:
        """The masks still to be filled, of those `inside` (batch, length)."""
        masks = self.open() if inside is None else self.open() & inside
        return Places(*masks.nonzero(as_tuple=True))

    def logits(self, where: Places, *, ids: Tensor | None = None, observed: bool = True) -> Tensor:
        """One forward pass; (n, vocabulary) float32 logits that decide the n places `where`.

        `ids` replaces the sequence in an unobserved contrast pass (guidance). Where a text is forced, an observed pass
        also records the probability of its tokens.
        """
        sample, position = where
        row = self.canvas.rows[sample, position]
        wanted = torch.zeros(self.ids.shape, dtype=torch.bool)
        wanted[sample, row] = True
        given = self.ids if ids is None else ids
        logits = self.model.forward(
            given.to(self.model.device),
            self._attention_mask,
            logits_at=wanted.to(self.model.device),
            writing=self.canvas.answer,
            observed=observed,
        )
        if len(logits) < len(row):  # after an empty prompt, one shifted row decides two positions
            slot = (wanted.flatten().cumsum(dim=0) - 1)[sample * wanted.shape[1] + row]
            logits = logits[slot.to(logits.device)]
        logits = logits.float()
        if self.canvas.target is not None and observed:
            self._probability[where] = probability_of(logits, self.canvas.target[where])
        return logits

    def fill(self, where: Places, token: Tensor, confidence: Tensor, keep: Tensor, *, passes: int = 1) -> Step:
        """Write the tokens, or the forced text, at the places marked in `keep` (n,) and return the step."""
        check_finite(confidence, self.steps)
        sample, position, token = where.sample[keep], where.position[keep], token[keep]
        forced = self.canvas.target
        if forced is not None:
            token = forced[sample, position]
        step = Step(
            index=self.steps,
            sequence=self.ids.clone(),
            sample=sample,
            position=position,
            token=token,
            confidence=confidence[keep].float(),
            row=self.canvas.rows[sample, position],
            unfinished=self.open().any(dim=1),
            passes=passes,
            probability=None if forced is None else self._probability[sample, position],
        )
        self.ids[sample, position] = token
        self.steps += 1
        return step


def probability_of(logits: Tensor, token: Tensor) -> Tensor:
    """(n,) float64 on the CPU: what the softmax of `logits` (n, vocabulary) gives each `token` (n,)."""
    picked = logits.gather(1, token.to(logits.device)[:, None])[:, 0]
    return (picked - logits.logsumexp(dim=-1)).cpu().double().exp()


def check_finite(confidence: Tensor, step: int) -> None:
    """Stop at logits that are not finite: every choice made from them would be arbitrary."""
    if bool(confidence.isnan().any()):
        raise FloatlensError(
            f"the model's logits are not finite at step {step}; load it in float32 or bfloat16, or check its weights"
        )
