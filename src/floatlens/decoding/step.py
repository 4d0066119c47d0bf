"""The results of decoding: a `Step` for every forward pass, and `Decoded` at the end.

Both are on the CPU, whatever device the model is on. They hold no logits and no attention.
"""

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

    `sequence` (batch, length) is a copy of the ids before the pass. For a masked diffusion model it has the canvas's
    length; for an autoregressive model it grows by one column per step (the first step is the prefill over the prompt;
    a sample that has ended is padded). Column numbers are the same in every step, in `Canvas` and in the keys of a
    pass, with or without a KV cache.
    """

    index: int
    sequence: Tensor
    """(batch, length) ids before the pass."""
    sample: Tensor
    """(committed,) which sample of the batch each committed token belongs to."""
    position: Tensor
    """(committed,) the column it is written to."""
    token: Tensor
    """(committed,) the id written."""
    confidence: Tensor
    """(committed,) float32: the token's probability, or the measure that Dream's `alg` names."""
    row: Tensor
    """(committed,) column of the query whose logits decided it; minus `Pass.offset`, its index within the pass."""
    unfinished: Tensor
    """(batch,) bool: False for a sample that was complete before this pass."""
    passes: int = 1
    """Number of forward passes, including unobserved ones: 2 with classifier-free guidance."""
    probability: Tensor | None = None
    """(committed,) float64, only where a text is forced: the probability of each token in the softmax of the model's
    logits, before guidance, temperature and other changes by the sampler."""

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
    def prompt_lengths(self) -> tuple[int, ...]:
        return self.canvas.prompt_lengths

    @property
    def forced(self) -> bool:
        """Whether a given text was written instead of the model's own."""
        return self.canvas.target is not None

    def log_likelihood(self) -> list[float]:
        """For each sample the mean of log p (natural) over its forced tokens, p as in `Step.probability`.

        Each probability is from the step in which the token was written. For an autoregressive model the mean is the
        likelihood of the text; for a masked diffusion model it is an estimate that depends on the order. A
        FloatlensError where nothing was forced.
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
        written = self.canvas.answer[:, : self.sequence.shape[1]]
        answers = []
        for ids, where in zip(self.sequence, written, strict=True):
            answer = ids[where]
            stop = torch.isin(answer, ends).nonzero()
            answers.append(answer[: int(stop[0])].tolist() if len(stop) else answer.tolist())
        return answers

    def __repr__(self) -> str:
        samples, length = self.sequence.shape
        return (
            f"Decoded({samples} sample{'s' * (samples != 1)} of {length} columns by {self.canvas.sampler}: "
            f"{sum(len(step.token) for step in self.steps)} tokens in {len(self.steps)} steps, "
            f"{self.forward_passes} forward passes{', forced' * self.forced})"
        )
