"""The results of decoding, on the CPU: a `Step` for every forward pass, and `Decoded` at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from floatlens.core.errors import FloatlensError

if TYPE_CHECKING:
    from floatlens.decoding.canvas import Canvas

__all__ = ["Decoded", "Step"]


@dataclass(frozen=True, eq=False)
class Step:
    """One observed forward pass and the tokens it decided, in order of (sample, position).

    `sequence` (batch, length) is a copy of the ids before the pass; for an autoregressive model it grows by one column
    per step. Column numbers are the same in every step, in `Canvas` and in the keys of a pass, with or without a cache.
    For each committed token: its `sample`, the column `position`, the id `token`, `confidence` (float32: its
    probability, or the measure that Dream's `alg` names), and the column `row` of the query whose logits decided it.
    """

    index: int
    sequence: Tensor
    sample: Tensor
    position: Tensor
    token: Tensor
    confidence: Tensor
    row: Tensor
    unfinished: Tensor
    """(batch,) bool: False for a sample that was complete before this pass."""
    passes: int = 1
    """Number of forward passes, including unobserved ones: 2 with classifier-free guidance."""
    probability: Tensor | None = None
    """(committed,) float64, of a forced text: each token's probability in the softmax of the model's own logits."""

    def __repr__(self) -> str:
        return f"Step({self.index}: {len(self.token)} committed of {tuple(self.sequence.shape)})"


@dataclass(frozen=True, eq=False, repr=False)
class Decoded:
    """The finished batch. `sequence` is a (batch, length) LongTensor laid out as `canvas` says.

    Example: `fl.decode(model, [5, 7, 9], gen_length=16).answers()[0]  # the ids written for the first prompt`
    """

    sequence: Tensor
    steps: Sequence[Step]
    forward_passes: int
    canvas: Canvas

    @property
    def forced(self) -> bool:
        """Whether a given text was written instead of the model's own."""
        return self.canvas.target is not None

    def log_likelihood(self) -> list[float]:
        """For each sample the mean of log p (natural) over its forced tokens, p as in `Step.probability`.

        Each probability is from the step in which the token was written, so for a masked diffusion model the mean is an
        estimate that depends on the order.
        """
        if not self.forced:
            raise FloatlensError("nothing was forced, so no text has a likelihood; decode with target_ids")
        total = torch.zeros(len(self.sequence), dtype=torch.float64)
        for step in self.steps:
            assert step.probability is not None
            total.index_add_(0, step.sample, step.probability.log())
        written: list[float] = (total / self.canvas.answer.sum(dim=1)).tolist()
        return written

    def answers(self) -> list[list[int]]:
        """The ids written for each sample, in reading order, up to but without the first end-of-text or end-of-turn.

        A forced text is returned complete.
        """
        ends = torch.tensor(() if self.forced else self.canvas.end_ids, dtype=torch.long)
        written = self.canvas.settings.kept(self.canvas.answer)[:, : self.sequence.shape[1]]
        answers = []
        for ids, where in zip(self.sequence, written, strict=True):
            answer = ids[where]
            stop = torch.isin(answer, ends).nonzero()
            answers.append(answer[: int(stop[0])].tolist() if len(stop) else answer.tolist())
        return answers

    def decided_at(self) -> list[list[int]]:
        """For each id of `answers()` the step that decided it."""
        at = torch.full(self.sequence.shape, -1)
        for step in self.steps:
            at[step.sample, step.position] = step.index
        written = self.canvas.settings.kept(self.canvas.answer)[:, : self.sequence.shape[1]]
        return [
            steps[where][: len(answer)].tolist()
            for steps, where, answer in zip(at, written, self.answers(), strict=True)
        ]

    def __repr__(self) -> str:
        samples, length = self.sequence.shape
        return (
            f"Decoded({samples} sample{'s' * (samples != 1)} of {length} columns by {self.canvas.sampler}: "
            f"{sum(len(step.token) for step in self.steps)} tokens in {len(self.steps)} steps, "
            f"{self.forward_passes} forward passes{', forced' * self.forced})"
        )
