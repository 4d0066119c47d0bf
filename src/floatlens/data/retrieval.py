"""BM25 over a corpus file (bm25s): an index that is built once and kept, and examples with the passages it finds.

The index is next to the corpus, in a folder named by a digest of the corpus, every setting and the version of bm25s, so
a change of any of these builds another one. Arrays and JSON only, no pickle.
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

from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.core.files import digest_of_file
from floatlens.data.corpus import Passage, PassageStore, read_corpus
from floatlens.data.examples import Example
from floatlens.data.matching import holds_answer
from floatlens.prompts import Document

__all__ = ["Found", "GoldRule", "Index", "best_first", "make_bm25", "make_tokenizer", "open_index", "retrieve"]

GoldRule: TypeAlias = Literal["answer", "provenance", "none"]

_SETTINGS = {"method": "lucene", "k1": 1.5, "b": 0.75}
_WORDS = r"(?u)\b\w\w+\b"
_STOPWORDS = "english"
_FORMAT = 1  # raise it when the files of an index change their meaning


@dataclass(frozen=True)
class Found:
    """A passage and its BM25 score."""

    passage: Passage
    score: float


class Index:
    """An index in a folder, from `open_index`. Example: `index.search("who built it", 5)[0].score`"""

    def __init__(self, folder: Path, facts: dict[str, Any]) -> None:
        self.folder, self.facts = folder, facts
        self._passages = PassageStore(folder)

    def __len__(self) -> int:
        return len(self._passages)

    @cached_property
    def _bm25(self) -> Any:
        import bm25s  # type: ignore[import-untyped]

        return bm25s.BM25.load(self.folder, mmap=True)

    @cached_property
    def _tokenizer(self) -> Any:
        made = make_tokenizer()
        made.word_to_id = self._bm25.vocab_dict
        return made

    def search(self, question: str, k: int) -> list[Found]:
        """The `k` best passages, best first; ties in the order of the corpus.

        There may be fewer: a passage that shares no word with the question is not found.
        """
        if k < 1:
            raise FloatlensError(f"k={k}: expected at least 1")
        (ids,) = self._tokenizer.streaming_tokenize([question], update_vocab="never", allow_empty=False)
        if not ids:
            return []
        scores = self._bm25.get_scores_from_ids(ids)
        return [Found(self._passages[number], float(scores[number])) for number in best_first(scores, k)]


def open_index(corpus: str | Path, *, cache: str | Path | None = None, skip_bad: bool = False) -> Index:
    """The index of a corpus file, built now unless it exists; `cache` is where indexes are kept [CORPUS.bm25]."""
    path = Path(corpus)
    try:
        facts = _facts(path, skip_bad)
    except OSError as error:
        raise FloatlensError(f"{path}: {error.strerror or error}; give a .jsonl or .jsonl.gz file") from None
    root = Path(cache) if cache is not None else path.with_name(f"{path.name}.bm25")
    name = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
    folder = root / name
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


def make_tokenizer() -> Any:
    """A tokenizer of bm25s with an empty vocabulary."""
    from bm25s.tokenization import Tokenizer  # type: ignore[import-untyped]

    return Tokenizer(lower=True, splitter=_WORDS, stopwords=_STOPWORDS, stemmer=None)


def make_bm25(tokenizer: Any, texts: Iterable[str]) -> Any:
    """BM25 of texts that are read once; the tokenizer learns their words."""
    import bm25s

    # arrays, because a list of Python numbers would take eight times as much
    ids = [array("i", found) for found in tokenizer.streaming_tokenize(texts, allow_empty=True)]
    made = bm25s.BM25(**_SETTINGS, backend="numpy", csc_backend="scipy")
    made.index((ids, tokenizer.get_vocab_dict()), show_progress=False)
    return made


def best_first(scores: NDArray[np.float32], k: int) -> list[int]:
    """The numbers of the `k` best with a score above 0; ties by number.

    bm25s does not say which of several equal passages it returns; a repeated run must return the same.
    """
    least = np.partition(scores, -k)[-k] if k < len(scores) else 0.0
    among = np.flatnonzero((scores >= least) & (scores > 0))
    best: list[int] = among[np.lexsort((among, -scores[among]))][:k].tolist()
    return best


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
        passages = PassageStore.write(beside, read_corpus(corpus, skip_bad=skip_bad))
        texts = (f"{passage.title} {passage.text}" for passage in passages)
        make_bm25(make_tokenizer(), texts).save(beside, show_progress=False)
        (beside / "index.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        if not (folder / "index.json").is_file():  # another run may have been faster
            shutil.rmtree(folder, ignore_errors=True)
            beside.rename(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
