"""Reading what is learned from: SQuAD's document, plain text with WikiText's marks, questions; and what is held out."""

from __future__ import annotations

import gzip
import json

import pytest

from floatlens.adaptation.sources import Group, read_corpus
from floatlens.core.errors import FloatlensError


def squad(articles):
    return {
        "data": [
            {
                "title": f"Title_{i}",
                "paragraphs": [
                    {
                        "context": f" Passage {i} of it. ",
                        "qas": [
                            {"question": "Who  is it?", "answers": [{"text": "Ann", "answer_start": 0}]},
                            {"question": "And who?", "answers": []},
                        ],
                    }
                ],
            }
            for i in range(articles)
        ]
    }


def test_squad_is_read_by_passage_and_its_last_articles_are_held_out(tmp_path):
    path = tmp_path / "squad.json.gz"
    path.write_bytes(gzip.compress(json.dumps(squad(40)).encode()))
    corpus = read_corpus([path])
    assert corpus.groups[0] == Group("Title 0", "Passage 0 of it.", (("Who is it?", "Ann"),))
    assert [group.title for group in corpus.held_groups] == ["Title 38", "Title 39"]
    assert len(corpus.groups) == 38
    assert corpus.digests[0][0] == "squad.json.gz"


def test_the_marks_of_wikitext_are_undone_and_headings_left_out(tmp_path):
    path = tmp_path / "wiki.txt"
    line = 'The <unk> lobster weighs 0 @.@ 7 kg ( 1 @,@ 000 in ) , a well @-@ known " red " animal .'
    path.write_text(f" = Heading of many words that is long enough to count = \n\n {line} \nToo short.\n" * 2)
    (first, *_), held = read_corpus([path], [path]).paragraphs, read_corpus([path], [path]).held_paragraphs
    assert first == 'The lobster weighs 0.7 kg (1,000 in), a well-known "red" animal.'
    assert held == (first, first)


def test_other_text_is_left_as_it_is(tmp_path):
    path = tmp_path / "plain.txt"
    line = "Mail her at ann (at) work; she said so, twice, and meant it."
    path.write_text(line)
    assert read_corpus([path]).paragraphs == (line,)


def test_questions_give_their_gold_document(tmp_path):
    path = tmp_path / "asked.jsonl"
    documents = [{"title": "B", "text": "No."}, {"title": "A", "text": "Yes.", "is_gold": True}]
    path.write_text(json.dumps({"question": "Who?", "answers": ["Ann", "A."], "documents": documents}))
    assert read_corpus([path]).groups == (Group("A", "Yes.", (("Who?", "Ann"),)),)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.json", b"{", "not valid JSON"),
        ("a.json", b"[]", "not a SQuAD document"),
        ("a.json", b'{"data": [{"paragraphs": [{}]}]}', "not a SQuAD document"),
        ("a.txt", b"short", "no paragraph"),
        ("a.txt", b"\xff\xfe\x00", "not UTF-8"),
        ("a.txt.gz", b"\x1f\x8b\x00", "damaged"),
    ],
)
def test_a_file_that_is_something_else_is_named(tmp_path, name, content, says):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(FloatlensError, match=says):
        read_corpus([path])


def test_no_data_at_all_is_refused():
    with pytest.raises(FloatlensError, match="no data"):
        read_corpus([])
