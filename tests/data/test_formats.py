"""Every format: a fixture of ours, plain and gzipped, detected and named, and the mistakes that only it can have."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from floatlens.core.errors import FloatlensError
from floatlens.data import Example, mark_gold, read_examples
from floatlens.data.formats import FORMATS
from floatlens.prompts import Document

FIXTURES = Path(__file__).parent / "fixtures"
FILES = {name: next(path for path in FIXTURES.iterdir() if path.stem == name) for name in FORMATS}


def read(name: str) -> list[Example]:
    return list(read_examples(FILES[name]))


def shown(example: Example) -> list[tuple[str, str, bool]]:
    return [(d.title, d.text, d.is_gold) for d in example.documents]


def complaint(folder: Path, *records: Any, **options: Any) -> str:
    path = folder / "x.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    with pytest.raises(FloatlensError) as caught:
        list(read_examples(path, **options))
    return str(caught.value).replace(f"{folder}/", "")


@pytest.mark.parametrize("name", FILES)
def test_named_detected_and_gzipped_give_the_same(name: str, tmp_path: Path) -> None:
    packed = tmp_path / f"{FILES[name].name}.gz"  # plain text is known by its name
    packed.write_bytes(gzip.compress(FILES[name].read_bytes()))
    assert read(name) == list(read_examples(FILES[name], format=name)) == list(read_examples(packed))


def test_the_papers_own_files() -> None:
    first, second, third = read("psg")
    assert (first.id, second.id, third.id) == ("p1", "p2", "3")
    assert first.question == "Who keeps the lighthouse of Orrin?"
    assert first.answers == ["Mara Dell", "M. Dell"]
    assert shown(first) == [
        ("Orrin", "The lighthouse of Orrin is kept by Mara Dell.", False),
        ("", "Lighthouses need oil.", False),
    ]
    assert first.meta == {"split": "dev"}
    assert (second.question, second.answers) == ("Which river runs through Tolm?", ["the Vey"])
    assert (third.answers, third.documents) == (["green", "dark green"], [])


def test_gold_by_the_answer_where_asked_for() -> None:
    first, second, third = map(mark_gold, read("psg"))
    assert [d.is_gold for d in first.documents] == [True, False]
    assert [d.is_gold for d in second.documents] == [True]
    assert third.meta["gold_by"] == first.meta["gold_by"] == "answer"


def test_kilt() -> None:
    first, second = read("kilt")
    assert (first.id, first.question, first.answers) == ("k1", "Orrin [SEP] keeper", ["Mara Dell", "M. Dell"])
    assert first.documents == []
    assert first.meta == {
        "template_questions": ["Who keeps Orrin?"],
        "provenance": [{"wikipedia_id": "101", "title": "Orrin"}, {"wikipedia_id": "205", "title": "Lamps"}],
    }
    assert (second.answers, second.meta) == ([], {})


def test_kilt_test_sets_have_no_output_and_can_be_named(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"id": "t", "input": "Who?"}\n')
    (example,) = read_examples(path, format="kilt")
    assert (example.question, example.answers) == ("Who?", [])


def test_lost_in_the_middle() -> None:
    (example,) = read("litm")
    assert [gold for *_, gold in shown(example)] == [False, True]
    assert example.meta == {"gold_by": "isgold"}


def test_flashrag() -> None:
    bare, hotpot = read("flashrag")
    assert (bare.id, bare.answers, bare.documents) == ("test_0", ["Mara Dell", "M. Dell"], [])
    assert shown(hotpot) == [
        ("Orrin", "Orrin is in Hest. It has a lighthouse.", True),
        ("Lamps", "Lamps burn oil.", False),
        ("Tolm", "Tolm lies on the Vey. It is in Hest.", True),
    ]
    assert (hotpot.meta["gold_by"], hotpot.meta["level"], "context" in hotpot.meta) == (
        "supporting_facts",
        "hard",
        False,
    )


def test_rgb() -> None:
    one, _, altered = read("rgb")
    assert one.answers == ["Mara Dell", "M. Dell"]
    assert shown(one) == [
        ("", "Mara Dell keeps the lighthouse.", True),
        ("", "Lamps burn oil.", False),
        ("", "Tolm lies on the Vey.", False),
    ]
    assert one.meta == {"gold_by": "positive"}
    assert altered.answers == ["the Vey"]
    assert altered.wrong_documents == [Document(text="Tolm lies on the Oun.")]
    assert altered.wrong_answers == ["the Oun"]


def test_rgb_answers_in_parts_must_name_every_part() -> None:
    example = read("rgb")[1]
    assert example.answers == ["Hest and 1402", "the land of Hest and 1402"]
    assert example.answer_parts == [["Hest", "the land of Hest"], ["1402"]]
    assert [d.is_gold for d in example.documents] == [True, True, True]
    assert example.meta["gold_groups"] == [0, 0, 1]


def test_plain() -> None:
    first, second = read("plain")
    assert shown(first) == [("Lamps", "Lamps burn oil.", False), ("Orrin", "Mara Dell keeps it.", True)]
    assert first.meta == {"difficulty": 2}
    assert (second.id, second.answers, second.documents) == ("line-2", [], [])


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"passage": []}, "question is missing: expected it in input, query or question"),
        ({"query": "Who?", "passage": [{"text": "t"}]}, "passage[0].segment is missing"),
        ({"query": "Who?", "passage": ["t"]}, "passage[0]: expected an object with segment, found a text"),
        ({"query": "Who?", "answer": "", "passage": []}, "answer is empty"),
        ({"query": "Who?", "answers": ["Ann", " "], "passage": []}, "answers[1] is empty"),
        ({"query": "Who?", "answer": 5, "passage": []}, "answer: expected a text, found a number"),
        ({"query": "Who?", "output": [{"answer": ""}], "passage": []}, "output[0].answer is empty"),
        (
            {"query": "Who?", "output": [{"said": "Ann"}], "passage": []},
            "output[0]: expected an object with answer or text, found only said",
        ),
        ({"input": " ", "output": []}, "input is empty"),
        ({"input": "Who?", "output": "Ann"}, "output: expected a list, found a text"),
        (
            {"input": "Who?", "output": ["Ann"]},
            "output[0]: expected an object with answer and provenance, found a text",
        ),
        (
            {"input": "Who?", "output": [{"answer": "Ann", "provenance": {}}]},
            "output[0].provenance: expected a list, found an object",
        ),
        ({"golden_answers": ["Ann"]}, "question is missing"),
        ({"question": "Who?", "golden_answers": [""]}, "golden_answers[0] is empty"),
        ({"question": "Who?", "golden_answers": [], "metadata": 3}, "metadata: expected an object, found a number"),
        (
            {"question": "Who?", "golden_answers": [], "metadata": {"context": {"title": ["A"], "sentences": []}}},
            "metadata.context: 1 titles for 0 texts",
        ),
        ({"query": "Who?", "positive": "t", "negative": []}, "positive: expected a list, found a text"),
        ({"query": "Who?", "positive": [5], "negative": []}, "positive[0]: expected a list, found a number"),
        ({"query": "Who?", "positive": [], "negative": [""]}, "negative[0].text is empty"),
        ({"query": "Who?", "answer": [["Ann", ""]], "positive": [], "negative": []}, "answer[0][1] is empty"),
        (
            {"query": "Who?", "answer": [[str(i) for i in range(40)]] * 2, "positive": [], "negative": []},
            "answer: 2 parts with 1600 combinations; at most 1000",
        ),
    ],
)
def test_what_only_one_format_can_get_wrong(tmp_path: Path, record: Any, message: str) -> None:
    assert complaint(tmp_path, record) == f"x.jsonl:1: {message}"


def test_records_that_no_format_knows(tmp_path: Path) -> None:
    message = complaint(tmp_path, {"query": "Who?", "response": "Ann"})
    assert message.startswith("x.jsonl:1: no known format has just the fields query, response; nearest is ")
    message = complaint(tmp_path, {"question_id": 3, "turn": ["Who?"]})
    assert 'nearest is mtbench (MT-bench), which needs "turns"' in message
    message = complaint(tmp_path, {"QUESTION": "Is it?", "CONTEXT": ["It is."]})
    assert 'nearest is pubmedqa (PubMedQA), which needs "CONTEXTS"' in message
    message = complaint(tmp_path, {"paragraphs": ["t"]})
    assert 'nearest is squad (SQuAD), but "paragraphs" has another content there' in message


def test_records_that_two_formats_know(tmp_path: Path) -> None:
    message = complaint(tmp_path, {"question": "Who?", "ctxs": [], "golden_answers": ["Ann"]})
    assert message == (
        'x.jsonl:1: it fits two formats, litm (ctxs) and flashrag, which differ first in "golden_answers"; '
        "name one of them as the format"
    )


def test_a_first_record_of_no_format_does_not_settle_it(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"nothing": 1}\n' + FILES["litm"].read_text())
    with pytest.warns(UserWarning, match="1 bad record skipped"):
        (example,) = read_examples(path, skip_bad=True)
    assert len(example.documents) == 2


def test_a_named_format_is_kept_to(tmp_path: Path) -> None:
    message = complaint(tmp_path, {"question": "Who?", "ctxs": []}, format="psg")
    assert message == 'x.jsonl:1: "passage" is missing, which format "psg" needs'
    assert complaint(tmp_path, {}, format="flashrga") == 'no data format "flashrga"; did you mean "flashrag"?'


def test_each_mark_is_enough_to_keep_a_file_to_one_format(tmp_path: Path) -> None:
    plain = {"question": "Who?"}
    message = complaint(tmp_path, plain, {"id": "p", "question": "Who?", "passage": []})
    assert message == 'x.jsonl:2: it has "passage", but the file began in our own format; keep to one'
    message = complaint(tmp_path, {"question": "Who?", "golden_answers": []}, plain)
    assert message == 'x.jsonl:2: "golden_answers" is missing, though the file began with it'


def test_passages_with_holes() -> None:
    first, second = read("passage")
    assert (first.id, first.question, first.answers, first.documents) == ("h1", "", [], [])
    assert (first.hole, first.meta) == (4, {"topic": "towers"})
    assert (second.id, second.hole, second.passage) == ("line-2", (4, 7), "The Vey runs through Tolm.")
    assert second.to_trace() == {"passage": "The Vey runs through Tolm.", "hole": (4, 7)}


@pytest.mark.parametrize(
    ("record", "options", "message"),
    [
        ({"passage": "abc def", "hole": 0}, {}, "hole=0: expected at least 1 token"),
        ({"passage": "abc def", "hole": [3, 3]}, {}, "hole=[3, 3]: expected 0 ≤ start < stop ≤ 7"),
        ({"passage": "abc def", "hole": [0, 8]}, {}, "hole=[0, 8]: expected 0 ≤ start < stop ≤ 7"),
        ({"passage": "abc def", "hole": "all"}, {}, "hole='all': expected a number of tokens, or the characters"),
        ({"passage": "abc def", "hole": True}, {}, "hole=True: expected a number of tokens"),
        ({"passage": " ", "hole": 1}, {}, "passage is empty"),
        ({"passage": "abc def", "hole": 2}, {"need": ["answers"]}, "a passage with a hole can be traced, not asked"),
        (
            {"passage": "abc", "hole": 2},
            {"need": ["target"]},
            "the target of a passage is what is cut out of it",
        ),
        ({"question": "q", "target": 3}, {}, "target: expected a text, found a number"),
        ({"question": "q", "target": ""}, {}, "target is empty"),
        (
            {"question": "q", "id": "a"},
            {"need": ["target"]},
            "'a' has no field",
        ),
        ({"question": "q", "id": "a"}, {"need": ["first_answer"]}, "'a' has no accepted answer, so there is no text"),
    ],
)
def test_mistakes_of_targets_and_passages(
    record: dict[str, Any], options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    said = complaint(tmp_path, record, **options)
    assert said.startswith("x.jsonl:1: ")
    assert message in said
    assert "\n" not in said


def test_examples_written_out_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("".join(example.model_dump_json() + "\n" for example in read("plain")))
    assert list(read_examples(path)) == read("plain")


def test_targets() -> None:
    known = Example(id="a", question="q?", answers=["yes", "yea"], target="Yes, it is.")
    asked = {"question": "q?", "documents": [], "answers": ["yes", "yea"]}
    assert known.to_trace() == asked
    assert known.to_trace("field") == asked | {"target": "Yes, it is."}
    assert known.to_trace("answer") == asked | {"target": "yes"}
    with pytest.raises(FloatlensError, match="no field"):
        Example(id="a", question="q?").to_trace("field")
