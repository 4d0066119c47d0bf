"""How much fits into memory: questions decoded together, and bytes of a block of attention.

The budget starts at its maximum and is halved after each out-of-memory error. Results do not depend on it, except for
the last bits of sums over blocks.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch

from floatlens.attention.softmax import Workspace
from floatlens.core.errors import FloatlensError

__all__ = ["MIN_BLOCK_BYTES", "MemoryBudget", "out_of_memory", "release_memory", "retry_with_smaller_blocks"]

T = TypeVar("T")

MIN_BLOCK_BYTES = 256 << 10
"""Below this size a block is a small part of what a pass needs, so halving it further does not help."""

_MESSAGES = ("can't allocate memory", "out of memory", "cublas_status_alloc_failed", "cudnn_status_alloc_failed")


@dataclass
class MemoryBudget:
    """What is known to fit. `questions` (decoded together) is None until a batch was too large."""

    questions: int | None = None
    block_bytes: int = 8 << 20

    def workspace(self) -> Workspace:
        """Buffers of this size; what an edit keeps of a layer is eight blocks."""
        return Workspace(self.block_bytes, keep_bytes=8 * self.block_bytes)

    def fewer_questions(self, tried: int) -> str:
        """Halve the number of questions; returns the message about it."""
        self.questions = (tried + 1) // 2
        return f"out of memory with {tried} questions at once; from now on {self.questions} at a time"

    def smaller_blocks(self) -> str | None:
        """Halve the block; returns the message about it, or None at the minimum."""
        if self.block_bytes <= MIN_BLOCK_BYTES:
            return None
        tried, self.block_bytes = self.block_bytes, self.block_bytes // 2
        return f"out of memory with blocks of {tried >> 10} KiB; from now on {self.block_bytes >> 10} KiB"


def retry_with_smaller_blocks(
    budget: MemoryBudget, attempt: Callable[[Workspace], T], messages: list[str], failure: str
) -> T:
    """Run `attempt` with blocks halved after each out-of-memory error; `failure` is the error at the smallest block."""
    while True:
        try:
            return attempt(budget.workspace())
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
        # outside of the except block, so the traceback no longer holds the tensors of the attempt
        release_memory()
        smaller = budget.smaller_blocks()
        if smaller is None:
            raise FloatlensError(failure)
        messages.append(smaller)


def out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out; for CPU, MPS and cuBLAS torch raises a plain RuntimeError."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error).lower() for words in _MESSAGES)


def release_memory() -> None:
    """Free what a failed attempt held, on the device too."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    if torch.backends.mps.is_available():
        torch.mps.empty_cache()
