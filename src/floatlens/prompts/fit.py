"""Makes a prompt fit: the last documents are dropped, then the last one left is cut at a token boundary.

The question and the template are never cut; it is an error if they alone are too long. Lengths are always those of a
whole tokenised prompt, because token counts of parts do not add up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from floatlens.core.errors import FloatlensError
from floatlens.prompts.encode import Encoded, encode, wrap_chat
from floatlens.prompts.template import Rendered, Template, render
from floatlens.prompts.types import Document, Dropped, GoldFate

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["Draft", "Drafter", "fit"]


@dataclass(frozen=True)
class Draft:
    """A prompt with some of the documents, tokenised."""

    documents: tuple[Document, ...]
    rendered: Rendered
    encoded: Encoded

    def __len__(self) -> int:
        return len(self.encoded.ids)


@dataclass(frozen=True)
class Drafter:
    """Drafts prompts with one tokenizer, template and question and different documents."""

    tokenizer: PreTrainedTokenizerBase
    template: Template
    question: str
    frame: tuple[str, str] | None
    """What the chat template writes around the prompt; None without one."""

    def draft(self, documents: tuple[Document, ...]) -> Draft:
        """The prompt with these documents, as text and as tokens."""
        rendered = render(self.template, self.question, documents)
        if self.frame is not None:
            rendered = wrap_chat(self.tokenizer, self.frame, rendered)
        return Draft(documents, rendered, encode(self.tokenizer, rendered.text, special=self.frame is None))


def fit(drafter: Drafter, documents: tuple[Document, ...], max_tokens: int | None) -> tuple[Draft, Dropped | None]:
    """The longest prompt of at most `max_tokens` tokens, and what was cut (None if everything fits)."""
    full = drafter.draft(documents)
    if max_tokens is None or len(full) <= max_tokens:
        return full, None
    best = _most_documents(drafter, documents, max_tokens)
    kept = len(best.documents)
    shortened = _shorten(drafter, documents[: kept + 1], max_tokens)
    if shortened is not None:
        best = shortened
    lost = documents[len(best.documents) :]
    cut = kept if shortened is not None else None
    fate: GoldFate = "kept" if any(document.is_gold for document in documents) else "none"
    if cut is not None and documents[cut].is_gold:
        fate = "shortened"
    if any(document.is_gold for document in lost):
        fate = "dropped"
    return best, Dropped(len(lost), len(documents), len(full) - len(best), cut, fate)


def _most_documents(drafter: Drafter, documents: tuple[Document, ...], max_tokens: int) -> Draft:
    """The prompt with as many whole documents from the start as fit; not all of them do."""
    nothing = drafter.draft(())
    if len(nothing) > max_tokens:
        raise FloatlensError(
            f"the question and its template alone take {len(nothing)} tokens, but the prompt may take only "
            f"{max(max_tokens, 0)}; write less (gen_length) or shorten the question"
        )
    return _largest(lambda count: drafter.draft(documents[:count]), len(documents), max_tokens) or nothing


def _shorten(drafter: Drafter, documents: tuple[Document, ...], max_tokens: int) -> Draft | None:
    """The prompt with the last of these documents cut at its end to fit, or None if nothing of it fits."""
    *whole, last = documents
    draft = drafter.draft(documents)
    start, stop = draft.rendered.texts[-1]
    # a chat template may have stripped spaces, so the text may not begin with its first character
    shift = last.text.index(draft.rendered.text[start:stop]) - start
    begins = draft.encoded.offsets[~draft.encoded.added, 0]
    begins = np.unique(begins[(begins > start) & (begins < stop)]) + shift  # a character may have several tokens
    heads = [head for head in (last.text[:cut].rstrip() for cut in begins.tolist()) if head]

    def with_head(count: int) -> Draft:
        return drafter.draft((*whole, last.model_copy(update={"text": heads[count - 1]})))

    return _largest(with_head, len(heads) + 1, max_tokens)


def _largest(make: Callable[[int], Draft], too_many: int, max_tokens: int) -> Draft | None:
    """The draft of the largest count below `too_many` that fits, by bisection; None if none does."""
    low, high, best = 0, too_many, None
    while high - low > 1:
        middle = (low + high) // 2
        draft = make(middle)
        if len(draft) <= max_tokens:
            low, best = middle, draft
        else:
            high = middle
    return best
