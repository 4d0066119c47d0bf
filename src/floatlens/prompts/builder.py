"""Builds prompts: template + question + documents → token ids with a region for every token.

`build` is for questions, `from_text` and `from_ids` for complete prompts, `from_passage` for a text with a hole.
Documents that do not fit are cut from the end, with a warning. The evidence is the tokens of accepted answers inside
the gold documents, or the whole gold documents where no answer is found.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from floatlens.core.errors import FloatlensError, FloatlensWarning
from floatlens.prompts.encode import Encoded, chat_frame, check_tokenizer, encode, locate, warn_of_control_tokens
from floatlens.prompts.fit import Draft, Drafter, fit
from floatlens.prompts.template import Span, Template, load_template
from floatlens.prompts.types import (
    Document,
    DocumentLike,
    Dropped,
    EvidenceKind,
    Hole,
    Prompt,
    as_documents,
    region_names,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["HoleLike", "as_answers", "build", "check_hole", "evidence_mask", "from_ids", "from_passage", "from_text"]

HoleLike: TypeAlias = int | tuple[int, int] | Sequence[int]
"""A number of tokens in the middle, or (start, stop) in characters, extended to whole tokens."""


def build(
    tokenizer: PreTrainedTokenizerBase | None,
    *,
    question: str,
    documents: Iterable[DocumentLike] = (),
    gold: int | None = None,
    answers: str | Iterable[str] = (),
    template: str | Path | Template = "default",
    max_tokens: int | None = None,
    chat: bool | None = None,
) -> Prompt:
    """A question, with or without documents, as a prompt.

    `gold` is the 0-based index of the gold document (or mark documents with `is_gold`). Documents are cut from the end
    to fit `max_tokens`. With `chat` None the prompt is a user message if the tokenizer has a chat template.

    Example: `build(tokenizer, question="Who?", documents=["It was Ann.", "It rained."], gold=0, answers=["Ann"])`
    """
    if not isinstance(question, str) or not question.strip():
        raise FloatlensError("question: expected a text that is not empty")
    checked = check_tokenizer(tokenizer)
    drafter = Drafter(checked, load_template(template), question, chat_frame(checked, chat))
    given = _mark_gold(as_documents(documents), gold)
    draft, dropped = fit(drafter, given, max_tokens)
    if dropped is not None:
        _warn_dropped(dropped, given, max_tokens)
    prompt = _finish(draft, as_answers(answers), question, drafter, dropped)
    warn_of_control_tokens(drafter.tokenizer, prompt.ids, prompt.region_of, prompt.regions)
    return prompt


def from_text(tokenizer: PreTrainedTokenizerBase | None, text: str) -> Prompt:
    """A complete prompt, without template or chat template: all "question" after the BOS."""
    if not isinstance(text, str) or not text:
        raise FloatlensError("prompt: expected a text that is not empty")
    encoded = encode(check_tokenizer(tokenizer), text, special=True)
    regions = region_names(0)
    region_of = locate(text, encoded, [Span("question", 0, len(text))], regions)
    return Prompt(encoded.ids, regions, region_of, text, encoded.offsets, np.zeros(len(encoded.ids), dtype=bool))


def from_ids(ids: Sequence[int] | Any, bos_id: int | None = None) -> Prompt:
    """A prompt from token ids (a 1-D list, array or tensor): all "question", except a BOS in first place."""
    array = np.asarray(ids)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu" or int(array.min()) < 0:
        raise FloatlensError(
            f"prompt_ids: expected a list of token ids, got shape {array.shape} of {array.dtype}"
            + ("; ids are not negative" if array.dtype.kind == "i" and array.ndim == 1 and array.size else "")
        )
    regions = region_names(0)
    region_of = np.full(len(array), regions.index("question"), dtype=np.int16)
    if bos_id is not None and int(array[0]) == bos_id:
        region_of[0] = regions.index("bos")
    nothing = np.zeros(len(array), dtype=bool)
    return Prompt(array.tolist(), regions, region_of, "", np.zeros((len(array), 2), dtype=np.int64), nothing)


def _mark_gold(documents: tuple[Document, ...], gold: int | None) -> tuple[Document, ...]:
    """The documents with `is_gold` set on the gold one; `gold` must not contradict existing marks."""
    if gold is None:
        return documents
    if isinstance(gold, bool) or not isinstance(gold, int | np.integer) or not 0 <= gold < len(documents):
        raise FloatlensError(f"gold={gold!r}: expected a 0-based index of one of the {len(documents)} documents")
    marked = [i for i, document in enumerate(documents) if document.is_gold]
    if marked and gold not in marked:
        raise FloatlensError(
            f"gold={gold}, but documents[{marked[0]}] is the one marked is_gold; give one or the other"
        )
    return tuple(
        document.model_copy(update={"is_gold": True}) if i == gold else document for i, document in enumerate(documents)
    )


def _finish(draft: Draft, answers: tuple[str, ...], question: str, drafter: Drafter, dropped: Dropped | None) -> Prompt:
    encoded = draft.encoded
    text = draft.rendered.text
    regions = region_names(len(draft.documents))
    region_of = locate(text, encoded, draft.rendered.spans, regions)
    golds = [f"doc{i}" for i, document in enumerate(draft.documents, start=1) if document.is_gold]
    passages = [(span.start, span.stop) for span in draft.rendered.spans if span.region in golds]
    inside = np.isin(region_of, [regions.index(name) for name in golds])
    evidence, kind = evidence_mask(text, encoded.offsets, passages, inside, answers)
    return Prompt(
        ids=encoded.ids,
        regions=regions,
        region_of=region_of,
        text=text,
        offsets=encoded.offsets,
        evidence=evidence,
        evidence_kind=kind,
        question=question,
        documents=draft.documents,
        gold=next((i for i, document in enumerate(draft.documents) if document.is_gold), None),
        template=drafter.template.label,
        chat=drafter.frame is not None,
        dropped=dropped,
    )


def _warn_dropped(dropped: Dropped, given: Sequence[Document], max_tokens: int | None) -> None:
    parts = []
    if dropped.documents:
        parts.append(f"{dropped.documents} of {dropped.of} documents dropped")
    if dropped.shortened is not None:
        parts.append(f"document {dropped.shortened + 1} shortened")
    message = f"to fit {max_tokens} tokens: {' and '.join(parts)} ({dropped.tokens} tokens cut)"
    if dropped.gold in ("shortened", "dropped"):
        kept = dropped.of - dropped.documents
        golds = [i for i, document in enumerate(given) if document.is_gold and (i >= kept or i == dropped.shortened)]
        numbers = ", ".join(str(i + 1) for i in golds)
        message += f"; the gold document (document {numbers}) was {dropped.gold}"
    warnings.warn(message, FloatlensWarning, stacklevel=3)


def as_answers(answers: str | Iterable[str]) -> tuple[str, ...]:
    """The accepted answers without empty ones and duplicates, longest first."""
    given = [answers] if isinstance(answers, str) else list(answers)
    for answer in given:
        if not isinstance(answer, str):
            raise FloatlensError(f"answers: expected texts, got {type(answer).__name__}")
    unique = dict.fromkeys(answer.strip() for answer in given)
    return tuple(sorted((answer for answer in unique if answer), key=len, reverse=True))


def find_answers(text: str, answers: Sequence[str]) -> list[tuple[int, int]]:
    """The spans of the answers in a text, as whole words in any case, in order; none overlaps that of a longer one."""
    found: list[tuple[int, int]] = []
    for answer in sorted(answers, key=len, reverse=True):
        words = r"\s+".join(re.escape(word) for word in answer.split())
        for match in re.finditer(rf"(?<!\w)(?:{words})(?!\w)", text, re.IGNORECASE):
            if all(match.end() <= start or stop <= match.start() for start, stop in found):
                found.append(match.span())
    return sorted(found)


def evidence_mask(
    text: str,
    offsets: NDArray[np.int64],
    passages: Sequence[tuple[int, int]],
    inside: NDArray[np.bool_],
    answers: Sequence[str],
) -> tuple[NDArray[np.bool_], EvidenceKind]:
    """(token) True on the evidence, and how it was found.

    `passages` are the character spans of the gold documents and `inside` (token) says which tokens are theirs. A token
    that carries any character of an answer counts.
    """
    if not inside.any():
        return np.zeros(len(offsets), dtype=bool), "none"
    mask = np.zeros(len(offsets), dtype=bool)
    for low, high in passages:
        for start, stop in find_answers(text[low:high], answers):
            mask |= (offsets[:, 0] < low + stop) & (offsets[:, 1] > low + start)
    mask &= inside
    return (mask, "answer") if mask.any() else (inside.copy(), "passage")


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
    """The passage with a hole as a prompt, and the ids that were cut out: tokens of the whole passage.

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
        passage=hashlib.sha256(f"{asked} {passage}".encode()).hexdigest()[:16],
    )
    return prompt, target


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
