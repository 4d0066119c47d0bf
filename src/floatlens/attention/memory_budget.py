"""How much fits into a worker's memory, as it finds out: questions decoded together, and bytes of a block of attention.

Whoever runs out halves one of them, says so, and keeps to it; what comes out does not depend on either (but for the
last bits of sums over blocks). Nothing here measures memory: it is learnt from failures.
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
"""Bytes of the smallest block of attention; with less, what a pass needs besides is all that counts."""


_WORDS = ("can't allocate memory", "out of memory", "cublas_status_alloc_failed", "cudnn_status_alloc_failed")


@dataclass
class MemoryBudget:
    """What is known to fit. `questions` None means that nothing was found to be too much yet."""

    questions: int | None = None
    block_bytes: int = 8 << 20

    def workspace(self) -> Workspace:
        """Buffers that fit: what an edit keeps of a layer is eight blocks, and becomes smaller with them."""
        return Workspace(self.block_bytes, keep_bytes=8 * self.block_bytes)

    def fewer_questions(self, tried: int) -> str:
        """Half of what was tried from now on; what to say about it."""
        self.questions = (tried + 1) // 2
        return f"out of memory with {tried} questions at once; from now on {self.questions} at a time"

    def smaller_blocks(self) -> str | None:
        """Half the block from now on, and what to say about it; None where that is not worth trying any more."""
        if self.block_bytes <= MIN_BLOCK_BYTES:
            return None
        tried, self.block_bytes = self.block_bytes, self.block_bytes // 2
        return f"out of memory with blocks of {tried >> 10} KiB; from now on {self.block_bytes >> 10} KiB"


def retry_with_smaller_blocks(
    room: MemoryBudget, attempt: Callable[[Workspace], T], said: list[str], otherwise: str
) -> T:
    """What `attempt` gives, with blocks halved each time that it runs out of memory; `said` gets a line for each time.

    Where blocks cannot become smaller, `otherwise` is the error.
    """
    while True:
        try:
            return attempt(room.workspace())
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
        # here what was raised, and with it everything that the attempt held, is gone
        release_memory()
        smaller = room.smaller_blocks()
        if smaller is None:
            raise FloatlensError(otherwise)
        said.append(smaller)


def out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out; torch says it of a CPU, MPS and cuBLAS in a plain RuntimeError."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error).lower() for words in _WORDS)


def release_memory() -> None:
    """Return what a failed attempt held, to the device too."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    if torch.backends.mps.is_available():
        torch.mps.empty_cache()
