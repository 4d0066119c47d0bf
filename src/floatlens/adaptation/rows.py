"""Rows to learn from: a passage with questions in the prompt that every model gets, or a stretch of plain text.

A row is built from the recipe's seed and the number of its step alone. Of several questions about a passage all but the
last stand in the prompt with their answers; the last is answered where the model writes, ended by its end token and
filled with more of them. So one pass over a passage asks for several answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from floatlens.adaptation.recipe import Recipe
from floatlens.adaptation.sources import Corpus, Group
from floatlens.core.errors import FloatlensError
from floatlens.prompts import Document, build

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["ANSWER", "BLOCK", "CONTEXT", "END", "FILL", "PADDING", "TEXT", "RowMaker", "Rows", "prompt_ids"]

PADDING, CONTEXT, ANSWER, END, FILL, TEXT = range(-1, 5)
"""What a position holds: nothing, prompt, answer, the token that ends it, more of those, plain text."""

BLOCK = 32
"""Tokens of plain text that are bidirectional among themselves under block attention."""

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """A batch, (row, position) each. `block` numbers the spans that are written together, -1 for what is given."""

    ids: Ints
    part: Ints
    block: Ints

    @property
    def tokens(self) -> int:
        return int((self.part != PADDING).sum())


def prompt_ids(tokenizer: PreTrainedTokenizerBase, group: Group, question: str) -> tuple[list[int], bool]:
    """The prompt of one question about a passage, as `floatlens qa` builds it, and whether it is a chat message."""
    prompt = build(tokenizer, question=question, documents=[Document(title=group.title, text=group.text)])
    return prompt.ids, prompt.chat


class RowMaker:
    """Makes the rows of any step."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, corpus: Corpus, recipe: Recipe, end_id: int) -> None:
        self._tokenizer, self._recipe, self._end = tokenizer, recipe, end_id
        self._groups = corpus.groups
        self.text = self.encode(corpus.paragraphs)
        if not self._groups and len(self.text) <= recipe.width:
            raise FloatlensError(f"the text has {len(self.text)} tokens, fewer than one row of {recipe.width}")

    def encode(self, paragraphs: Sequence[str]) -> Ints:
        """All paragraphs as one stream, line breaks between."""
        if not paragraphs:
            return np.zeros(0, dtype=np.int64)
        encoded: Any = self._tokenizer([f"{paragraph}\n" for paragraph in paragraphs], add_special_tokens=False)
        return np.concatenate([np.asarray(ids, dtype=np.int64) for ids in encoded.input_ids])

    def rows(self, step: int) -> Rows:
        """The batch of one step."""
        recipe = self._recipe
        random = np.random.default_rng([recipe.seed, 1, step])
        wide = random.random() < recipe.long_rows
        width, count = (2 * recipe.width, max(1, recipe.rows // 2)) if wide else (recipe.width, recipe.rows)
        return stack([self._row(random, width) for _ in range(count)], width)

    def _row(self, random: np.random.Generator, width: int) -> Rows:
        text = len(self.text) > width and (not self._groups or random.random() < self._recipe.text)
        if text:
            return self.stretch(int(random.integers(len(self.text) - width)), width)
        for _ in range(1000):
            group = self._groups[int(random.integers(len(self._groups)))]
            made = self._asked(random, group, width)
            if made is not None:
                return made
        raise FloatlensError(f"no passage of the data fits a row of {width} tokens with its question; raise width")

    def stretch(self, start: int, width: int, stream: Ints | None = None) -> Rows:
        """`width` tokens of plain text."""
        ids = (self.text if stream is None else stream)[start : start + width]
        return Rows(ids[None], np.full((1, width), TEXT), (np.arange(width) // BLOCK)[None])

    def _asked(self, random: np.random.Generator, group: Group, width: int) -> Rows | None:
        """A passage with as many of its questions as fit, in random order; None if not even one fits."""
        order = [group.asked[i] for i in random.permutation(len(group.asked))]
        documents = self._documents(random, group, width)
        spare = int(random.integers(self._recipe.spare + 1))
        most = len(order) if random.random() < 0.7 else 1
        for count in range(most, 0, -1):
            made = self._compose(documents, order[:count], spare)
            if made.ids.shape[1] <= width:
                return made
        return None

    def _documents(self, random: np.random.Generator, group: Group, width: int) -> list[Document]:
        """The passage; in a long row with another one beside it, in either order."""
        documents = [Document(title=group.title, text=group.text)]
        if width > self._recipe.width:
            other = self._groups[int(random.integers(len(self._groups)))]
            documents.insert(int(random.integers(2)), Document(title=other.title, text=other.text))
        return documents

    def _compose(self, documents: list[Document], asked: Sequence[tuple[str, str]], spare: int) -> Rows:
        *before, (question, answer) = asked
        shown, spans, length = [], [], 0
        for earlier, known in before:
            piece = f"{earlier}\nAnswer: {known}\n\nQuestion: "
            start = length + len(piece) - len(known) - len("\n\nQuestion: ")
            spans.append((start, start + len(known)))
            shown.append(piece)
            length += len(piece)
        whole = "".join(shown) + question
        prompt = build(self._tokenizer, question=whole, documents=documents)
        part = np.full(len(prompt.ids), CONTEXT)
        block = np.full(len(prompt.ids), -1)
        origin = prompt.text.rfind(whole)
        for number, (start, stop) in enumerate(spans):
            inside = (prompt.offsets[:, 0] < origin + stop) & (prompt.offsets[:, 1] > origin + start)
            part[inside], block[inside] = ANSWER, number
        written: Any = self._tokenizer(answer if prompt.chat else f" {answer}", add_special_tokens=False)
        ids = [*written.input_ids, self._end] + [self._end] * spare
        parts = [ANSWER] * len(written.input_ids) + [END] + [FILL] * spare
        return Rows(
            np.concatenate([np.asarray(prompt.ids, dtype=np.int64), ids])[None],
            np.concatenate([part, parts])[None],
            np.concatenate([block, np.full(len(ids), len(spans))])[None],
        )


def stack(rows: Sequence[Rows], width: int) -> Rows:
    """Rows of up to `width` tokens as one batch, padded at the end to the longest of them."""
    longest = min(width, max(row.ids.shape[1] for row in rows))

    def padded(name: str, filler: int) -> Ints:
        return np.concatenate(
            [
                np.pad(getattr(row, name), ((0, 0), (0, longest - row.ids.shape[1])), constant_values=filler)
                for row in rows
            ]
        )

    return Rows(padded("ids", 0), padded("part", PADDING), padded("block", -1))
