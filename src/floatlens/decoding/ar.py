"""Autoregressive decoding: one token per pass and sample, greedy or sampled, with a KV cache, until EOS.

With the cache, later passes run over the newest token only. A forced text is written to its end, past any EOS.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from pydantic import Field
from torch import Tensor

from floatlens.decoding.board import check_finite, probability_of
from floatlens.decoding.canvas import Canvas
from floatlens.decoding.draws import categorical, nucleus, uniform
from floatlens.decoding.registry import Generators, Sampler
from floatlens.decoding.settings import Settings
from floatlens.decoding.step import Step
from floatlens.models.base import LanguageModel

__all__ = ["SAMPLER", "ArSettings", "run"]


class ArSettings(Settings):
    """Settings of the sampler `ar`."""

    gen_length: int = Field(32, ge=1, description="maximum number of tokens to write")
    temperature: float = Field(0.0, ge=0, description="0 takes the most likely token, above 0 samples")
    top_p: float | None = Field(
        None, gt=0, le=1, description="sample from the most likely tokens of this total probability"
    )
    use_cache: bool = Field(True, description="keep keys and values between passes; the tokens are the same without")

    def max_steps(self, masks: int) -> int:
        return self.gen_length


def run(model: LanguageModel, canvas: Canvas, settings: ArSettings, random: Generators) -> Iterator[Step]:
    """Yield a step after every pass. A sample that wrote EOS is padded until the others are done."""
    width = canvas.length - settings.gen_length
    ids, real = canvas.ids[:, :width], canvas.attention_mask[:, :width]
    alive = torch.ones(len(ids), dtype=torch.bool)
    # a forced text ends only with its last token
    ends = torch.tensor(canvas.end_ids if canvas.target is None else (), dtype=torch.long)
    cache = model.new_cache() if settings.use_cache else None
    for index in range(settings.gen_length):
        offset = 0 if cache is None else int(cache.get_seq_length())
        row = canvas.rows[:, width + index]
        wanted = torch.zeros(ids.shape, dtype=torch.bool)
        wanted[alive, row[alive]] = True
        logits = model.forward(
            ids[:, offset:].to(model.device),
            None if real.all() else real.to(model.device),
            logits_at=wanted[:, offset:].to(model.device),
            cache=cache,
        )
        sample = alive.nonzero().flatten()
        token, confidence = _read(logits.float(), sample, settings, random)
        check_finite(confidence, index)
        position = torch.full_like(sample, width + index)
        probability = None
        if canvas.target is not None:
            token = canvas.target[sample, position]
            probability = probability_of(logits.float(), token)
        decided = (sample, position, token, confidence, row[sample])
        yield Step(index, ids.clone(), *decided, unfinished=alive.clone(), probability=probability)
        column = canvas.ids[:, width + index].clone()
        column[sample] = token
        ids, real = torch.cat([ids, column[:, None]], dim=1), torch.cat([real, alive[:, None]], dim=1)
        alive[sample] = ~torch.isin(token, ends)
        if not alive.any():
            break


def _read(logits: Tensor, sample: Tensor, settings: ArSettings, random: Generators) -> tuple[Tensor, Tensor]:
    """(n,) token and (n,) float32 probability in the distribution it was taken from."""
    if settings.temperature > 0:
        logits = nucleus(logits / settings.temperature, settings.top_p)
        token = categorical(logits, uniform(sample, random))
    else:
        token = logits.argmax(dim=-1).cpu()
    share = torch.softmax(logits, dim=-1)
    return token, share.gather(1, token.to(share.device)[:, None])[:, 0].cpu()


SAMPLER = Sampler(
    "ar", "arm", ArSettings, run, "one token after another until EOS, greedy or sampled (autoregressive models)"
)
