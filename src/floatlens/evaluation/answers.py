"""A model's answers to questions: prompts are built, decoded in batches, and scored. It reads no data, writes no files.

A question that fails does not affect the others. An answer does not depend on the rest of its batch, so a batch that
is too large for the memory is halved, with a warning.
"""

from __future__ import annotations

import hashlib
import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from floatlens.attention.memory_budget import MemoryBudget, out_of_memory, release_memory
from floatlens.core.config import Config
from floatlens.core.errors import FloatlensError, FloatlensWarning
from floatlens.decoding import decode, decode_steps, prompt_budget
from floatlens.decoding.settings import DecodingConfig
from floatlens.edits.context import edit
from floatlens.edits.spec import EditSpec
from floatlens.evaluation.divergence import divergence, tapped, unedited
from floatlens.evaluation.first_mask import Appended, first_mask
from floatlens.evaluation.metrics import Scores, score
from floatlens.prompts import Prompt, answer_text, build
from floatlens.prompts.types import PromptConfig

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from floatlens.data.examples import Example
    from floatlens.decoding import Decoded
    from floatlens.models import LanguageModel

__all__ = ["Answer", "AskConfig", "Asked", "ask"]


class AskConfig(Config):
    """The same for every model of a run: a sampler applies to the models of its kind, a setting to those that have it.

    Example: `AskConfig(decoding=DecodingConfig(settings={"gen_length": 16}), first_line=True)`
    """

    prompt: PromptConfig = PromptConfig()
    decoding: DecodingConfig = DecodingConfig()
    first_line: bool = Field(False, description="score an answer only up to its first line break")


@dataclass(frozen=True)
class Asked:
    """A question with the documents that are shown.

    `appended`: one pass over masks (or dots) after the prompt instead of an answer, see `first_mask`. `edit`: the
    answer is decoded under this edit of attention.
    """

    example: Example
    appended: Appended | None = None
    edit: EditSpec | None = None


@dataclass(frozen=True)
class Answer:
    """A prediction and its scores (none where the question has no accepted answer), or an error."""

    status: Literal["done", "failed"]
    prediction: str | None = None
    scores: Scores | None = None
    prompt: str | None = None
    prompt_tokens: int | None = None
    dropped_documents: int | None = None
    decided_at: tuple[int, ...] | None = None
    """The step that decided each scored token, in reading order; None for a single pass over masks."""
    earliest_step: int | None = None
    """Under an edit: the first step in which it can change anything."""
    moved_share: float | None = None
    """Under an edit: attention moved per row, over all rows that it looked at."""
    saved_share: float | None = None
    """Under an edit that stands for a cache: share of the passes' multiplications that a server would not do."""
    saved_passes: float | None = None
    """The same in passes."""
    schedule: str | None = None
    """Under such an edit: its refresh intervals by layer, where it has any."""
    kl: float | None = None
    """Under an edit: KL divergence from the unedited model at the first token it can change, see `divergence`."""
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()
    error: str | None = None


def ask(
    model: LanguageModel, questions: Sequence[Asked], config: AskConfig, budget: MemoryBudget | None = None
) -> list[Answer]:
    """One answer per question, in order; all are decoded together, as far as they fit into the memory `budget`.

    Example: `ask(fl.load("scale:llada"), [Asked(example)], AskConfig())[0].prediction`
    """
    began = time.perf_counter()
    drafts = [_draft(model, question, config) for question in questions]
    answers = {i: draft for i, draft in enumerate(drafts) if isinstance(draft, Answer)}
    groups: dict[tuple[Appended | None, EditSpec | None], dict[int, _Draft]] = {}
    for i, draft in enumerate(drafts):
        if isinstance(draft, _Draft):
            groups.setdefault((draft.asked.appended, draft.asked.edit), {})[i] = draft
    for group in groups.values():
        answers |= zip(group, _answers(model, list(group.values()), config, budget or MemoryBudget()), strict=True)
    each = (time.perf_counter() - began) / max(len(questions), 1)
    return [replace(answers[i], seconds=round(each, 4)) for i in range(len(questions))]


@dataclass(frozen=True)
class _Draft:
    asked: Asked
    prompt: Prompt
    warnings: tuple[str, ...]


def _draft(model: LanguageModel, asked: Asked, config: AskConfig) -> _Draft | Answer:
    """The prompt of a question, or the answer that says why there is none."""
    example = asked.example
    settings: dict[str, Any] = {"sampler": config.decoding.sampler, **config.decoding.settings}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FloatlensWarning)
        try:
            space = prompt_budget(model, **settings)
            if space is not None and asked.appended is not None:
                space = min(space, (model.max_length or 0) - asked.appended.count)
            prompt = build(
                model.tokenizer,
                question=example.question,
                documents=example.documents,
                answers=example.answers,
                template=config.prompt.template,
                chat=config.prompt.chat,
                max_tokens=space,
            )
            if asked.edit is not None:
                asked.edit.build().check_prompt(prompt)
        except FloatlensError as error:
            return Answer("failed", error=str(error))
    said = tuple(str(w.message) for w in caught if issubclass(w.category, FloatlensWarning))
    return _Draft(asked, prompt, said)


