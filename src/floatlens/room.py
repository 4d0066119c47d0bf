"""How much fits into a worker's memory, as it finds out: questions decoded together, and bytes of a block of attention.

Whoever runs out halves one of them, says so, and keeps to it; what comes out does not depend on either (but for the
last bits of sums over blocks). Nothing here measures memory: it is learnt from failures.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass

import torch

__all__ = ["LEAST_BLOCK", "Room", "give_back", "out_of_memory"]

LEAST_BLOCK = 256 << 10
"""Bytes of the smallest block of attention; with less, what a pass needs besides is all that counts."""


@dataclass
class Room:
    """What is known to fit. `questions` None means that nothing was found to be too much yet."""

    questions: int | None = None
    block_bytes: int = 8 << 20

    def fewer_questions(self, tried: int) -> str:
        """Half of what was tried from now on; what to say about it."""
        self.questions = (tried + 1) // 2
        return f"out of memory with {tried} questions at once; from now on {self.questions} at a time"

    def smaller_blocks(self) -> str | None:
        """Half the block from now on, and what to say about it; None where that is not worth trying any more."""
        if self.block_bytes <= LEAST_BLOCK:
            return None
        tried, self.block_bytes = self.block_bytes, self.block_bytes // 2
        return f"out of memory with blocks of {tried >> 10} KiB; from now on {self.block_bytes >> 10} KiB"


def out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out; torch says it of a CPU in a RuntimeError like any other."""
    plain = isinstance(error, torch.OutOfMemoryError | MemoryError)
    return plain or (isinstance(error, RuntimeError) and "can't allocate memory" in str(error))


def give_back() -> None:
    """Return what a failed attempt held, to the device too."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
