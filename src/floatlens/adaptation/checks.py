"""How good an adapted model is, measured on what is held out: infilling plain text, and answers about passages.

Infilling is one pass: a share of the tokens is asked for, and counted is how often the most likely token is right. An
autoregressive model predicts the same tokens from what precedes them, with them in view. Answers are decoded by the
model's own sampler and count where an accepted answer is part of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from floatlens.adaptation.recipe import Recipe
from floatlens.adaptation.rows import BLOCK, RowMaker, prompt_ids
from floatlens.adaptation.sources import Corpus
from floatlens.decoding import decode
from floatlens.evaluation.metrics import score
from floatlens.prompts import answer_text

if TYPE_CHECKING:
    from floatlens.models import LanguageModel

__all__ = ["RATIOS", "Checks", "answer_accuracy", "infilling"]

RATIOS = (0.15, 0.5, 0.85)
_ROWS = 12
_QUESTIONS = 24
_GEN_LENGTH = 12
_STEPS = 3


class Checks:
    """The checks of one run; what they need is prepared once. Without held-out text or questions they are left out."""

    def __init__(self, corpus: Corpus, maker: RowMaker, recipe: Recipe, every: int) -> None:
        self.every = every
        self._width = recipe.width
        self._text = maker.encode(corpus.held_paragraphs)
        picked = [(group, *pair) for group in corpus.held_groups for pair in group.asked[:1]]
        stride = max(1, len(picked) // _QUESTIONS)
        self._asked = picked[::stride][:_QUESTIONS]

    def run(self, model: LanguageModel) -> dict[str, float]:
        """Name → share of right tokens or answers."""
        found: dict[str, float] = {}
        if len(self._text) > self._width:
            for ratio in RATIOS:
                hits = infilling(model, rows_of(self._text, self._width, _ROWS), ratio)
                found[f"infill_{round(100 * ratio)}"] = float(hits.mean())
        if self._asked:
            assert model.tokenizer is not None
            prompts = [prompt_ids(model.tokenizer, group, question)[0] for group, question, _ in self._asked]
            found["answers"] = answer_accuracy(model, prompts, [[answer] for _, _, answer in self._asked])
        return found


def rows_of(stream: NDArray[np.int64], width: int, count: int) -> NDArray[np.int64]:
    """(row, position): `count` stretches of text, spread evenly over the stream."""
    starts = np.linspace(0, len(stream) - width - 1, count).astype(int)
    return np.stack([stream[start : start + width] for start in starts])


@torch.inference_mode()
def infilling(model: LanguageModel, rows: NDArray[np.int64], ratio: float, seed: int = 0) -> NDArray[np.bool_]:
    """Whether the most likely token is right, for every token that is asked for: the same ones for every model.

    Under block attention the last `BLOCK` tokens of each row are what is being written, and only they are asked for.
    """
    random = np.random.default_rng([seed, round(1000 * ratio)])
    where = random.random(rows.shape) < ratio
    where[:, 0] = False
    writing = np.zeros_like(where)
    if model.attention == "block":
        writing[:, -BLOCK:] = True
        where &= writing
    hits = []
    for start in range(0, len(rows), 4):
        part = slice(start, start + 4)
        ids, asked = torch.from_numpy(rows[part]), torch.from_numpy(where[part])
        if not asked.any():
            continue
        seen = ids if model.mask_id is None else ids.masked_fill(asked, model.mask_id)
        deciding = asked.roll(-1, dims=1) if model.shift else asked
        logits = model.forward(seen, logits_at=deciding, writing=torch.from_numpy(writing[part]), observed=False)
        hits.append((logits.argmax(-1) == ids[asked]).numpy())
    return np.concatenate(hits)


def answer_accuracy(model: LanguageModel, prompts: list[list[int]], answers: list[list[str]]) -> float:
    """Share of prompts whose decoded answer holds an accepted one."""
    settings: dict[str, Any] = {"gen_length": _GEN_LENGTH} | ({"steps": _STEPS} if model.kind == "mdm" else {})
    right = 0.0
    assert model.tokenizer is not None
    for start in range(0, len(prompts), 4):
        part = slice(start, start + 4)
        for ids, accepted in zip(decode(model, prompts[part], **settings).answers(), answers[part], strict=True):
            right += score(answer_text(model.tokenizer, ids), accepted).accuracy
    return right / len(prompts)