def _answers(model: LanguageModel, drafts: Sequence[_Draft], config: AskConfig, budget: MemoryBudget) -> list[Answer]:
    """Decode and score prompts that can share a pass; a batch that runs out of memory is done in halves."""
    if budget.questions is not None and len(drafts) > budget.questions:
        parts = (drafts[i : i + budget.questions] for i in range(0, len(drafts), budget.questions))
        return [answer for part in list(parts) for answer in _answers(model, part, config, budget)]
    try:
        return _together(model, drafts, config, budget)
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
    # here what was raised, and with it everything that the attempt held, is gone
    release_memory()
    edited = drafts[0].asked.edit is not None
    said = budget.fewer_questions(len(drafts)) if len(drafts) > 1 else budget.smaller_blocks() if edited else None
    if said is None:
        why = f"out of memory on {model.device} with one question alone; show fewer documents or write less"
        return [Answer("failed", error=why)]
    again = _answers(model, drafts, config, budget)
    return [replace(answer, warnings=(*answer.warnings, said)) for answer in again]


def _together(model: LanguageModel, drafts: Sequence[_Draft], config: AskConfig, budget: MemoryBudget) -> list[Answer]:
    if drafts[0].asked.appended is not None:
        return [_one_token(draft, *found) for draft, found in zip(drafts, _masks(model, drafts), strict=True)]
    decoded, changes = _decode(model, drafts, config, budget)
    tokenizer = model.tokenizer
    assert tokenizer is not None  # a prompt was built with it
    answers = []
    for draft, ids, steps, change in zip(drafts, decoded.answers(), decoded.decided_at(), changes, strict=True):
        scored = _scored(draft, answer_text(tokenizer, ids), config.first_line)
        count = _first_line(tokenizer, ids) if config.first_line else len(ids)
        answers.append(replace(scored, decided_at=tuple(steps[:count]), **change))
    return answers


def _first_line(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> int:
    """How many tokens come before the second line of an answer."""
    return next((n for n in range(len(ids)) if "\n" in answer_text(tokenizer, ids[: n + 1])), len(ids))


def _decode(
    model: LanguageModel, drafts: Sequence[_Draft], config: AskConfig, budget: MemoryBudget
) -> tuple[Decoded, Sequence[dict[str, Any]]]:
    """What the model wrote, and for each question what an edit did to it, as fields of its answer."""
    ids = [draft.prompt.ids for draft in drafts]
    how: dict[str, Any] = {"sampler": config.decoding.sampler, **config.decoding.settings}
    spec = drafts[0].asked.edit
    if spec is None:
        return decode(model, ids, **how), [{}] * len(drafts)
    made, first = spec.build(), spec.earliest_step
    before = unedited(model, ids, first, how, lambda: list(islice(decode_steps(model, ids, **how), first + 1)))
    prompts = [draft.prompt for draft in drafts]
    with edit(model, made, prompts=prompts, workspace=budget.workspace()), tapped(model, first) as edited:
        decoded = decode(model, ids, **how)
    after = edited.first or [None] * len(drafts)
    shared = {"earliest_step": first, "schedule": dict(spec.settings).get("schedule") or made.refreshes()}
    counts = {
        "moved_share": made.moved_shares(),
        "saved_share": made.saved_shares(),
        "saved_passes": made.saved_passes(),
    }
    changes = [{**shared, "kl": divergence(p, q)} for p, q in zip(before, after, strict=True)]
    for name, values in counts.items():
        for change, value in zip(changes, values or [math.nan] * len(drafts), strict=True):
            change[name] = _rounded(value)
    return decoded, changes


def _rounded(share: float) -> float | None:
    return None if math.isnan(share) else round(share, 6)


def _masks(model: LanguageModel, drafts: Sequence[_Draft]) -> list[tuple[str, bool]]:
    appended = drafts[0].asked.appended
    assert appended is not None
    prompts = [draft.prompt.ids for draft in drafts]
    return first_mask(model, prompts, [draft.asked.example.answers for draft in drafts], appended)


def _scored(draft: _Draft, text: str, first_line: bool) -> Answer:
    asked = draft.asked.example
    if not asked.answers:
        return _answer(draft, text, None)
    judged: dict[str, Any] = {"kind": asked.answer_kind, "parts": asked.answer_parts, "wrong": asked.wrong_answers}
    return _answer(draft, text, score(text, asked.answers, first_line=first_line, **judged))


def _one_token(draft: _Draft, text: str, right: bool) -> Answer:
    """A token stands for the beginning of an answer; it is right or wrong, and there is no F1 of it."""
    hit = float(right)
    return _answer(draft, text, Scores(hit, hit, hit) if draft.asked.example.answers else None)


def _answer(draft: _Draft, text: str, scores: Scores | None) -> Answer:
    prompt = draft.prompt
    digest = hashlib.sha256(np.asarray(prompt.ids, dtype="<i8").tobytes()).hexdigest()[:16]
    dropped = 0 if prompt.dropped is None else prompt.dropped.documents
    return Answer("done", text, scores, digest, len(prompt.ids), dropped, warnings=draft.warnings)
