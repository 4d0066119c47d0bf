"""Counterfactual prompts: the same question, with another question's answer in place of its own in all documents.

Both prompts must have the same number of tokens, because activation patching exchanges states position by position.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from floatlens.core.errors import FloatlensError
from floatlens.data.matching import find_mentions, holds_answer, replace_mentions
from floatlens.prompts import build
from floatlens.prompts.types import PromptConfig

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from floatlens.data.examples import Example
    from floatlens.models import LanguageModel

__all__ = ["NoCounterfactualError", "counterfactual_pairs", "find_counterfactual", "prompt_pair"]

_TRIED = 200
"""Answers of other questions that are tried before a question is given up."""


class NoCounterfactualError(FloatlensError):
    """A question has no counterfactual prompt; the message is the reason."""


def find_counterfactual(
    tokenizer: PreTrainedTokenizerBase | None,
    example: Example,
    answers: Iterable[str],
    prompt: PromptConfig,
    max_tokens: int | None = None,
) -> str:
    """The first of `answers` that keeps the number of tokens of the prompt where it takes the place of the question's
    own answer. At most 200 are tried; one that contains an accepted answer is never taken.

    Example: `find_counterfactual(model.tokenizer, example, ["harp", "flute"], PromptConfig())`
    """
    if not any(find_mentions(f"{one.title}\n{one.text}", example.answers) for one in example.documents):
        raise NoCounterfactualError("no document states its answer")
    own = _ids(tokenizer, example, prompt)
    if max_tokens is not None and len(own) > max_tokens:
        raise NoCounterfactualError(f"its prompt has {len(own)} tokens, and {max_tokens} fit")
    others = (one for one in dict.fromkeys(answers) if not holds_answer(one, example.answers))
    for answer in islice(others, _TRIED):
        ids = _ids(tokenizer, _changed(example, answer), prompt)
        if len(ids) == len(own) and ids != own:
            return answer
    raise NoCounterfactualError("no answer of another question keeps the number of tokens")


def prompt_pair(
    tokenizer: PreTrainedTokenizerBase | None, example: Example, answer: str, prompt: PromptConfig
) -> tuple[list[int], list[int]]:
    """Token ids of a question's prompt, and of the same prompt with `answer` for its own in all documents."""
    return _ids(tokenizer, example, prompt), _ids(tokenizer, _changed(example, answer), prompt)


def counterfactual_pairs(
    model: LanguageModel, examples: Sequence[Example], prompt: PromptConfig | None = None
) -> tuple[list[tuple[list[int], list[int]]], list[str]]:
    """For each question its prompt and the same with another question's answer in place of its own in all documents.

    The first other answer that keeps the number of tokens is taken. Also returned: the ids of the questions for which
    there is none, or whose documents do not state their answer.

    Example: `counterfactual_pairs(model, list(open_data("scale:rag", limit=8).examples()))[0]`
    """
    how = prompt or PromptConfig()
    pairs, skipped = [], []
    for example in examples:
        others = (one for other in examples if other.id != example.id for one in other.answers)
        try:
            answer = find_counterfactual(model.tokenizer, example, others, how)
        except NoCounterfactualError:
            skipped.append(example.id)
        else:
            pairs.append(prompt_pair(model.tokenizer, example, answer, how))
    return pairs, skipped


def _changed(example: Example, answer: str) -> Example:
    documents = []
    for one in example.documents:
        title, text = (replace_mentions(part, example.answers, answer) for part in (one.title, one.text))
        documents.append(one.model_copy(update={"title": title, "text": text}))
    return example.model_copy(update={"documents": documents})


def _ids(tokenizer: PreTrainedTokenizerBase | None, example: Example, how: PromptConfig) -> list[int]:
    built = build(
        tokenizer, question=example.question, documents=example.documents, template=how.template, chat=how.chat
    )
    return list(built.ids)
