"""BM25 retrieval (bm25s): a corpus of passages, an index that is built once and kept, and examples with what it finds.

A corpus is a file of JSON lines. A passage has its text in `text`, `contents` or `segment`, and may have a title and an
id, which need not be unique: a passage is identified by its line. The index is next to the corpus, in a folder named by
a digest of the corpus, every setting and the version of bm25s, so a change of any of these builds another one. Arrays
and JSON only, no pickle.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from floatlens.core.borders import refuse_special
from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.core.files import digest_of_file
from floatlens.data.examples import Example
from floatlens.data.fields import Record, bad, kind, text_of
from floatlens.data.matching import holds_answer
from floatlens.data.reader import Tally, read_records
from floatlens.prompts import Document

__all__ = [
    "K1",
    "B",
    "Bm25",
    "Found",
    "GoldRule",
    "Index",
    "Passage",
    "best_of",
    "make_tokenizer",
    "open_index",
    "read_corpus",
    "retrieve",
]

GoldRule: TypeAlias = Literal["answer", "provenance", "none"]

K1, B = 1.5, 0.75
_SETTINGS = {"method": "lucene", "k1": K1, "b": B}
_WORDS, _STOPWORDS = r"(?u)\b\w\w+\b", "english"
_PASSAGES, _STARTS = "passages.jsonl", "starts.npy"  # a copy, as a gzipped corpus has no random access
_FORMAT = 1  # raise it when the files of an index change their meaning


class Passage(BaseModel):
    """One passage and its line in the corpus file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    line: int
    id: str
    title: str = ""
    text: str
    wikipedia_id: str | None = None


def read_corpus(path: str | Path, *, skip_bad: bool = False) -> Iterator[Passage]:
    """Stream the passages of a file; bad lines as in `read_examples`. Example: `next(read_corpus("wiki.jsonl.gz"))`"""
    tally = Tally(skip_bad)
    yield from read_records(path, _passage, tally)
    tally.finish(path, "passage", stacklevel=2)


def _passage(record: Record, number: int) -> Passage:
    where = record.first_given("text", "contents", "segment")
    if where is None:
        bad("text is missing: expected it in text, contents or segment")
    text = record.text(where)
    titled = record.first_given("title", "wikipedia_title")
    title = record.text(titled) if titled and record[titled] != "" else ""
    if where == "contents" and not titled:
        # FlashRAG and Pyserini write the title as the first line, often in quotes
        head, _, tail = text.partition("\n")
        if tail.strip():
            title, text = head.strip().strip('"'), tail
    named = record.first_given("id", "_id", "docid")
    given = f"line-{number}" if named is None else record[named]
    if isinstance(given, bool) or not isinstance(given, str | int):
        bad(f"{named}: expected a text or a number, found {kind(given)}")
    page = record.get("wikipedia_id")
    if page is not None and (isinstance(page, bool) or not isinstance(page, str | int | float)):
        bad(f"wikipedia_id: expected a text or a number, found {kind(page)}")
    return Passage(
        line=number,
        id=_whole(str(given), str(named)),
        title=title,
        text=text,
        wikipedia_id=None if page is None else _whole(str(page), "wikipedia_id"),
    )


def _whole(name: str, field: str) -> str:
    """A name, which may be empty, without half characters: it is written into the index."""
    return text_of(name, field) if name.strip() else name


@dataclass(frozen=True)
class Found:
    """A passage and its BM25 score."""

    passage: Passage
    score: float


class Bm25:
    """BM25 scores of texts by their number. Example: `Bm25.of(["A tower.", "A bridge."]).best("Which tower?", 1)`"""

    def __init__(self, model: Any) -> None:
        self.model, self._tokenizer = model, make_tokenizer()
        self._tokenizer.word_to_id = model.vocab_dict

    @classmethod
    def of(cls, texts: Iterable[str]) -> Bm25:
        """Of texts that are read once."""
        import bm25s  # type: ignore[import-untyped]

        tokenizer = make_tokenizer()
        # arrays, because a list of Python numbers would take eight times as much
        ids = [array("i", found) for found in tokenizer.streaming_tokenize(texts, allow_empty=True)]
        model = bm25s.BM25(**_SETTINGS, backend="numpy", csc_backend="scipy")
        model.index((ids, tokenizer.get_vocab_dict()), show_progress=False)
        return cls(model)

    def best(self, question: str, k: int) -> list[tuple[int, float]]:
        """Numbers and scores of the `k` best texts that share a word with the question, best first; ties by number.

        bm25s does not say which of several equal texts it returns; a repeated run must return the same.
        """
        (ids,) = self._tokenizer.streaming_tokenize([question], update_vocab="never", allow_empty=False)
        if not ids:
            return []
        return best_of(self.model.get_scores_from_ids(ids), k)


def best_of(scores: NDArray[np.floating[Any]], k: int) -> list[tuple[int, float]]:
    """Numbers and scores of the `k` best texts with a score above 0, best first; ties by number."""
    least = np.partition(scores, -k)[-k] if k < len(scores) else 0.0
    among = np.flatnonzero((scores >= least) & (scores > 0))
    best = among[np.lexsort((among, -scores[among]))][:k]
    return list(zip(best.tolist(), scores[best].tolist(), strict=True))


