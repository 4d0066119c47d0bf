"""`plan` a batch, decode it step by step (`decode_steps`), or all at once (`decode`).

All three take the same arguments and check them before the first pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor

from floatlens.core.errors import FloatlensError
from floatlens.decoding.canvas import Canvas, lay_out, read_prompts
from floatlens.decoding.draws import generators
from floatlens.decoding.registry import SAMPLERS, read_settings, sampler_for
from floatlens.decoding.step import Decoded, Step
from floatlens.decoding.target import follow, force, read_targets
from floatlens.models.base import LanguageModel

__all__ = ["PromptIds", "decode", "decode_steps", "finish", "plan", "prompt_budget"]

PromptIds = Sequence[int] | Sequence[Sequence[int]] | Tensor


def plan(
    model: LanguageModel,
    prompt_ids: PromptIds,
    *,
    target_ids: PromptIds | None = None,
    sampler: str | None = None,
    padding: str = "left",
    **settings: Any,
) -> Canvas:
    """The layout of the batch, settled before the first pass. Arguments as for `decode`."""
    chosen = sampler_for(model, sampler)
    prompts, targets = read_prompts(prompt_ids, model.vocab_size), None
    if target_ids is not None:
        targets = read_targets(model, target_ids, prompts)
        settings = follow(model, chosen, settings, prompts, targets)
    read = read_settings(chosen, settings)
    read.check(model)
    read = read.resolved(model)
    canvas = lay_out(model, prompts, chosen.name, read, padding, exact=targets is not None)
    if targets is not None:
        return force(canvas, targets)
    if read.gen_length:  # the length of the text is the user's choice
        try:
            read.check_steps(int(canvas.answer.sum(dim=1).max()))
        except ValueError as error:
            raise FloatlensError(f'settings of the sampler "{canvas.sampler}": {error}') from None
    return canvas


def prompt_budget(model: LanguageModel, *, sampler: str | None = None, **settings: Any) -> int | None:
    """How many tokens a prompt may take: the context minus gen_length; None where there is no limit."""
    chosen = sampler_for(model, sampler)
    read = read_settings(chosen, settings)
    read.check(model)
    return None if model.max_length is None else model.max_length - read.resolved(model).most_written()


def decode_steps(model: LanguageModel, prompt_ids: PromptIds, **arguments: Any) -> Iterator[Step]:
    """Decode pass by pass: each Step comes right after the pass that decided it, before the next one begins.

    Arguments as for `decode`; they are checked here and now, not at the first step.
    Example: `for step in decode_steps(model, ids, gen_length=16): print(step.position.tolist())`
    """
    return _run(model, plan(model, prompt_ids, **arguments))


def decode(
    model: LanguageModel,
    prompt_ids: PromptIds,
    *,
    target_ids: PromptIds | None = None,
    sampler: str | None = None,
    padding: str = "left",
    **settings: Any,
) -> Decoded:
    """Decode one prompt or a batch of prompts of any lengths.

    `prompt_ids` is a list of ids, a list of such lists, or a 1-D or 2-D tensor. `sampler` is a name in `SAMPLERS`
    ("llada", "dream", "threshold", "bd3lm", "ar", …); None takes the one the model's family was published with.
    `settings` are that sampler's own. A sample gets the same tokens alone as in any batch, padded on either side.

    `target_ids`, in the same forms, are written instead of the model's own tokens: the sampler still chooses where. One
    target per prompt, all of one length, which is what `gen_length` then is; in a prompt that holds masks the target
    fills these first. Each `Step` has the probability of what it wrote, and `Decoded.log_likelihood()` sums it up.
    Example: `decode(model, [5, 7, 9], sampler="llada", gen_length=16, steps=8).answers()`,
    `decode(model, [5, 7, 9], target_ids=[11, 12]).log_likelihood()`
    """
    canvas = plan(model, prompt_ids, target_ids=target_ids, sampler=sampler, padding=padding, **settings)
    return finish(model, canvas, list(_run(model, canvas)))


def finish(model: LanguageModel, canvas: Canvas, steps: Sequence[Step], *, whole: bool = False) -> Decoded:
    """The batch after all its steps. `whole` keeps every column that a pass has seen, also those that are cut off
    behind the end of the answer."""
    sequence = canvas.ids.clone()
    for step in steps:
        sequence[step.sample, step.position] = step.token
    written = max(int(step.position.max()) + 1 for step in steps if len(step.position))
    if model.kind == "arm":  # all samples may have ended early: columns nobody reached do not exist
        sequence = sequence[:, :written]
    else:
        columns = canvas.settings.columns(sequence, canvas.answer, written)
        seen = max(step.sequence.shape[1] for step in steps) if whole else 0
        sequence = sequence[:, : max(columns, seen)]
    return Decoded(sequence, tuple(steps), sum(step.passes for step in steps), canvas)


def _run(model: LanguageModel, canvas: Canvas) -> Iterator[Step]:
    random = generators(canvas.settings.seed, len(canvas.ids))
    return SAMPLERS[canvas.sampler].run(model, canvas, canvas.settings, random)
