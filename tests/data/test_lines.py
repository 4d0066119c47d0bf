"""Layouts of data files, packed or not; files of other kinds are named for what they are, with what to do."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import pickle
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from floatlens.core.errors import FloatlensError
from floatlens.data import open_data, read_examples
from floatlens.data.retrieval import read_corpus

RECORDS = [{"question": "Who, what, where?", "answers": ["Ann"]}, {"question": "Who?"}]
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
PAPER_LFS = LFS.replace(b"4d7a", b"ffe964bc089ccf4061a9c446d6f768abdc82876cd7eca612f0352e052caae72a")
HTML = b"<!DOCTYPE html>\n<html><body>404: Not Found</body></html>\n"
CSV = b'id,question,answer\n1,"Who, then?",Ann\n2,What?,Bob\n'


def zstd(content: bytes) -> bytes:
    return bytes(pa.Codec("zstd").compress(content).to_pybytes())


def refusal(folder: Path, name: str, content: bytes) -> str:
    """The message of `open_data`, the same with `skip_bad` and for a corpus, without the folder."""
    path = folder / name
    path.write_bytes(content)
    said = set()
    for read in (lambda: open_data(path), lambda: open_data(path, skip_bad=True), lambda: next(read_corpus(path))):
        with pytest.raises(FloatlensError) as caught:
            read()
        said.add(str(caught.value).replace(f"{folder}/", ""))
    (message,) = said
    return message


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.jsonl", b"", "x.jsonl: the file is empty; copy or download it again"),
        ("x.jsonl", LFS, "x.jsonl: a Git LFS pointer instead of the data; run git lfs pull"),
        ("x.jsonl", HTML, "x.jsonl: an HTML page instead of data, such as an error or login page; download"),
        ("x.jsonl", b"  \n<html>", "x.jsonl: an HTML page"),
        (
            "x.csv",
            CSV,
            "x.csv: a CSV file with the columns id, question, answer instead of JSON lines; convert it with",
        ),
        ("x.tsv", b"Who?\tAnn\nWhat?\tBob\n", "a TSV file whose first row (Who?, Ann) names no column question"),
        ("x.pkl", pickle.dumps([{"question": "Who?"}]), "x.pkl: a pickle, which can run code when it is opened"),
        ("x.zip", b"PK\x03\x04rest", "x.zip: a zip archive; unpack it first"),
        ("x.bin", b"ab\x00cd", "x.bin: a binary file; give JSON lines"),
        ("x.jsonl", PAPER_LFS, "a Git LFS pointer to the paper's nq_dev_psg.jsonl (544,297,944 bytes) instead of"),
        ("x.jsonl.bz2", bz2.compress(b"words " * 99)[:-9], "x.jsonl.bz2: the bzip2 file is damaged or cut short"),
        ("x.jsonl.xz", lzma.compress(b"words " * 99)[:-9], "x.jsonl.xz: the xz file is damaged or cut short"),
        ("x.jsonl.zst", zstd(b"words " * 99)[:-9], "x.jsonl.zst: the Zstandard file is damaged or cut short"),
        ("x.parquet", b"PAR1 and no more", "x.parquet: the Parquet file is damaged after row 0"),
        ("x.txt", CSV, 'pd.read_csv("x.txt").to_json("x.txt.jsonl", orient="records", lines=True)'),
        ("one.csv", b"id,question\n", "one.csv: a CSV file with the columns id, question"),
    ],
)
def test_other_files_are_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    said = refusal(tmp_path, name, content)
    assert message in said
    assert "\n" not in said


KEYED = {"a": RECORDS[0], "b": RECORDS[1]}
DOCUMENTS = {
    "list": RECORDS,
    "mapping": KEYED,
    "under a key": {"version": "1.1", "data": RECORDS, "licence": {"name": "MIT"}},
    "long": RECORDS * 9000,
}


@pytest.mark.parametrize("indent", [None, 1, 4])
@pytest.mark.parametrize("kind", DOCUMENTS)
def test_one_json_document_of_any_layout(tmp_path: Path, kind: str, indent: int | None) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(DOCUMENTS[kind], indent=indent).encode())
    examples = list(read_examples(path))
    assert [example.question for example in examples[:2]] == ["Who, what, where?", "Who?"]
    assert len(examples) == (18000 if kind == "long" else 2)
    assert [example.id for example in examples[:2]] == (["a", "b"] if kind == "mapping" else ["record-1", "record-2"])


@pytest.mark.parametrize("record", [RECORDS[0], {"meta": {"a": 1}, "question": "Who?"}])
@pytest.mark.parametrize("indent", [None, 2])
def test_a_single_record(tmp_path: Path, record: dict[str, Any], indent: int | None) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(record, indent=indent))
    (example,) = read_examples(path)
    assert (example.question, example.id) == (record["question"], "line-1" if indent is None else "record-1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"question": "Who?"}, {"question": "Wh', "after record 1: not valid JSON: the document breaks off"),
        ('[{"question": "Who?"}', 'after record 1: not valid JSON: expected "," or "]", found the end of the file'),
        ('[{"question": "Who?"}, {"question" 3}' + " " * 99 + "]", "after record 1: not valid JSON: Expecting ':'"),
        ('[{"question": "Who?"}] [1]', "after record 1: more text follows the JSON document"),
        ('{"data": [{"question": "?"}], "test": [{"a": 1}]}', 'lists of records under "data" and "test"; keep one'),
        ('[{"question": "Who?"}, 3]', "x.json: record 2: expected an object, found a number"),
        ('[{"id": 1, "question": "?"}, {"id": 1, "question": "?"}]', "id '1' was used before, on record 1"),
    ],
)
def test_broken_documents_lose_nothing_silently(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(FloatlensError) as caught:
        open_data(path)
    assert message in str(caught.value)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, zstd])
def test_packed_files_are_known_by_content(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "x"
    lines = "".join(json.dumps(one) + "\n" for one in RECORDS).encode()
    for content in (lines, json.dumps(RECORDS, indent=2).encode()):
        path.write_bytes(pack(content))
        assert [example.question for example in read_examples(path)] == ["Who, what, where?", "Who?"]


def test_tables(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text('id\tquestion\tanswer\n1\tWho?\t["Ann", "Anne"]\n\n2\tWhat, then?\tBob\n')
    assert [(one.id, one.question, one.answers) for one in read_examples(path)] == [
        ("1", "Who?", ["Ann", "Anne"]),
        ("2", "What, then?", ["Bob"]),
    ]
    path.write_text("\nquestion\tanswers\nWho?\tAnn\n")
    (example,) = read_examples(path)
    assert (example.id, example.answers) == ("row-3", ["Ann"])
    path.write_text("question\tanswer\nWho?\tAnn\textra\n")
    with pytest.raises(FloatlensError, match=r"x\.tsv: row 2: expected 2 columns, found 3"):
        open_data(path)


def test_parquet_with_the_columns_of_hugging_face(tmp_path: Path) -> None:
    rows = [
        {
            "id": "h1",
            "question": "In which land is Orrin?",
            "answer": "Hest",
            "supporting_facts": {"title": ["Orrin"], "sent_id": [1]},
            "context": {
                "title": ["Lamps", "Orrin"],
                "sentences": [["Lamps burn oil."], ["A town.", " It is in Hest."]],
            },
        }
    ]
    path = tmp_path / "validation-00000-of-00001.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    data = open_data(path)
    (example,) = data.examples()
    assert (data.format, example.id, example.answers) == ("hotpotqa", "h1", ["Hest"])
    assert [(d.title, d.text, d.is_gold) for d in example.documents] == [
        ("Lamps", "Lamps burn oil.", False),
        ("Orrin", "A town. It is in Hest.", True),
    ]
    assert data.headline() == "HotpotQA, distractor setting: 1 question, 2 documents each, 1 gold each"


def test_zstandard_in_several_frames(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl.zst"
    path.write_bytes(b"".join(zstd(json.dumps(one).encode() + b"\n") for one in RECORDS))
    assert len(list(read_examples(path))) == 2


def test_a_byte_order_mark_and_blank_lines_before_a_document(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b"\xef\xbb\xbf\n \n" + json.dumps({"data": RECORDS}).encode() + b"\n\n")
    assert len(list(read_examples(path))) == 2


def test_json_lines_whose_first_line_is_longer_than_the_head(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    first = {"meta": {"a": "long " * 30000}, "question": "1?"}
    path.write_text("".join(json.dumps(one) + "\n" for one in (first, {"question": "2?"})))
    assert [example.id for example in read_examples(path)] == ["line-1", "line-2"]


def test_a_large_document_is_never_held_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    record = {"question": "Who?", "answers": ["Ann"], "ctxs": [{"text": "word " * 4000}]}
    path.write_text(json.dumps({"data": [record] * 600}))
    tracemalloc.start()
    assert open_data(path).count == 600
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert path.stat().st_size > 12_000_000
    assert peak < 4_000_000


@pytest.mark.parametrize("separator", ["\n", "\r\n", "\n\n  \n"])
@pytest.mark.parametrize("spaces", [None, (" , ", " : ")])
def test_json_lines_are_json_lines(tmp_path: Path, separator: str, spaces: tuple[str, str] | None) -> None:
    path = tmp_path / "x.csv"  # a name says nothing against the content
    long = {"question": "Who?", "documents": [{"text": "word " * 9000}]}
    path.write_text(separator + separator.join(json.dumps(one, separators=spaces) for one in [*RECORDS, long]))
    assert len(list(read_examples(path))) == 3