def make_tokenizer() -> Any:
    """Words as all indexes here see them."""
    from bm25s.tokenization import Tokenizer  # type: ignore[import-untyped]

    return Tokenizer(lower=True, splitter=_WORDS, stopwords=_STOPWORDS, stemmer=None)


class Index:
    """An index in a folder, from `open_index`. Example: `index.search("who built it", 5)[0].score`"""

    def __init__(self, folder: Path, facts: dict[str, Any]) -> None:
        self.folder, self.facts = folder, facts
        self._starts = np.load(folder / _STARTS, mmap_mode="r", allow_pickle=False)

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, number: int) -> Passage:
        with (self.folder / _PASSAGES).open("rb") as file:
            file.seek(int(self._starts[number]))
            return Passage.model_validate_json(file.readline())

    @cached_property
    def _bm25(self) -> Bm25:
        import bm25s

        return Bm25(bm25s.BM25.load(self.folder, mmap=True))

    def search(self, question: str, k: int) -> list[Found]:
        """The `k` best passages, best first; fewer if fewer share a word with the question."""
        if k < 1:
            raise FloatlensError(f"k={k}: expected at least 1")
        return [Found(self[number], score) for number, score in self._bm25.best(question, k)]


def open_index(corpus: str | Path, *, cache: str | Path | None = None, skip_bad: bool = False) -> Index:
    """The index of a corpus file, built now unless it exists; `cache` is where indexes are kept [CORPUS.bm25]."""
    path = Path(corpus)
    refuse_special(path)
    try:
        facts = _facts(path, skip_bad)
    except OSError as error:
        raise FloatlensError(f"{path}: {error.strerror or error}; give a .jsonl or .jsonl.gz file") from None
    root = Path(cache) if cache is not None else path.with_name(f"{path.name}.bm25")
    folder = root / hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
    if not (folder / "index.json").is_file():
        try:
            _build(path, folder, facts, skip_bad)
        except OSError as error:
            raise FloatlensError(
                f"{folder}: the index cannot be written ({error.strerror or error}); give another folder as cache"
            ) from error
    return Index(folder, facts)


def retrieve(examples: Iterable[Example], index: Index, *, k: int = 5, gold: GoldRule = "answer") -> Iterator[Example]:
    """Examples with the `k` passages found for their question as documents, instead of those they had.

    Gold are the passages that hold an accepted answer (`answer`), that are on a page named by the example's provenance
    (`provenance`), or none. `meta["retrieval"]` records what was found, with scores, and `meta["gold_by"]` the rule.
    """
    if gold not in get_args(GoldRule):
        raise FloatlensError(f'no rule for gold documents "{gold}"{did_you_mean(gold, get_args(GoldRule))}')
    for example in examples:
        found = index.search(example.question, k)
        documents = [
            Document(title=one.passage.title, text=one.passage.text, is_gold=_is_gold(one.passage, example, gold))
            for one in found
        ]
        record = {
            **index.facts,
            "k": k,
            "found": [{"id": f.passage.id, "line": f.passage.line, "score": round(f.score, 6)} for f in found],
        }
        meta = example.meta | {"retrieval": record, "gold_by": gold}
        yield example.model_copy(update={"documents": documents, "meta": meta})


def _is_gold(passage: Passage, example: Example, rule: GoldRule) -> bool:
    if rule == "answer":
        return holds_answer(passage.text, example.answers)
    pages = example.meta.get("provenance", []) if rule == "provenance" else []
    return any(_is_on(page, passage) for page in pages)


def _is_on(page: Mapping[str, Any], passage: Passage) -> bool:
    """Whether a passage is on a page of KILT's provenance: by wikipedia_id where both have one, else by title."""
    if "wikipedia_id" in page and passage.wikipedia_id is not None:
        return str(page["wikipedia_id"]) == passage.wikipedia_id
    return bool(page.get("title")) and page["title"] == passage.title


def _facts(corpus: Path, skip_bad: bool) -> dict[str, Any]:
    """Everything that determines the result of a search."""
    import bm25s

    return {
        "index": _FORMAT,
        "bm25s": bm25s.__version__,
        "corpus_sha256": digest_of_file(corpus),
        "skip_bad": skip_bad,
        "words": _WORDS,
        "stopwords": _STOPWORDS,
        **_SETTINGS,
    }


def _build(corpus: Path, folder: Path, facts: dict[str, Any], skip_bad: bool) -> None:
    """Built under another name and renamed when complete, so a killed run leaves no partial index."""
    beside = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    try:
        Bm25.of(_stored(beside, read_corpus(corpus, skip_bad=skip_bad))).model.save(beside, show_progress=False)
        (beside / "index.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        if not (folder / "index.json").is_file():  # another run may have been faster
            shutil.rmtree(folder, ignore_errors=True)
            beside.rename(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _stored(folder: Path, passages: Iterable[Passage]) -> Iterator[str]:
    """The texts of passages that are stored on the way; complete after the last one."""
    starts = []
    with (folder / _PASSAGES).open("wb") as file:
        for passage in passages:
            starts.append(file.tell())
            file.write(json.dumps(passage.model_dump(exclude_defaults=True), ensure_ascii=False).encode() + b"\n")
            yield f"{passage.title} {passage.text}"
    np.save(folder / _STARTS, np.asarray(starts, dtype=np.int64), allow_pickle=False)
