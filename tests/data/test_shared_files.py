"""Original files of public sets open with exactly the records, answers, documents and gold that the raw JSON holds.

The files are not part of the repository; `FLOATLENS_DATA` names their folder.
"""

from __future__ import annotations

import gzip
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from floatlens.data import open_data
from floatlens.evaluation.metrics import score

FOLDER = Path(os.environ.get("FLOATLENS_DATA", Path(__file__).parents[3] / "shared" / "data"))
Numbers = tuple[int, int, int, int]


def text_of(name: str) -> str:
    raw = (FOLDER / name).read_bytes()
    return (gzip.decompress(raw) if name.endswith(".gz") else raw).decode()


def lines(name: str) -> list[Any]:
    return [json.loads(line) for line in text_of(name).split("\n") if line.strip()]


def document(name: str) -> Any:
    return json.loads(text_of(name))


def multihop(records: list[Any]) -> Numbers:
    gold = sum(title in {fact[0] for fact in one["supporting_facts"]} for one in records for title, _ in one["context"])
    return len(records), sum(bool(one["answer"]) for one in records), sum(len(one["context"]) for one in records), gold


def nq_oracle(records: list[Any]) -> Numbers:
    passages = [passage for one in records for passage in one["ctxs"]]
    return len(records), sum(len(one["answers"]) for one in records), len(passages), sum(p["isgold"] for p in passages)


def squad(whole: Any) -> Numbers:
    qas = [qa for article in whole["data"] for paragraph in article["paragraphs"] for qa in paragraph["qas"]]
    return len(qas), sum(len({answer["text"] for answer in qa["answers"]}) for qa in qas), len(qas), len(qas)


def musique(records: list[Any]) -> Numbers:
    paragraphs = [paragraph for one in records for paragraph in one["paragraphs"]]
    answers = sum(len({one["answer"], *one["answer_aliases"]}) for one in records)
    return len(records), answers, len(paragraphs), sum(paragraph["is_supporting"] for paragraph in paragraphs)


def kilt(records: list[Any]) -> Numbers:
    return len(records), sum(len({out["answer"] for out in one["output"]}) for one in records), 0, 0


def rgb(records: list[Any]) -> Numbers:
    answers = 0
    for one in records:
        given = one["answer"] if isinstance(one["answer"], list) else [one["answer"]]
        answers += math.prod(len(set(part)) if isinstance(part, list) else 1 for part in given)
    gold = sum(len(one["positive"]) for one in records)
    return len(records), answers, gold + sum(len(one["negative"]) for one in records), gold


def ramdocs(records: list[Any]) -> Numbers:
    documents = [one for record in records for one in record["documents"]]
    gold = sum(one["type"] == "correct" for one in documents)
    return len(records), sum(len(one["gold_answers"]) for one in records), len(documents), gold


def timeqa(pages: list[Any]) -> Numbers:
    asked = [(page, spans) for page in pages for _, spans in page["questions"]]
    answers = sum(len({span["answer"] for span in spans} - {""}) for _, spans in asked)
    gold = sum(len({span["para"] for span in spans if span["answer"]}) for _, spans in asked)
    return len(asked), answers, sum(len(page["paras"]) for page, _ in asked), gold


def pubmedqa(by_id: dict[str, Any]) -> Numbers:
    contexts = sum(len(one["CONTEXTS"]) for one in by_id.values())
    return len(by_id), sum("final_decision" in one for one in by_id.values()), contexts, contexts


FILES: dict[str, tuple[str, Callable[[Any], Any], Callable[[Any], Numbers], Numbers]] = {
    "nq-open-oracle-1655.jsonl.gz": ("litm", lines, nq_oracle, (1655, 2901, 1655, 1655)),
    "nq-open-dev.jsonl.gz": (
        "qa",
        lines,
        lambda records: (len(records), sum(len(one["answer"]) for one in records), 0, 0),
        (3610, 6490, 0, 0),
    ),
    "squad-train-11877.json.gz": ("squad", document, squad, (11877, 11877, 11877, 11877)),
    "hotpotqa-dev-200.jsonl.gz": ("hotpotqa", lines, multihop, (200, 200, 1992, 400)),
    "musique-dev-200.jsonl.gz": ("musique", lines, musique, (200, 314, 4000, 478)),
    "2wiki-train-500.json.gz": ("2wiki", document, multihop, (500, 500, 5000, 1184)),
    "kilt-hotpotqa-600.jsonl.gz": ("kilt", lines, kilt, (600, 600, 0, 0)),
    "rgb-en_fact.json": ("rgb", lines, rgb, (100, 288, 989, 395)),
    "ramdocs-250.jsonl.gz": ("ramdocs", lines, ramdocs, (250, 400, 1121, 718)),
    "timeqa-257pages.json.gz": ("timeqa", document, timeqa, (989, 887, 54892, 859)),
    "gsm8k-test.jsonl.gz": (
        "gsm8k",
        lines,
        lambda records: (len(records), sum("#### " in one["answer"] for one in records), 0, 0),
        (1319, 1319, 0, 0),
    ),
    "humaneval.jsonl.gz": ("humaneval", lines, lambda records: (len(records), 0, 0, 0), (164, 0, 0, 0)),
    "pubmedqa-1000.json.gz": ("pubmedqa", document, pubmedqa, (1000, 1000, 3358, 3358)),
    "mt-bench-questions.jsonl": ("mtbench", lines, lambda records: (len(records), 0, 0, 0), (80, 0, 0, 0)),
}


