"""The layout of a batch before the first pass: where each prompt is, what is to be written, which row decides it.

Everything that does not change while decoding is fixed here, so samplers, capture and traces agree on column numbers.
Prompts are token ids: no text is tokenised and no chat template is applied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from typing import Any

import torch
from torch import Tensor

from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.decoding.settings import Settings
from floatlens.models.base import LanguageModel

__all__ = ["Canvas", "end_ids", "lay_out", "read_prompts"]

_END_OF_TURN = ("<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>")


@dataclass(frozen=True, eq=False, repr=False)
class Canvas:
    """The layout of a batch. Tensors are (batch, length) and on the CPU.

    For a masked diffusion model prompt and masks are contiguous, padded before (`padding="left"`) or after ("right").
    For an autoregressive model prompts are padded to one width on that side, followed by `gen_length` columns for the
    answer, so a column is also the index of a key in the KV cache.
    """

    ids: Tensor
    attention_mask: Tensor
    """bool, True where there is or will be a real token."""
    answer: Tensor
    """bool, True where a token is to be written: the appended masks, and masks inside the prompt."""
    rows: Tensor
    """For answer columns the column of the query whose logits decide them (see `LanguageModel.row_of`), else -1."""
    prompt_lengths: tuple[int, ...]
    starts: tuple[int, ...]
    """Column of each sample's first real token."""
    max_steps: int
    end_ids: tuple[int, ...]
    sampler: str
    settings: Settings
    blocks: Tensor | None = None
    """Block numbers, for samplers that write one block after another: the mask of every pass."""
    target: Tensor | None = None
    """Forced ids, -1 outside answer columns; None where nothing is forced."""

    @property
    def length(self) -> int:
        return int(self.ids.shape[1])

    def block_of(self, block_length: int) -> Tensor:
        """(batch, length) number of the block each column belongs to.

        Blocks begin at the end of the prompt; masks inside the prompt belong to the first block. With `gen_length` 0
        the masks of the prompt are counted in reading order. A `block_length` of 0 makes them one block.
        """
        if not self.settings.gen_length and block_length:
            return (self.answer.long().cumsum(dim=1) - 1).clamp_min(0) // block_length
        begin = torch.tensor(self.starts) + torch.tensor(self.prompt_lengths)
        offset = torch.arange(self.length)[None, :] - begin[:, None]
        return offset.clamp_min(0) // max(block_length, 1)

    def __repr__(self) -> str:
        return (
            f"Canvas({len(self.ids)} × {self.length} columns, {int(self.answer.sum())} to write by {self.sampler}, "
            f"at most {self.max_steps} steps)"
        )


def read_prompts(prompt_ids: Any, vocab_size: int, name: str = "prompt") -> list[list[int]]:
    """One list of ids per sample, from a list, a list of lists, or a 1-D or 2-D tensor (whose rows hold no padding)."""
    if isinstance(prompt_ids, str):
        raise FloatlensError(
            f"{name}_ids must be token ids, not text; tokenise it first: model.tokenizer(text).input_ids"
        )
    given = prompt_ids.tolist() if hasattr(prompt_ids, "tolist") else prompt_ids
    try:
        given = list(given)
        nested = bool(given) and all(isinstance(item, Sequence) or getattr(item, "ndim", 0) > 0 for item in given)
        prompts = [[index(token) for token in row] for row in (given if nested else [given])]
    except TypeError:
        raise FloatlensError(
            f"{name}_ids must be whole numbers: a list, a list of lists, or a 1-D or 2-D integer tensor; "
            f"got {type(prompt_ids).__name__} {str(prompt_ids)[:60]}"
        ) from None
    for sample, prompt in enumerate(prompts):
        for place, token in enumerate(prompt):
            if not 0 <= token < vocab_size:
                where = f"{name} {sample} holds id {token} at position {place}"
                raise FloatlensError(f"{where}; the model's vocabulary ends at {vocab_size - 1}")
    return prompts


def lay_out(
    model: LanguageModel,
    prompts: list[list[int]],
    sampler: str,
    settings: Settings,
    padding: str = "left",
    *,
    exact: bool = False,
) -> Canvas:
    """Place the prompts and the answers after them, and check that they fit the model. `exact`: `gen_length` positions
    are to be written, also by samplers that fill up whole blocks."""
    if padding not in ("left", "right"):
        raise FloatlensError(f'padding="{padding}"{did_you_mean(str(padding), ("left", "right"))}')
    padding = padding if settings.align is None else {"start": "right", "end": "left"}[settings.align]
    counts = [settings.gen_length if exact else settings.masks(len(prompt)) for prompt in prompts]
    _check_fit(model, prompts, settings, counts)
    if padding == "right" and model.kind == "arm" and len({len(prompt) for prompt in prompts}) > 1:
        _refuse_gaps(model)
    if model.kind == "arm":
        ids, real, answer, starts = _place_arm(model, prompts, settings.gen_length, padding == "left")
    else:
        ids, real, answer, starts = _place_mdm(model, prompts, counts, padding == "left")
    masks = answer.sum(dim=1)
    if not bool((masks > 0).all()):
        empty = int((masks == 0).nonzero()[0])
        raise FloatlensError(f"nothing to write for prompt {empty}: gen_length is 0 and it holds no mask token")
    try:
        settings.check_masks(masks.tolist())
    except ValueError as error:
        raise FloatlensError(f'settings of the sampler "{sampler}": {error}') from None
    return Canvas(
        ids=ids,
        attention_mask=real,
        answer=answer,
        rows=_seeded(settings, _rows(model, real, answer), answer),
        prompt_lengths=tuple(len(prompt) for prompt in prompts),
        starts=tuple(starts),
        max_steps=max(settings.max_steps(int(count)) for count in masks),
        end_ids=settings.ends(model, end_ids(model)),
        sampler=sampler,
        settings=settings,
        blocks=_blocks(settings, answer),
    )


