"""The first token of a masked diffusion model, after one pass over a prompt followed by n masks (methods §9).

The control puts n − 1 dots behind one mask: as many tokens, but none of them a mask. A prediction is right when it is
the first token of an accepted answer, written with or without a space before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from floatlens.core.errors import FloatlensError
from floatlens.data.stress.base import Appended
from floatlens.decoding.draws import ban

if TYPE_CHECKING:
    from floatlens.models import LanguageModel

__all__ = ["Appended", "first_mask"]


def first_mask(
    model: LanguageModel, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[str]], appended: Appended
) -> list[tuple[str, bool]]:
    """For each prompt the token that the model puts at its first mask, and whether an accepted answer begins so."""
    if model.kind != "mdm" or model.mask_id is None:
        raise FloatlensError(f"{model.ref} is autoregressive and has no masks to append")
    tail = [model.mask_id] + [_filler(model, appended.fill)] * (appended.count - 1)
    lines = [[*prompt, *tail] for prompt in prompts]
    length = max(map(len, lines))
    ids = torch.full((len(lines), length), model.mask_id)
    real = torch.zeros(len(lines), length, dtype=torch.bool)
    deciding = torch.zeros_like(real)
    for i, (line, prompt) in enumerate(zip(lines, prompts, strict=True)):
        ids[i, : len(line)] = torch.tensor(line)
        real[i, : len(line)] = True
        deciding[i, model.row_of(len(prompt))] = True
    logits = ban(model.forward(ids, real, logits_at=deciding), [model.mask_id])  # never written, by any sampler
    tokens = logits.argmax(dim=-1).tolist()
    beginnings = [_beginnings(model.tokenizer, accepted) for accepted in answers]
    return [(_text(model.tokenizer, t), t in right) for t, right in zip(tokens, beginnings, strict=True)]


def _filler(model: LanguageModel, fill: str) -> int:
    if fill == "mask":
        assert model.mask_id is not None
        return model.mask_id
    assert model.tokenizer is not None
    found: list[int] = model.tokenizer(".", add_special_tokens=False)["input_ids"]
    return found[-1]


def _beginnings(tokenizer: Any, answers: Sequence[str]) -> set[int]:
    """First tokens of the answers. A tokenizer may make a token of the space alone: then the one after it counts."""
    found: set[int] = set()
    for answer in answers:
        for text in (answer.strip(), " " + answer.strip()):
            ids = tokenizer(text, add_special_tokens=False)["input_ids"]
            found.update(next(([i] for i in ids if _text(tokenizer, i)), []))
    return found


def _text(tokenizer: Any, token: int) -> str:
    return str(tokenizer.decode([token], skip_special_tokens=True)).strip()
