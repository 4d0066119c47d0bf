"""A passage with a hole: what is cut out, what each kind of model sees, and the regions.

The passage is tokenised once, so the tokens cut out and those left are tokens of the whole passage.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from floatlens.core.errors import FloatlensError
from floatlens.prompts.encode import Encoded, check_tokenizer, encode, locate
from floatlens.prompts.template import Span
from floatlens.prompts.types import Hole, Prompt, region_names

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["HoleLike", "check_hole", "from_passage"]

HoleLike: TypeAlias = int | tuple[int, int] | Sequence[int]
"""A number of tokens in the middle, or (start, stop) in characters, extended to whole tokens."""


def check_hole(passage: Any, hole: Any) -> int | tuple[int, int]:
    """The hole as a number or a pair; refuses what is invalid for any tokenizer."""
    if not isinstance(passage, str) or not passage.strip():
        raise FloatlensError("passage: expected a text that is not empty")
    if isinstance(hole, int) and not isinstance(hole, bool):
        if hole < 1:
            raise FloatlensError(f"hole={hole}: expected at least 1 token")
        return hole
    pair = tuple(hole) if isinstance(hole, list | tuple) else ()
    if len(pair) != 2 or not all(isinstance(end, int) and not isinstance(end, bool) for end in pair):
        raise FloatlensError(f"hole={hole!r}: expected a number of tokens, or the characters [start, stop]")
    start, stop = pair
    if not 0 <= start < stop <= len(passage):
        raise FloatlensError(f"hole={list(pair)}: expected 0 ≤ start < stop ≤ {len(passage)}, the passage's characters")
    return start, stop


def from_passage(
    tokenizer: PreTrainedTokenizerBase | None, passage: str, hole: HoleLike, mask_id: int | None = None
) -> tuple[Prompt, list[int]]:
    """The passage with a hole as a prompt, and the ids that were cut out.

    With `mask_id` the prompt is the whole passage with masks in the hole (region "answer"); without it, the text before
    the hole. All other text is "question" after the BOS.

    Example: `prompt, target = from_passage(tokenizer, "The Seine flows through Paris.", (4, 9), mask_id=4)`
    """
    asked = check_hole(passage, hole)
    encoded = encode(check_tokenizer(tokenizer), passage, special=True)
    start, stop = _middle(encoded, asked) if isinstance(asked, int) else _covering(encoded, *asked)
    target = encoded.ids[start:stop]
    if mask_id is not None and mask_id in encoded.ids:
        raise FloatlensError("passage: it holds the mask token itself, which would be read as part of the hole")
    regions = region_names(0)
    region_of = locate(passage, encoded, [Span("question", 0, len(passage))], regions)
    region_of[start:stop] = regions.index("answer")
    ids = [*encoded.ids[:start], *[mask_id] * (stop - start), *encoded.ids[stop:]] if mask_id is not None else None
    end = start if ids is None else len(ids)
    prompt = Prompt(
        ids=encoded.ids[:start] if ids is None else ids,
        regions=regions,
        region_of=region_of[:end].copy(),
        text=passage,
        offsets=encoded.offsets[:end].copy(),
        evidence=np.zeros(end, dtype=bool),
        hole=Hole(start, stop - start, after_seen=ids is not None),
        passage=_digest(passage, asked),
    )
    return prompt, target


def _digest(passage: str, hole: int | tuple[int, int]) -> str:
    """A digest of the passage and its hole, the same for every model."""
    return hashlib.sha256(f"{hole} {passage}".encode()).hexdigest()[:16]


def _middle(encoded: Encoded, count: int) -> tuple[int, int]:
    """The `count` tokens in the middle of the text; some text must remain on both sides."""
    own = np.flatnonzero(~encoded.added)
    if count > len(own) - 2:
        raise FloatlensError(
            f"hole={count}: the passage has {len(own)} tokens, and text must be left on both sides; "
            f"make it at most {max(len(own) - 2, 0)}, or the passage longer"
        )
    start = int(own[(len(own) - count) // 2])
    return start, start + count


def _covering(encoded: Encoded, start: int, stop: int) -> tuple[int, int]:
    """The tokens that hold any of the characters start..stop."""
    begins, ends = encoded.offsets.T
    inside = np.flatnonzero((begins < stop) & (ends > start) & ~encoded.added)
    if not len(inside):
        raise FloatlensError(f"hole={[start, stop]}: no token holds these characters; they may be spaces only")
    return int(inside[0]), int(inside[-1]) + 1