def _check_fit(model: LanguageModel, prompts: list[list[int]], settings: Settings, counts: list[int]) -> None:
    if model.kind == "arm" and any(not prompt for prompt in prompts):
        raise FloatlensError("an autoregressive model cannot start from an empty prompt; give at least its BOS token")
    longest, written = max(zip(map(len, prompts), counts, strict=True), key=sum, default=(0, 0))
    if model.max_length is not None and longest + written > model.max_length:
        filled = "" if written == settings.gen_length else f" (filled up to whole blocks: {written})"
        raise FloatlensError(
            f"a prompt of {longest} tokens and gen_length={settings.gen_length}{filled} need {longest + written} "
            f"positions and {model.ref} has {model.max_length}; shorten the prompt or lower gen_length"
        )
    for sample, prompt in enumerate(prompts):
        if settings.align is not None and model.mask_id in prompt:
            raise FloatlensError(
                f"prompt {sample} holds the mask token at position {prompt.index(model.mask_id or 0)}; samplers that "
                "write one block after another only write after the prompt"
            )
    if isinstance(settings.seed, tuple) and len(settings.seed) != len(prompts):
        raise FloatlensError(
            f"seed has {len(settings.seed)} numbers for {len(prompts)} prompts; give one each, or one for all"
        )


def _refuse_gaps(model: LanguageModel) -> None:
    """Padding between prompt and answer is harmless for full attention only: windows and states count columns."""
    config = model.config
    windowed = () if getattr(config, "sliding_window", None) is None else ("sliding_attention",)
    others = set(getattr(config, "layer_types", None) or windowed) - {"full_attention"}
    if others:
        raise FloatlensError(
            f"{model.ref} has layers of {', '.join(sorted(others))}, which do not support "
            f'padding="right" for prompts of different lengths; use padding="left"'
        )


_Placed = tuple[Tensor, Tensor, Tensor, list[int]]


def _place_mdm(model: LanguageModel, prompts: list[list[int]], counts: list[int], left: bool) -> _Placed:
    assert model.mask_id is not None  # the contract of kind "mdm"
    lines = [prompt + [model.mask_id] * count for prompt, count in zip(prompts, counts, strict=True)]
    ids, real, starts = _place(model, lines, left)
    return ids, real, real & (ids == model.mask_id), starts


def _place_arm(model: LanguageModel, prompts: list[list[int]], gen_length: int, left: bool) -> _Placed:
    ids, real, starts = _place(model, prompts, left, more=gen_length)
    answer = torch.zeros_like(real)
    answer[:, real.shape[1] - gen_length :] = True
    return ids, real | answer, answer, starts


def _place(model: LanguageModel, lines: list[list[int]], left: bool, more: int = 0) -> tuple[Tensor, Tensor, list[int]]:
    """ids, where they are real, and where each line starts, padded to one width and followed by `more` columns.

    The filler is never attended to, but it needs an embedding, and some checkpoints' pad id has none.
    """
    named = (model.pad_id, *model.eos_ids, 0)
    filler = next(token for token in named if token is not None and 0 <= token < model.vocab_size)
    width = max(len(line) for line in lines)
    ids = torch.full((len(lines), width + more), filler)
    real = torch.zeros_like(ids, dtype=torch.bool)
    starts = [width - len(line) if left else 0 for line in lines]
    for sample, (start, line) in enumerate(zip(starts, lines, strict=True)):
        ids[sample, start : start + len(line)] = torch.tensor(line, dtype=torch.long)
        real[sample, start : start + len(line)] = True
    return ids, real, starts


def _seeded(settings: Settings, rows: Tensor, answer: Tensor) -> Tensor:
    """The deciding rows, with those of columns that a causal pass over what precedes them decides."""
    if settings.align == "end":
        first = int(answer.any(dim=0).nonzero()[0])
        columns = [column for column in range(first, answer.shape[1]) if settings.seeds(column - first)]
        rows[:, columns] -= 1
    return rows


def _blocks(settings: Settings, answer: Tensor) -> Tensor | None:
    """Where prompts are aligned, all samples have the same block numbers."""
    numbers = settings.number_blocks(answer.shape[1], int(answer.any(dim=0).nonzero()[0]))
    return None if numbers is None else numbers.expand(len(answer), -1)


def _rows(model: LanguageModel, real: Tensor, answer: Tensor) -> Tensor:
    """`row_of` counts the tokens of a sample; its results are converted to columns here."""
    rows = torch.full(real.shape, -1)
    for sample in range(len(real)):
        columns = real[sample].nonzero().flatten()
        places = answer[sample, columns].nonzero().flatten()
        deciding = torch.tensor([model.row_of(place) for place in places.tolist()], dtype=torch.long)
        rows[sample, columns[places]] = columns[deciding]
    return rows


def end_ids(model: LanguageModel) -> tuple[int, ...]:
    """The model's EOS ids and the end-of-turn token, if its tokenizer has one."""
    found = list(model.eos_ids)
    tokenizer = model.tokenizer
    if tokenizer is not None:
        for token in _END_OF_TURN:
            number = tokenizer.convert_tokens_to_ids(token)
            # an unknown token is returned as the id of <unk>
            if isinstance(number, int) and tokenizer.convert_ids_to_tokens(number) == token and number not in found:
                found.append(number)
    return tuple(found)
