"""`floatlens data`: what a file of questions was taken for and why, its counts and lengths, and its first prompt.

Everything that comes from the file is cleaned and shown as rich's `Text`, so none of it is read as markup.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any

import typer

from floatlens.cli.commands import option
from floatlens.cli.options import DataOptions, Gold
from floatlens.cli.terminal import clean, console, many
from floatlens.core.errors import FloatlensError

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from floatlens.data import Data, Example

__all__ = ["data"]

_FIRST, _LAST, _LONGEST = 12, 6, 150
"""How much of the first prompt is shown: lines at its beginning and end, characters of a line."""


def data(
    ref: Annotated[
        str,
        typer.Argument(metavar="FILE", help="A file, nq=FILE, hub:OWNER/NAME:SPLIT or scale:rag.", show_default=False),
    ],
    reading: DataOptions,
    model: Annotated[
        str | None, option("Count lengths in tokens of this model.", metavar="REF", default="in words")
    ] = None,
    gold: Gold = None,
) -> None:
    """Show what a data file holds.

    Prints the format and how it was recognised, the numbers of questions, answers, documents and gold documents,
    lengths, and the first example as a prompt. No model is run.
    """
    from floatlens.data import open_data

    opened = open_data(ref, gold=gold, **reading.values())
    tokenizer = None if model is None else _tokenizer(model)
    out = console()
    out.print(_facts(opened))
    out.print()
    out.print(_lengths(opened.examples(), tokenizer))
    out.print()
    for line in _prompt(next(opened.examples()), tokenizer):
        out.print(line)


def _tokenizer(model: str) -> Any:
    from floatlens.models.facts import tokenizer_of

    found = tokenizer_of(model)
    if found is None:
        raise FloatlensError(f"{model} has no tokenizer, so lengths in tokens are not known; leave --model out")
    return found


def _facts(opened: Data) -> Table:
    from floatlens.cli.views import pairs
    from floatlens.data.sources import is_source

    counts = opened.counts
    rows = [("data", opened.ref), ("taken for", opened.headline())]
    rows.append(("because", opened.reason or ("it is generated" if is_source(opened.ref) else "the format was named")))
    if counts.questions:
        rows.append(("answers", f"{many(counts.answers, 'accepted answer')} of {many(counts.questions, 'question')}"))
    if counts.total_documents:
        rows.append(("documents", f"{counts.total_documents:,}, {counts.total_gold:,} of them gold"))
    if counts.types:
        rows.append(("types", ", ".join(f"{number:,} {name}" for name, number in counts.types.most_common())))
    if set(counts.kinds) - {"text"}:
        rows.append(("judged by", ", ".join(f"{name} ({number:,})" for name, number in counts.kinds.most_common())))
    if counts.wrong_answers:
        stated = f", and {many(counts.wrong_documents, 'document')} that state them" if counts.wrong_documents else ""
        rows.append(("wrong answers", f"named in {many(counts.wrong_answers, 'question')}{stated}"))
    if counts.targets:
        rows.append(("targets", f"{many(counts.targets, 'question')} with a text for forced decoding"))
    rows.append(("SHA-256", opened.sha256))
    rows += [("note", note) for note in opened.notes()]
    return pairs(rows)


def _lengths(examples: Iterable[Example], tokenizer: Any) -> Table:
    """Median and longest of questions, answers, documents and all documents of a question."""
    from floatlens.cli.tables import new_table

    size = _size(tokenizer)
    found: dict[str, list[int]] = {
        name: [] for name in ("question", "answer", "document", "all documents", "target", "passage")
    }
    for example in examples:
        documents = [size(document.text) for document in example.documents]
        found["document"] += documents
        found["answer"] += [size(answer) for answer in example.answers]
        for name, text in (("question", example.question), ("target", example.target), ("passage", example.passage)):
            found[name] += [size(text)] if text else []
        found["all documents"] += [sum(documents)] if documents else []
    table = new_table(f"length in {'words' if tokenizer is None else 'tokens'}", "number", "median", "longest")
    for name, sizes in found.items():
        if sizes:
            table.add_row(name, f"{len(sizes):,}", f"{statistics.median(sizes):,.0f}", f"{max(sizes):,}")
    return table


def _size(tokenizer: Any) -> Callable[[str], int]:
    """Documents that several questions share are counted once."""

    @lru_cache(maxsize=4096)
    def size(text: str) -> int:
        if tokenizer is None:
            return len(text.split())
        return len(tokenizer.encode(text, add_special_tokens=False, verbose=False))

    return size


def _prompt(example: Example, tokenizer: Any) -> Iterator[RenderableType]:
    """The first example as a prompt; long lines are cut, and the middle of a long prompt is left out."""
    from rich.padding import Padding
    from rich.text import Text

    yield Text(f"first example ({clean(example.id)})", style="bold")
    lines = _prompt_text(example, tokenizer).splitlines()
    if len(lines) > _FIRST + _LAST + 1:
        lines[_FIRST:-_LAST] = [f"… {many(len(lines) - _FIRST - _LAST, 'more line')} …"]
    for line in lines:
        indent = len(line) - len(line.lstrip(" "))  # a prompt may be code
        yield Padding(Text(_shortened(line)), (0, 0, 0, 2 + min(indent, 20)))
    if example.answers:
        yield Text(f"accepted: {_shortened(' | '.join(example.answers))}")


def _shortened(text: str) -> str:
    cleaned = clean(text)
    return cleaned if len(cleaned) <= _LONGEST else f"{cleaned[:_LONGEST]}…"


def _prompt_text(example: Example, tokenizer: Any) -> str:
    if example.passage is not None:
        return example.passage
    if tokenizer is not None:
        from floatlens.prompts import build

        return build(tokenizer, question=example.question, documents=example.documents).text
    from floatlens.prompts.template import load_template, render

    return render(load_template(), example.question, example.documents).text
