"""A check before anything is asked: how many words of the questions a small vocabulary does not have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from floatlens.runs.items import PlannedData
    from floatlens.runs.models import PlannedModel

__all__ = ["unknown_words"]

_LARGE = 5000
"""Vocabularies of at least this many tokens spell out words that they do not have."""
_SAMPLE = 20
"""Questions of each data set that are looked at."""
_SHARE = 0.1
"""Share of unknown words that is worth a warning."""
_WORD = re.compile(r"\w+")


def unknown_words(models: Sequence[PlannedModel], data: Sequence[PlannedData]) -> Iterator[str]:
    """A warning for each small model and data set with many words outside the model's vocabulary."""
    for model in models:
        tokenizer = _tokenizer(model) if model.facts.vocabulary < _LARGE else None
        for part in data if tokenizer is not None else ():
            words = _words(part)
            lost = sum(_spelt_out(tokenizer, word) for word in words)
            if lost > _SHARE * len(words):
                yield (
                    f"warning: {lost} of {len(words)} different words in {part.data.name} are outside the vocabulary "
                    f"of {model.ref} ({model.facts.vocabulary} tokens), so expect wrong answers"
                )


def _tokenizer(model: PlannedModel) -> Any:
    from floatlens.models import names
    from floatlens.models.checkpoint import find
    from floatlens.models.tokenizer import load_tokenizer

    path = Path(names.resolve(model.config.ref)).expanduser()
    return load_tokenizer(find(str(path), None), byte_pair=False) if (path / "tokenizer.json").is_file() else None


def _spelt_out(tokenizer: Any, word: str) -> bool:
    """Whether a word is written in single characters, or with a token for what is not known."""
    ids = tokenizer(word, add_special_tokens=False)["input_ids"]
    return tokenizer.unk_token_id in ids or len(ids) >= len(word) > 1


def _words(part: PlannedData) -> list[str]:
    """The different words of the first questions and their documents."""
    texts: list[str] = []
    for example in islice(part.data.examples(), _SAMPLE):
        texts += [example.question, example.passage or "", *(one.text for one in example.documents)]
    return sorted({word for text in texts for word in _WORD.findall(text)})
