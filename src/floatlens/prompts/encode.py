"""From a rendered text to tokens: the chat template, the tokenizer's offsets, and a region for every token.

Regions come from the character offsets of the encoding that the model gets: the text is tokenised as a whole. A chat
template that changes the text in other ways than wrapping it is refused.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from floatlens.core.errors import FloatlensError, FloatlensWarning
from floatlens.prompts.bounded_chat import check_template, within_bounds
from floatlens.prompts.template import Rendered, Span
from floatlens.prompts.types import Prompt

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = [
    "Encoded",
    "answer_text",
    "chat_frame",
    "check_tokenizer",
    "continuation",
    "encode",
    "locate",
    "token_pieces",
    "warn_of_control_tokens",
    "wrap_chat",
]

_SPACED = ("▁", "Ġ")
_SENTINEL = "floatlensUserMessage"


@dataclass(frozen=True)
class Encoded:
    """Token ids, character offsets (token, 2), and which tokens (token) the tokenizer added."""

    ids: list[int]
    offsets: NDArray[np.int64]
    added: NDArray[np.bool_]
    bos: bool


def check_tokenizer(tokenizer: PreTrainedTokenizerBase | None) -> PreTrainedTokenizerBase:
    """The tokenizer, if there is one and it gives character offsets."""
    if tokenizer is None:
        raise FloatlensError("this model has no tokenizer; give prompt_ids= instead of text")
    if not tokenizer.is_fast:
        raise FloatlensError(
            f"{type(tokenizer).__name__} gives no character offsets, so regions cannot be placed; "
            "use a fast tokenizer (one with a tokenizer.json), or give prompt_ids="
        )
    return tokenizer


def answer_text(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> str:
    """The answer as text, without special tokens and surrounding space."""
    return str(tokenizer.decode(list(ids), skip_special_tokens=True)).strip()


def token_pieces(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> list[str]:
    """Each token as text, decoded separately, so part of a character shows as U+FFFD.

    The space before a token, which a SentencePiece decoder drops, is restored where the vocabulary marks it.
    """
    made = {}
    for i in set(ids):
        text, token = str(tokenizer.decode([i])), str(tokenizer.convert_ids_to_tokens(int(i)))
        made[i] = f" {text}" if token[:1] in _SPACED and text[:1] != " " else text
    return [made[i] for i in ids]


def chat_frame(tokenizer: PreTrainedTokenizerBase, chat: bool | None) -> tuple[str, str] | None:
    """What the chat template writes before and after a user message; None where the prompt is not to be one.

    It is one as `chat` says, or if the tokenizer has a chat template.
    """
    has_template = bool(getattr(tokenizer, "chat_template", None))
    if chat and not has_template:
        raise FloatlensError("chat=True, but the tokenizer has no chat template; set one, or leave chat out")
    if not (has_template if chat is None else chat):
        return None
    parts = _apply_chat(tokenizer, _SENTINEL).split(_SENTINEL)
    if len(parts) != 2:
        raise FloatlensError(
            f"the chat template shows a user message {len(parts) - 1} times, not once, so regions cannot be placed; "
            "use chat=False"
        )
    return parts[0], parts[1]


def wrap_chat(tokenizer: PreTrainedTokenizerBase, frame: tuple[str, str], rendered: Rendered) -> Rendered:
    """The rendered text as a user message in the tokenizer's chat template, with its spans shifted accordingly."""
    prefix, suffix = frame
    whole = _apply_chat(tokenizer, rendered.text)
    text = rendered.text
    for kept in (text, text.strip(), text.rstrip(), text.lstrip()):
        if whole == prefix + kept + suffix:
            break
    else:
        raise FloatlensError("the chat template rewrites the user message, so regions cannot be placed; use chat=False")
    cut = text.index(kept)  # only spaces were removed at the ends, so the first match is the right one

    def move(position: int) -> int:
        return min(max(position - cut, 0), len(kept)) + len(prefix)

    spans = tuple(Span(span.region, move(span.start), move(span.stop)) for span in rendered.spans)
    return Rendered(whole, spans, tuple((move(start), move(stop)) for start, stop in rendered.texts))


def _apply_chat(tokenizer: PreTrainedTokenizerBase, content: str) -> str:
    message = [{"role": "user", "content": content}]
    try:
        for source in _sources(tokenizer.chat_template):
            check_template(source)
        return within_bounds(
            lambda: str(tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False))
        )
    except FloatlensError:
        raise
    except Exception as error:  # a template can raise whatever Python's operators raise
        said = " ".join(str(error).split())[:200] or type(error).__name__
        raise FloatlensError(f"the tokenizer's chat template failed: {said}; use chat=False to leave it out") from error


def _sources(given: Any) -> list[str]:
    """The texts of a tokenizer's chat templates, of which it may have several by name."""
    return [one for one in (given.values() if isinstance(given, dict) else [given]) if isinstance(one, str)]