def there(name: str) -> Path:
    path = FOLDER / name
    if not path.is_file():
        pytest.skip(f"{name} is not there; point FLOATLENS_DATA to the folder of the original files")
    return path


@pytest.mark.parametrize("name", FILES)
def test_an_original_file(name: str) -> None:
    format, raw, count, stated = FILES[name]
    data = open_data(there(name))
    found = data.counts
    assert data.format == format
    assert (data.bad, data.left_out) == (0, 0)
    assert (data.count, found.answers, found.total_documents, found.total_gold) == count(raw(name)) == stated


@pytest.mark.parametrize(("part", "stated", "left_out"), [("valid", 1664, 797), ("test", 1862, 1029)])
def test_plain_text(part: str, stated: int, left_out: int) -> None:
    name = f"wikitext-2-{part}.txt.gz"
    data = open_data(there(name))
    paragraphs = [line for line in text_of(name).split("\n") if line.strip()]
    kept = [line for line in paragraphs if not line.startswith(" = ") and len(line.split()) >= 16]
    assert data.format == "text"
    assert data.count == data.counts.passages == len(kept) == stated
    assert data.left_out == len(paragraphs) - len(kept) == left_out
    assert [example.passage for example in data.examples()] == [line.strip() for line in kept]


def test_what_the_files_are_taken_for() -> None:
    data = open_data(there("hotpotqa-dev-200.jsonl.gz"))
    assert data.headline() == "HotpotQA, distractor setting: 200 questions, 199 with 10 documents, 2 gold each"
    data = open_data(there("timeqa-257pages.json.gz"))
    assert data.notes() == ["159 of 989 questions have no accepted answer (159 marked as unanswerable)"]
    data = open_data(there("ramdocs-250.jsonl.gz"))
    assert data.counts.types == {"correct": 718, "noise": 248, "misinfo": 155}
    assert data.notes() == ["3 of 250 questions have documents, none of them gold"]


def test_what_later_work_needs() -> None:
    kept = next(open_data(there("rgb-en_fact.json")).examples())
    assert (kept.answers, kept.wrong_answers) == (["Tampa, Florida"], ["Glendale, Arizona"])
    assert len(kept.wrong_documents) == sum(document.is_gold for document in kept.documents)
    kept = next(open_data(there("gsm8k-test.jsonl.gz")).examples())
    assert kept.answers == ["18"]
    assert (kept.target or "").endswith("\n#### 18")


def test_how_answers_are_judged_and_what_is_wrong() -> None:
    kinds = {
        "hotpotqa-dev-200.jsonl.gz": {"text": 183, "yes_no": 17},
        "2wiki-train-500.json.gz": {"text": 334, "yes_no": 166},
        "kilt-hotpotqa-600.jsonl.gz": {"text": 557, "yes_no": 43},
        "pubmedqa-1000.json.gz": {"yes_no_maybe": 1000},
        "gsm8k-test.jsonl.gz": {"number": 1319},
        "ramdocs-250.jsonl.gz": {"text": 250},
        "rgb-en_fact.json": {"text": 100},
    }
    for name, wanted in kinds.items():
        assert open_data(there(name)).counts.kinds == wanted, name
    raw = lines("ramdocs-250.jsonl.gz")
    found = open_data(there("ramdocs-250.jsonl.gz")).counts
    assert found.wrong_answers == sum(bool(one["wrong_answers"]) for one in raw) == 150
    misinfo = sum(document["type"] == "misinfo" for one in raw for document in one["documents"])
    assert found.wrong_documents == misinfo == 155
    raw, found = lines("rgb-en_fact.json"), open_data(there("rgb-en_fact.json")).counts
    assert (found.wrong_answers, found.wrong_documents) == (100, sum(len(one["positive_wrong"]) for one in raw))


def test_the_worked_solutions_of_gsm8k_are_right() -> None:
    """The target ends in the final number, so its last number is the accepted one, by the definition of accuracy."""
    examples = list(open_data(there("gsm8k-test.jsonl.gz")).examples())
    assert all(score(one.target or "", one.answers, kind=one.answer_kind).accuracy == 1 for one in examples)
