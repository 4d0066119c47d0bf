"""BM25: scores against the formula worked out here, a cache that never serves another corpus, and what is recorded."""

from __future__ import annotations

import gzip
import json
import math
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from floatlens.core.errors import FloatlensError, FloatlensWarning
from floatlens.data import Example, open_index, read_examples, retrieve
from floatlens.data.retrieval import read_corpus

FIXTURES = Path(__file__).parent / "fixtures"
CORPUS = FIXTURES / "corpus.jsonl"
STOPWORDS = {"the", "of", "is", "by", "a", "with"}


def bm25(query: list[str], documents: list[list[str]], k1: float = 1.5, b: float = 0.75) -> list[float]:
    """Lucene's variant, term by term."""
    mean = sum(map(len, documents)) / len(documents)
    scores = []
    for words in documents:
        counts, score = Counter(words), 0.0
        for term in query:
            n = sum(term in other for other in documents)
            idf = math.log(1 + (len(documents) - n + 0.5) / (n + 0.5))
            score += idf * counts[term] / (counts[term] + k1 * (1 - b + b * len(words) / mean))
        scores.append(score)
    return scores


def words_of(text: str) -> list[str]:
    split = "".join(c if c.isalnum() else " " for c in text.lower()).split()
    return [word for word in split if len(word) > 1 and word not in STOPWORDS]


def test_passages_of_every_spelling() -> None:
    passages = list(read_corpus(CORPUS))
    assert [p.id for p in passages] == ["c0", "c1", "c2", "c3", "4", "line-6"]
    assert [p.title for p in passages] == ["Orrin", "Lamps", "", "", "Hest", ""]
    assert passages[4].text == "Hest is a land with one river."
    assert (passages[0].wikipedia_id, passages[0].line) == ("101", 1)


def test_scores_are_those_of_the_formula_and_come_in_order(tmp_path: Path) -> None:
    index = open_index(CORPUS, cache=tmp_path)
    documents = [words_of(f"{p.title} {p.text}") for p in read_corpus(CORPUS)]
    wanted = bm25(words_of("Which river: lighthouse lamp?"), documents)
    found = index.search("Which river: lighthouse lamp?", 6)
    order = sorted((i for i in range(6) if wanted[i] > 0), key=lambda i: (-wanted[i], i))
    assert [one.passage.line - 1 for one in found] == order
    assert [one.score for one in found] == pytest.approx([wanted[i] for i in order], rel=1e-5)


def test_equal_passages_come_in_the_order_of_the_corpus(tmp_path: Path) -> None:
    index = open_index(CORPUS, cache=tmp_path)
    assert [one.passage.id for one in index.search("green flag", 2)] == ["c3", "line-6"]
    assert [one.passage.id for one in index.search("green flag", 1)] == ["c3"]


@pytest.mark.parametrize("question", ["zebra", "the of is", "?", "a"])
def test_what_shares_no_word_is_not_found(tmp_path: Path, question: str) -> None:
    assert open_index(CORPUS, cache=tmp_path).search(question, 3) == []


def test_more_than_there_are_and_less_than_one(tmp_path: Path) -> None:
    index = open_index(CORPUS, cache=tmp_path)
    assert len(index) == 6
    assert len(index.search("Tolm", 100)) == 3
    with pytest.raises(FloatlensError, match="k=0"):
        index.search("Tolm", 0)


def test_the_index_is_kept_and_never_serves_another_corpus(tmp_path: Path) -> None:
    corpus = tmp_path / "c.jsonl"
    corpus.write_text('{"text": "old words"}\n')
    first = open_index(corpus)
    assert first.folder.parent == tmp_path / "c.jsonl.bm25"
    made = (first.folder / "index.json").stat().st_mtime_ns
    again = open_index(corpus)
    assert (again.folder, (again.folder / "index.json").stat().st_mtime_ns) == (first.folder, made)
    corpus.write_text('{"text": "new words"}\n')
    changed = open_index(corpus)
    assert changed.folder != first.folder
    assert changed.search("words", 1)[0].passage.text == "new words"


def test_no_pickle_and_no_leftovers(tmp_path: Path) -> None:
    folder = open_index(CORPUS, cache=tmp_path).folder
    assert {file.suffix for file in folder.iterdir()} == {".npy", ".json", ".jsonl"}
    for file in folder.glob("*.npy"):
        np.load(file, allow_pickle=False)
    assert list(tmp_path.iterdir()) == [folder]


def test_an_index_that_was_not_finished_is_made_again(tmp_path: Path) -> None:
    folder = open_index(CORPUS, cache=tmp_path).folder
    (folder / "index.json").unlink()
    (folder / "starts.npy").write_bytes(b"torn")
    assert open_index(CORPUS, cache=tmp_path).search("Vey", 1)[0].passage.id == "c2"


