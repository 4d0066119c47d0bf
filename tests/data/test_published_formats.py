"""The formats of published question sets: what each fixture gives, worked out by hand, and what is kept for later."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from floatlens.core.errors import FloatlensError
from floatlens.data import Data, Example, open_data

FIXTURES = Path(__file__).parent / "fixtures"


def opened(name: str) -> tuple[Data, list[Example]]:
    data = open_data(next(path for path in FIXTURES.iterdir() if path.stem == name))
    assert data.format == name
    return data, list(data.examples())


def written(folder: Path, *records: Any) -> Data:
    path = folder / "x.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return open_data(path)


def gold(example: Example) -> list[bool]:
    return [document.is_gold for document in example.documents]


def test_hotpotqa() -> None:
    data, (first, second) = opened("hotpotqa")
    assert (first.id, first.answers, gold(first)) == ("h1", ["Hest"], [False, True, True])
    assert first.documents[2].title == "Orrin"
    assert first.documents[2].text == "Orrin has a lighthouse. Orrin is in Hest."
    assert first.meta["supporting_facts"] == [["Mara Dell", 0], ["Orrin", 1]]
    assert (second.answers, gold(second), second.meta["level"]) == (["no"], [True, True], "easy")
    assert data.headline() == "HotpotQA, distractor setting: 2 questions, 2 to 3 documents, 2 gold each"
    assert data.reason == 'it has "context" with titles and sentences'


def test_hotpotqa_with_retrieved_paragraphs_names_the_gold_that_is_missing(tmp_path: Path) -> None:
    record = {"question": "Who?", "answer": "Ann", "supporting_facts": [["A", 0], ["B", 1]], "context": [["A", ["a"]]]}
    data = written(tmp_path, record)
    assert data.headline() == "HotpotQA, fullwiki setting: 1 question, 1 document each, 1 gold each"
    assert next(data.examples()).meta["missing_gold"] == ["B"]
    assert data.notes() == ["1 of 1 questions has a gold document that is not among the documents"]


def test_2wiki_also_with_its_lists_as_json_text(tmp_path: Path) -> None:
    _, (first, second) = opened("2wiki")
    assert (first.id, gold(first), gold(second)) == ("w1", [False, True, True], [True, True])
    assert first.meta["evidences"] == [["Mara Dell", "keeps", "Orrin"], ["Orrin", "land", "Hest"]]
    record = json.loads((FIXTURES / "2wiki.json").read_text())[0]
    packed = {name: json.dumps(record[name]) for name in ("context", "supporting_facts", "evidences")}
    (again,) = written(tmp_path, record | packed).examples()
    assert again.documents == first.documents


def test_musique() -> None:
    data, (first, second) = opened("musique")
    assert (first.id, first.answers, gold(first)) == ("2hop__1_2", ["Hest", "land of Hest"], [False, True, True])
    assert (second.id, second.answers, gold(second)) == ("2hop__1_2-unanswerable", [], [False, False])
    assert second.meta["withheld_answers"] == ["Hest"]
    assert data.notes() == ["1 of 2 questions has no accepted answer (1 marked as unanswerable)"]


def test_squad() -> None:
    data, (first, second, third) = opened("squad")
    assert (first.id, first.answers, gold(first)) == ("s1", ["Mara Dell", "Dell"], [True])
    assert (second.answers, gold(second), second.meta["unanswerable"]) == ([], [False], True)
    assert second.wrong_answers == ["Mara Dell"]
    assert (third.documents[0].title, third.documents[0].text) == ("Tolm", "Tolm lies on the Vey.")
    assert data.notes() == ["1 of 3 questions has no accepted answer (1 marked as unanswerable)"]


def test_squad_with_the_columns_of_hugging_face(tmp_path: Path) -> None:
    shared = {"title": "Tolm", "context": "Tolm lies on the Vey."}
    answers = {"text": ["the Vey", "the Vey"], "answer_start": [13, 13]}
    known = shared | {"id": "a", "question": "Where?", "answers": answers}
    open_question = shared | {"id": "b", "question": "Why?", "answers": {"text": [], "answer_start": []}}
    first, second = written(tmp_path, known, open_question).examples()
    assert (first.answers, gold(first)) == (["the Vey"], [True])
    assert (second.answers, second.meta["unanswerable"]) == ([], True)


def test_timeqa() -> None:
    _, (first, second, third) = opened("timeqa")
    assert (first.id, first.answers) == ("/wiki/Mara_Dell#P39/0", ["the lighthouse"])
    assert (gold(first), first.meta["years_asked"]) == ([False, True, False], [1871, 1875])
    assert (second.answers, second.meta["unanswerable"], gold(second)) == ([], True, [False] * 3)
    assert (third.answers, gold(third)) == (["Ivo Rast", "Rast"], [True, True])
    assert third.documents[0].title == "Tolm (town)"


def test_pubmedqa(tmp_path: Path) -> None:
    _, (first, second) = opened("pubmedqa")
    assert (first.id, first.answers, second.answers) == ("101", ["yes"], ["maybe"])
    assert [(d.title, d.is_gold) for d in first.documents] == [("BACKGROUND", True), ("RESULTS", True)]
    assert (first.meta["date"], first.meta["solution"]) == ("1902", "Lamp oil keeps most keepers awake.")
    columns = {"contexts": ["It was measured."], "labels": ["METHODS"], "meshes": []}
    record = {"pubid": 7, "question": "Is it?", "context": columns, "long_answer": "It is.", "final_decision": "no"}
    (again,) = written(tmp_path, record).examples()
    assert (again.id, again.answers, again.documents[0].title) == ("7", ["no"], "METHODS")
    with pytest.raises(FloatlensError, match="final_decision: expected yes, no or maybe, found 'perhaps'"):
        written(tmp_path, record | {"final_decision": "perhaps"})


def test_gsm8k(tmp_path: Path) -> None:
    _, (first, second) = opened("gsm8k")
    assert (first.answers, second.answers) == (["12"], ["1,250"])
    assert first.target == "There are 3*4=<<3*4=12>>12 wicks.\n#### 12"
    assert first.meta == {"solution": "There are 3*4=<<3*4=12>>12 wicks."}
    with pytest.raises(FloatlensError, match=r'x\.jsonl:2: answer: expected a worked solution that ends in "#### NUM'):
        written(tmp_path, {"question": "?", "answer": "1\n#### 1"}, {"question": "?", "answer": "2"})


def test_humaneval_and_mtbench_have_no_accepted_answers() -> None:
    data, (only,) = opened("humaneval")
    assert (only.id, only.target, only.meta["entry_point"]) == ("Lamps/0", "    return 4 * lamps\n", "wicks")
    assert "candidate(3) == 12" in only.meta["test"]
    assert data.notes() == ["no accepted answers, so answers cannot be scored"]
    data, (first, second) = opened("mtbench")
    assert (first.id, first.question) == ("1", "Describe the lighthouse of Orrin.")
    assert (second.meta["later_turns"], second.meta["reference"]) == (["And 5 lamps?"], ["12", "20"])
    assert data.notes() == ["no accepted answers, so answers cannot be scored"]


def test_ramdocs(tmp_path: Path) -> None:
    _, (only,) = opened("ramdocs")
    assert (only.answers, only.wrong_answers) == (["Mara Dell", "Ivo Rast"], ["Una Holt"])
    assert only.meta["document_types"] == ["correct", "correct", "misinfo", "noise"]
    assert only.meta["document_answers"] == ["Mara Dell", "Ivo Rast", "Una Holt", None]
    assert gold(only) == [True, True, False, False]
    record = {"question": "?", "gold_answers": ["a"], "documents": [{"text": "t", "type": "correkt", "answer": "a"}]}
    with pytest.raises(
        FloatlensError, match=r'documents\[0\]\.type: expected correct, misinfo, noise, found "correkt"'
    ):
        written(tmp_path, record)


def test_dpr_and_fid(tmp_path: Path) -> None:
    _, (first, _) = opened("dpr")
    assert [(d.title, d.is_gold) for d in first.documents] == [("Orrin", True), ("Lamps", False), ("Tolm", False)]
    assert first.meta["document_types"] == ["positive", "hard_negative", "negative"]
    passages = [{"title": "A", "text": "a", "score": "81.5"}, {"title": "B", "text": "b", "score": 80}]
    data = written(tmp_path, {"id": 1, "question": "?", "target": "a", "answers": ["a"], "ctxs": passages})
    (only,) = data.examples()
    assert (only.target, only.meta["document_scores"]) == ("a", [81.5, 80.0])
    assert data.notes() == ['no document is marked as gold; gold "answer" marks those that contain an accepted answer']


def test_questions_with_answers(tmp_path: Path) -> None:
    _, (first, second) = opened("qa")
    assert (first.id, first.answers, second.answers) == ("line-1", ["Mara Dell", "M. Dell"], ["the Vey"])
    (only,) = written(tmp_path, {"question": "Who?", "possible_answers": ["Ann"], "subj": "x"}).examples()
    assert (only.answers, only.meta) == (["Ann"], {"subj": "x"})
    with pytest.raises(FloatlensError, match='it has "ctxs", but the file began in'):
        written(tmp_path, {"question": "1?", "answer": "a"}, {"question": "2?", "answer": "b", "ctxs": []})
    with pytest.raises(FloatlensError, match='"answer" is missing, though the file began with it'):
        written(tmp_path, {"question": "1?", "answer": "a"}, {"question": "2?", "answers": ["b"]})


def test_kilt_with_question(tmp_path: Path) -> None:
    (only,) = written(tmp_path, {"id": "k", "question": "Who?", "output": [{"answer": "Ann"}]}).examples()
    assert (only.question, only.answers) == ("Who?", ["Ann"])
    with pytest.raises(FloatlensError, match=r'x\.jsonl:2: "output" is missing'):
        written(tmp_path, {"question": "1?", "output": [{"answer": "a"}]}, {"question": "2?", "answers": ["b"]})


def test_plain_text() -> None:
    data, (first, second) = opened("text")
    assert (first.id, first.hole, (first.passage or "")[:13]) == ("line-4", 4, "Orrin is a to")
    assert second.id == "line-9"
    assert data.headline() == "plain text: 2 passages with a hole"
    assert data.notes() == ["3 left out: heading or paragraph with fewer than 16 words"]


def test_the_papers_own_files_are_recognised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from floatlens.data import paper_files

    path = tmp_path / "nq_dev_psg.jsonl"
    path.write_text('{"query": "Who?", "answer": "Ann", "passage": [{"segment": "Ann."}]}\n')
    data = open_data(path)
    assert (data.paper or "").startswith("named like the paper's nq_dev_psg.jsonl but a different file (69 bytes")
    own = paper_files.PaperFile("nq_dev_psg.jsonl", 69, data.sha256)
    monkeypatch.setattr(paper_files, "PAPER_FILES", (own,))
    assert open_data(path.rename(tmp_path / "copy.jsonl")).notes()[0] == (
        "the paper's own nq_dev_psg.jsonl: size and SHA-256 agree"
    )


KINDS = {
    **{key: {"text"} for key in ("litm", "dpr", "psg", "ramdocs", "squad", "timeqa", "musique", "qa")},
    "rgb": {"text", "parts"},
    "pubmedqa": {"yes_no_maybe"},
    "gsm8k": {"number"},
    "humaneval": {"code"},
    "mtbench": {"open"},
}


@pytest.mark.parametrize("name", KINDS)
def test_the_format_says_how_answers_are_judged(name: str) -> None:
    _, examples = opened(name)
    assert {example.answer_kind for example in examples} == KINDS[name]


@pytest.mark.parametrize(
    "record",
    [
        {"question": "?", "answer": "yes", "context": [["Orrin", ["A lamp."]]], "supporting_facts": []},
        {"question": "?", "answer": "No", "context": [["Orrin", ["A lamp."]]], "evidences": []},
        {"input": "?", "output": [{"answer": "yes"}]},
        {"question": "?", "golden_answers": ["no"]},
    ],
)
def test_questions_of_yes_or_no_among_others(record: dict[str, Any], tmp_path: Path) -> None:
    other = json.loads(
        json.dumps(record).replace('"yes"', '"Orrin"').replace('"no"', '"Orrin"').replace('"No"', '"Orrin"')
    )
    first, second = written(tmp_path, record, other).examples()
    assert (first.answer_kind, second.answer_kind) == ("yes_no", "text")


def test_our_own_format_says_how_answers_are_judged_and_what_is_wrong(tmp_path: Path) -> None:
    wrong = {"wrong_answers": ["Oun"], "wrong_documents": [{"text": "Tolm lies on the Oun."}]}
    first, second = written(
        tmp_path,
        {"question": "Which?", "answer_parts": [["Hest", "land of Hest"], "1402"], **wrong},
        {"question": "How many?", "answers": ["1,250"], "answer_kind": "number"},
    ).examples()
    assert (first.answer_kind, first.answers) == ("parts", ["Hest and 1402", "land of Hest and 1402"])
    assert first.answer_parts == [["Hest", "land of Hest"], ["1402"]]
    assert (first.wrong_answers, [one.text for one in first.wrong_documents]) == (["Oun"], ["Tolm lies on the Oun."])
    assert second.answer_kind == "number"
    again = written(tmp_path, *(json.loads(one.model_dump_json()) for one in (first, second)))
    assert list(again.examples()) == [first, second]  # an example written with all fields


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"answers": ["many"], "answer_kind": "number"}, 'needs answers that are numbers, found "many"'),
        ({"answers": ["perhaps"], "answer_kind": "yes_no"}, "needs answers that are yes, no"),
        ({"answers": ["x"], "answer_kind": "parts"}, 'answer_kind "parts" needs answer_parts'),
        ({"answers": ["x"], "answer_kind": "open"}, 'answer_kind "open" is not scored'),
        ({"answers": ["x"], "answer_kind": "txt"}, "answer_kind wants"),
        ({"answers": ["x"], "answer_kind": 3}, "answer_kind wants"),
    ],
)
def test_answers_that_cannot_be_judged_so(fields: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(FloatlensError, match=said) as error:
        written(tmp_path, {"question": "?", **fields})
    assert "\n" not in str(error.value)
