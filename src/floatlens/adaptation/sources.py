"""What an adaptation learns from: passages with questions, and plain text, split into training and held out.

A file is SQuAD's JSON document, plain text (.txt), or questions in any format that `floatlens qa` reads. Anything may
be gzipped. Held out are the last twentieth of the articles and, unless a file of its own is given, of the text.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from floatlens.core.errors import FloatlensError
from floatlens.core.files import digest_of_file
from floatlens.data.reader import read_examples

__all__ = ["Corpus", "Group", "read_corpus"]

_HELD_OUT = 20
"""One article in this many is held out, and one paragraph of text."""


@dataclass(frozen=True)
class Group:
    """A passage and what is asked about it: (question, answer) pairs."""

    title: str
    text: str
    asked: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Corpus:
    """Everything that was read, and what is held out of training."""

    groups: tuple[Group, ...] = ()
    paragraphs: tuple[str, ...] = ()
    held_groups: tuple[Group, ...] = ()
    held_paragraphs: tuple[str, ...] = ()
    digests: tuple[tuple[str, str], ...] = ()
    """(file name, SHA-256) of every file."""

    @property
    def questions(self) -> int:
        return sum(len(group.asked) for group in self.groups)


def read_corpus(paths: Sequence[str | Path], held_out: Sequence[str | Path] = ()) -> Corpus:
    """Read files of any of the three kinds; what `held_out` names is used for checks only.

    Example: `read_corpus(["squad-train.json.gz", "wikitext-valid.txt.gz"], ["wikitext-test.txt.gz"]).questions`
    """
    groups, paragraphs = _read_all(paths)
    if not groups and not paragraphs:
        raise FloatlensError("no data to learn from: give files of questions with passages, or of plain text")
    held_groups, held_paragraphs = _read_all(held_out)
    if not held_groups:
        groups, held_groups = _split_articles(groups)
    if not held_paragraphs:
        keep = max(1, len(paragraphs) - len(paragraphs) // _HELD_OUT)
        paragraphs, held_paragraphs = paragraphs[:keep], paragraphs[keep:]
    named = [Path(path) for path in (*paths, *held_out)]
    return Corpus(
        tuple(groups),
        tuple(paragraphs),
        tuple(held_groups),
        tuple(held_paragraphs),
        tuple((path.name, digest_of_file(path)) for path in named),
    )


def _read_all(paths: Iterable[str | Path]) -> tuple[list[Group], list[str]]:
    groups: list[Group] = []
    paragraphs: list[str] = []
    for path in map(Path, paths):
        name = path.name.removesuffix(".gz")
        if name.endswith(".txt"):
            paragraphs += _read_text(path)
        elif name.endswith(".json"):
            groups += _read_squad(path)
        else:
            groups += _read_questions(path)
    return groups, paragraphs


def _content(path: Path) -> str:
    try:
        packed = path.read_bytes()
        return (gzip.decompress(packed) if packed[:2] == b"\x1f\x8b" else packed).decode("utf-8-sig")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FloatlensError(f"{path}: the gzip file is damaged or cut short ({error}); copy it again") from error
    except UnicodeDecodeError as error:
        raise FloatlensError(f"{path}: not UTF-8 text (byte {error.start + 1})") from None
    except OSError as error:
        raise FloatlensError(f"{path}: {error.strerror or error}") from error


# -- plain text ---------------------------------------------------------------------------------------------------

_SPACED = re.compile(r" ([,.;:!?%)\]])|([(\[]) ")
_QUOTED = re.compile(r'" ([^"]*) "')


def _read_text(path: Path) -> list[str]:
    """Paragraphs of at least a few words; the marks of WikiText's tokeniser are undone, headings left out."""
    lines = (" ".join(line.split()) for line in _content(path).splitlines())
    kept = [_plain(line) for line in lines if len(line.split()) > 8 and not line.startswith("= ")]
    if not kept:
        raise FloatlensError(f"{path}: no paragraph of more than eight words in it")
    return kept


def _plain(line: str) -> str:
    """WikiText writes " @-@ ", " , " and "<unk>"; other text passes unchanged unless it does the same."""
    if " @" not in line and " , " not in line and "<unk>" not in line:
        return line
    line = re.sub(r" @([-,.])@ ", r"\1", line).replace(" <unk>", "").replace("<unk> ", "")
    line = _QUOTED.sub(r'"\1"', line).replace(" 's", "'s").replace(" n't", "n't")
    return _SPACED.sub(lambda found: found[1] or found[2], line)


# -- questions ----------------------------------------------------------------------------------------------------


def _read_squad(path: Path) -> list[Group]:
    """SQuAD's nesting: data[].paragraphs[].{context, qas[].{question, answers[].text}}; a question without answer is
    left out."""
    try:
        document: Any = json.loads(_content(path))
        return [
            Group(str(article.get("title", "")).replace("_", " "), paragraph["context"].strip(), asked)
            for article in document["data"]
            for paragraph in article["paragraphs"]
            if (asked := _asked(paragraph["qas"]))
        ]
    except json.JSONDecodeError as error:
        raise FloatlensError(f"{path}: not valid JSON: {error.msg} at line {error.lineno}") from None
    except (KeyError, TypeError, AttributeError) as error:
        raise FloatlensError(
            f"{path}: not a SQuAD document ({error} is missing or of another kind); give SQuAD's JSON, .txt or .jsonl"
        ) from None


def _asked(entries: Any) -> tuple[tuple[str, str], ...]:
    return tuple(
        (" ".join(entry["question"].split()), entry["answers"][0]["text"].strip())
        for entry in entries
        if entry["answers"]
    )


def _read_questions(path: Path) -> list[Group]:
    """One group per question: its gold document (or its only one) and the first accepted answer."""
    groups = []
    for example in read_examples(path, need=("answers", "documents")):
        gold = [document for document in example.documents if document.is_gold] or example.documents[:1]
        groups.append(Group(gold[0].title, gold[0].text, ((example.question, example.answers[0]),)))
    return groups


def _split_articles(groups: list[Group]) -> tuple[list[Group], list[Group]]:
    """The last twentieth of the articles is held out as a whole; passages without a title count one by one."""
    names = list(dict.fromkeys(group.title or group.text for group in groups))
    held = set(names[len(names) - len(names) // _HELD_OUT :])
    kept = [group for group in groups if (group.title or group.text) not in held]
    return kept, [group for group in groups if (group.title or group.text) in held]