def test_gzip_gives_the_same(tmp_path: Path) -> None:
    packed = tmp_path / "c.gz"
    packed.write_bytes(gzip.compress(CORPUS.read_bytes()))
    assert open_index(packed).search("river", 3) == open_index(CORPUS, cache=tmp_path).search("river", 3)


def test_what_is_found_is_recorded_with_scores(tmp_path: Path) -> None:
    index = open_index(CORPUS, cache=tmp_path)
    asked = Example(id="q", question="Who keeps the lighthouse of Orrin?", answers=["Mara Dell"], meta={"from": "us"})
    (example,) = retrieve([asked], index, k=2)
    assert [(d.title, d.is_gold) for d in example.documents] == [("Orrin", True), ("Lamps", False)]
    record = example.meta["retrieval"]
    assert [(one["id"], one["line"]) for one in record["found"]] == [("c0", 1), ("c1", 2)]
    assert record["found"][0]["score"] > record["found"][1]["score"] > 0
    assert (record["k"], record["method"], record["corpus_sha256"]) == (2, "lucene", index.facts["corpus_sha256"])
    assert (example.meta["from"], example.meta["gold_by"]) == ("us", "answer")
    assert Example.model_validate_json(example.model_dump_json()) == example


def test_gold_by_provenance_and_not_at_all(tmp_path: Path) -> None:
    index = open_index(CORPUS, cache=tmp_path)
    asked = next(read_examples(FIXTURES / "kilt.jsonl")).model_copy(update={"question": "lighthouse of Orrin, Tolm"})
    (example,) = retrieve([asked], index, k=3, gold="provenance")
    assert [(d.title, d.is_gold) for d in example.documents][:2] == [("Orrin", True), ("Lamps", True)]
    (example,) = retrieve([asked], index, k=3, gold="none")
    assert not any(d.is_gold for d in example.documents)
    with pytest.raises(FloatlensError, match='no rule for gold documents "answers"; did you mean "answer"'):
        list(retrieve([asked], index, gold="answers"))  # type: ignore[arg-type]


def test_given_documents_are_replaced_and_none_found_is_none(tmp_path: Path) -> None:
    asked = next(read_examples(FIXTURES / "plain.jsonl")).model_copy(update={"question": "zebra?"})
    (example,) = retrieve([asked], open_index(CORPUS, cache=tmp_path))
    assert (example.documents, example.meta["retrieval"]["found"]) == ([], [])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not valid JSON"),
        ('{"title": "T"}', "text is missing: expected it in text, contents or segment"),
        ('{"text": ["p1"]}', "text: expected a text, found a list"),
        ('{"text": " "}', "text is empty"),
        ('{"text": "t", "title": 5}', "title: expected a text, found a number"),
        ('{"text": "t", "id": {}}', "id: expected a text or a number, found an object"),
    ],
)
def test_a_bad_passage_stops_or_is_skipped(tmp_path: Path, line: str, message: str) -> None:
    corpus = tmp_path / "c.jsonl"
    corpus.write_text(f'{{"text": "good words"}}\n{line}\n')
    with pytest.raises(FloatlensError) as caught:
        open_index(corpus)
    assert f"{corpus}:2: {message}" in str(caught.value)
    assert list((tmp_path / "c.jsonl.bm25").iterdir()) == []
    with pytest.warns(FloatlensWarning, match="1 bad record skipped"):
        assert len(open_index(corpus, skip_bad=True)) == 1


def test_a_corpus_that_is_not_there_empty_or_beside_which_nothing_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(FloatlensError, match=r"No such file.*give a \.jsonl"):
        open_index(tmp_path / "absent.jsonl")
    empty = tmp_path / "empty.jsonl"
    empty.write_text("\n")
    with pytest.raises(FloatlensError, match="no passage in it"):
        open_index(empty)
    (tmp_path / "file").write_text("")
    with pytest.raises(FloatlensError, match=r"the index cannot be written .*give another folder as cache"):
        open_index(CORPUS, cache=tmp_path / "file")


# -- findings of the fuzzer -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["id", "wikipedia_id"])
def test_half_a_character_in_a_name_is_refused_before_the_index_is_written(field: str, tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text(json.dumps({field: "\ud800", "text": "A lamp."}) + "\n")
    with pytest.raises(FloatlensError, match=rf"corpus\.jsonl:1: {field} holds half a character"):
        open_index(path)
    with pytest.raises(FloatlensError, match="no good passage"), pytest.warns(FloatlensWarning):
        open_index(path, skip_bad=True)


def test_a_page_that_is_no_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"wikipedia_id": ["x"], "text": "A lamp."}\n')
    with pytest.raises(FloatlensError, match="wikipedia_id: expected a text or a number, found a list"):
        open_index(path)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "corpus.jsonl")
    with pytest.raises(FloatlensError, match="not a regular file but a pipe"):
        open_index(tmp_path / "corpus.jsonl")
