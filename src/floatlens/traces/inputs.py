"""The inputs of a trace, checked against one another: a prompt, the text that is forced if any, their settings."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from floatlens import prompts
from floatlens.core.errors import FloatlensError, FloatlensWarning
from floatlens.decoding import prompt_budget
from floatlens.decoding.canvas import read_prompts
from floatlens.decoding.registry import sampler_for
from floatlens.decoding.target import settings_of_hole

if TYPE_CHECKING:
    from floatlens.models import LanguageModel
    from floatlens.prompts import DocumentLike, HoleLike, Prompt

__all__ = ["Given", "read_inputs"]


@dataclass(frozen=True)
class Given:
    """The arguments of `trace` that say what is decoded."""

    question: str | None = None
    documents: Iterable[DocumentLike] = ()
    gold: int | None = None
    answers: str | Iterable[str] = ()
    prompt: str | Prompt | None = None
    prompt_ids: Any = None
    passage: str | None = None
    hole: HoleLike | None = None
    target: str | None = None
    target_ids: Any = None
    forced: bool | None = None
    template: str | Path = "default"
    chat: bool | None = None


def read_inputs(model: LanguageModel, given: Given, settings: dict[str, Any]) -> tuple[Prompt, dict[str, Any]]:
    """The prompt, and the other arguments of `plan` and `decode_steps`; `settings` are the sampler and its settings."""
    given = replace(given, documents=prompts.as_documents(given.documents))
    _check(given)
    if given.passage is not None:
        return _hole(model, given, settings)
    texts = [given.question, given.target, given.prompt if isinstance(given.prompt, str) else None]
    if model.tokenizer is None and any(text is not None for text in texts):
        instead = "target_ids" if given.question is None and not isinstance(given.prompt, str) else "prompt_ids"
        raise FloatlensError(f"{model.ref} has no tokenizer, so text cannot be used; give {instead}")
    if given.target is None and given.target_ids is None:
        return _prompt(model, given, _budget(model, settings)), settings
    if given.target_ids is not None:
        target = read_prompts(given.target_ids, model.vocab_size, "target")
        if len(target) != 1:
            raise FloatlensError(f"target_ids: a trace has one prompt, got {len(target)} targets; give one")
        return _prompt(model, given, _beside(model, len(target[0]))), {**settings, "target_ids": target}
    assert given.target is not None
    assert model.tokenizer is not None
    with warnings.catch_warnings():  # the length of the target depends on where the uncut prompt ends
        warnings.simplefilter("ignore", FloatlensWarning)
        whole = _prompt(model, given, None)
    length = len(prompts.continuation(model.tokenizer, whole, given.target))
    prompt = _prompt(model, given, _beside(model, length))
    return prompt, {**settings, "target_ids": prompts.continuation(model.tokenizer, prompt, given.target)}


def _check(given: Given) -> None:
    names = ("question", "prompt", "prompt_ids", "passage")
    found = [name for name in names if getattr(given, name) is not None]
    if len(found) != 1:
        raise FloatlensError(
            f"give one of question, prompt, prompt_ids or passage; got {' and '.join(found) or 'none of them'}"
        )
    if given.question is None and (given.documents or given.gold is not None or given.answers):
        raise FloatlensError(f"documents, gold and answers go with a question, not with {found[0]}")
    targets = [name for name in ("target", "target_ids") if getattr(given, name) is not None]
    if len(targets) > 1:
        raise FloatlensError("give target or target_ids, not both")
    if given.passage is not None:
        if given.hole is None:
            raise FloatlensError("a passage needs a hole: a number of tokens, or the characters (start, stop)")
        if targets:
            raise FloatlensError(f"{targets[0]}: what is cut out of a passage is its target; leave {targets[0]} out")
    elif given.hole is not None:
        raise FloatlensError(f"hole goes with a passage, not with {found[0]}")
    elif given.forced is not None and given.forced != bool(targets):
        raise FloatlensError(
            "forced=False, but a target is given; leave one of them out" if targets else "forced=True needs a target"
        )


def _budget(model: LanguageModel, settings: dict[str, Any]) -> int | None:
    """Tokens left for the prompt; None without a limit, and where gen_length alone is too long: `plan` reports that."""
    budget = prompt_budget(model, **settings)
    return None if budget is None or budget < 1 else budget


def _beside(model: LanguageModel, written: int) -> int | None:
    return None if model.max_length is None else model.max_length - written


def _prompt(model: LanguageModel, given: Given, budget: int | None) -> Prompt:
    """The prompt, of at most `budget` tokens."""
    if given.prompt_ids is not None:
        array = np.asarray(given.prompt_ids)
        return prompts.from_ids(array[0] if array.ndim == 2 and len(array) == 1 else array, model.bos_id)
    if isinstance(given.prompt, prompts.Prompt):
        return given.prompt
    if given.prompt is not None:
        return prompts.from_text(model.tokenizer, given.prompt)
    assert given.question is not None
    return prompts.build(
        model.tokenizer,
        question=given.question,
        documents=given.documents,
        gold=given.gold,
        answers=given.answers,
        template=given.template,
        chat=given.chat,
        max_tokens=budget,
    )


def _hole(model: LanguageModel, given: Given, settings: dict[str, Any]) -> tuple[Prompt, dict[str, Any]]:
    """A passage with masks in its hole or, for an autoregressive model, the text before the hole."""
    if settings.get("gen_length") is not None:
        raise FloatlensError("a hole has a length of its own; leave gen_length out")
    if model.tokenizer is None:
        raise FloatlensError(f"{model.ref} has no tokenizer, so a passage cannot be used; give prompt_ids with masks")
    assert given.passage is not None
    assert given.hole is not None
    mask = model.mask_id if model.attention == "full" else None  # other attention does not see what comes after
    prompt, cut = prompts.from_passage(model.tokenizer, given.passage, given.hole, mask)
    if given.forced is not False:
        return prompt, {**settings, "target_ids": cut}
    if mask is None:
        return prompt, {**settings, "gen_length": len(cut)}
    sampler = sampler_for(model, settings.get("sampler"))
    return prompt, settings_of_hole(sampler, settings, len(cut))