def encode(tokenizer: PreTrainedTokenizerBase, text: str, *, special: bool) -> Encoded:
    """Tokenise a whole prompt. With `special` the tokenizer adds its special tokens; a chat template has its own.

    A text that already begins with the BOS token gets no second one, and an EOS that the tokenizer appends is removed:
    the answer is still to come.
    """
    bos_token = tokenizer.bos_token
    if special and isinstance(bos_token, str) and bos_token and text.startswith(bos_token):
        special = False
    batch: Any = tokenizer(
        text,
        add_special_tokens=special,
        return_offsets_mapping=True,
        return_special_tokens_mask=True,
        padding=False,
        truncation=False,
        verbose=False,
    )
    ids = [int(token) for token in batch["input_ids"]]
    offsets = np.asarray(batch["offset_mapping"], dtype=np.int64).reshape(-1, 2)
    added = np.asarray(batch["special_tokens_mask"], dtype=bool) & (offsets[:, 0] == offsets[:, 1])
    end = len(ids)
    while end and added[end - 1] and ids[end - 1] == tokenizer.eos_token_id:
        end -= 1
    starts = {token for token in (tokenizer.bos_token_id, tokenizer.cls_token_id) if token is not None}
    return Encoded(ids[:end], offsets[:end], added[:end], bos=bool(ids[:end]) and ids[0] in starts)


def continuation(tokenizer: PreTrainedTokenizerBase, prompt: Prompt, text: str) -> list[int]:
    """The ids of `text` as it continues the prompt: no special tokens are added, and no token of the prompt changes.

    After a question without a space at its end, a text that begins with none gets one, as a model would begin its
    answer ("Answer:" and then " Paris"). After a complete prompt nothing is added.
    """
    if not isinstance(text, str) or not text.strip():
        raise FloatlensError("target: expected a text that is not empty")
    if prompt.question is not None and not prompt.text[-1:].isspace() and not text[:1].isspace():
        text = f" {text}"
    if prompt.text:
        whole = encode(tokenizer, prompt.text + text, special=not prompt.chat).ids
        if whole[: len(prompt.ids)] == prompt.ids and len(whole) > len(prompt.ids):
            return whole[len(prompt.ids) :]
    # a token crosses the border, or the prompt is ids alone: the text is tokenised separately
    return encode(tokenizer, text, special=False).ids


def locate(text: str, encoded: Encoded, spans: Sequence[Span], regions: Sequence[str]) -> NDArray[np.int16]:
    """(token) The region of every token, as an index into `regions`: the one that holds most of its characters.

    Spaces do not count, unless it is all space; of equals, the earlier region wins. The first token is "bos" if it is
    one; others that the tokenizer added are "template".
    """
    number = {name: index for index, name in enumerate(regions)}
    of_char = np.full(len(text) + 1, number["template"], dtype=np.int16)  # one more, for an empty token at the end
    for span in spans:
        of_char[span.start : span.stop] = number[span.region]
    starts, stops = encoded.offsets.T
    region_of: NDArray[np.int16] = of_char[np.minimum(starts, len(text))].copy()
    border = np.concatenate([[0], np.cumsum(of_char[1:] != of_char[:-1])])  # increases where the region changes
    crossing = (stops > starts) & (border[np.maximum(stops - 1, 0)] != border[np.minimum(starts, len(text))])
    for token in np.flatnonzero(crossing):
        region_of[token] = _most(text, of_char, int(starts[token]), int(stops[token]))
    for token in np.flatnonzero((starts == stops) & ~encoded.added):
        if token:  # a token without characters belongs to the region of the previous one
            region_of[token] = region_of[token - 1]
    region_of[encoded.added] = number["template"]
    if encoded.bos:
        region_of[0] = number["bos"]
    return region_of


def _most(text: str, of_char: NDArray[np.int16], start: int, stop: int) -> int:
    solid = [i for i in range(start, stop) if not text[i].isspace()]
    found = [int(of_char[i]) for i in solid or range(start, stop)]
    return max(dict.fromkeys(found), key=found.count)  # max returns the first of equals; keys are in text order


def warn_of_control_tokens(
    tokenizer: PreTrainedTokenizerBase, ids: Sequence[int], region_of: NDArray[np.int16], regions: Sequence[str]
) -> None:
    """Warn if the question or a document holds a control token, which the model does not read as text."""
    control = {token for token, entry in tokenizer.added_tokens_decoder.items() if entry.special}
    control.discard(tokenizer.unk_token_id)
    data = {index for index, name in enumerate(regions) if name == "question" or name.startswith("doc")}
    for token, region in zip(ids, region_of.tolist(), strict=True):
        if region in data and token in control:
            warnings.warn(
                f'{regions[region]} holds the control token "{tokenizer.convert_ids_to_tokens(token)}"; '
                "the model reads it as one, not as text",
                FloatlensWarning,
                stacklevel=3,
            )
            return
