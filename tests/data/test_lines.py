"""Files that are not JSON lines are named for what they are, with what to do; JSON lines are never taken for these."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from floatlens.core.errors import FloatlensError
from floatlens.data import open_data, read_examples
from floatlens.data.retrieval import read_corpus

RECORDS = [{"question": "Who, what, where?", "answers": ["Ann"]}, {"question": "Who?"}]
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
HTML = b"<!DOCTYPE html>\n<html><body>404: Not Found</body></html>\n"
CSV = b'id,question,answer\n1,"Who, then?",Ann\n2,What?,Bob\n'


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
        ("x.csv", CSV.replace(b",", b"\t"), "x.csv: a TSV file with the columns id, question, answer"),
        ("x.txt", CSV, 'pd.read_csv("x.txt").to_json("x.txt.jsonl", orient="records", lines=True)'),
        ("one.csv", b"id,question\n", "one.csv: a CSV file with the columns id, question"),
        ("x.json", json.dumps(RECORDS).encode(), "one JSON document (a list) instead of JSON lines"),
        ("x.json", json.dumps(RECORDS, indent=1).encode(), "cat x.json | jq -c '.[]' > x.lines.jsonl"),
        (
            "x.json.gz",
            gzip.compress(json.dumps(RECORDS).encode(), mtime=0),
            "zcat x.json.gz | jq -c '.[]' > x.lines.jsonl",
        ),
        ("x.json", json.dumps(RECORDS * 9000).encode(), "one JSON document (a list)"),
        ("x.json", json.dumps({"data": RECORDS}, indent=2).encode(), "one JSON document (an object)"),
        ("x.json", json.dumps(RECORDS[0], indent=2).encode(), "cat x.json | jq -c '.' > x.lines.jsonl"),
        ("x.json", json.dumps({"a": RECORDS[0]}, indent=2).encode(), "cat x.json | jq -c '.[]' > x.lines.jsonl"),
    ],
)
def test_other_files_are_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    said = refusal(tmp_path, name, content)
    assert message in said
    assert "\n" not in said


def test_a_document_on_one_line_whose_records_are_under_a_key(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"version": "1.1", "data": [{"title": "T", "paragraphs": []}] * 3}))
    with pytest.raises(FloatlensError, match=r"\"data\" holds 3 objects.*jq -c '\.data\[\]'"):
        open_data(path)


@pytest.mark.parametrize("separator", ["\n", "\r\n", "\n\n  \n"])
@pytest.mark.parametrize("spaces", [None, (" , ", " : ")])
def test_json_lines_are_json_lines(tmp_path: Path, separator: str, spaces: tuple[str, str] | None) -> None:
    path = tmp_path / "x.csv"  # a name says nothing against the content
    long = {"question": "Who?", "documents": [{"text": "word " * 9000}]}
    path.write_text(separator + separator.join(json.dumps(one, separators=spaces) for one in [*RECORDS, long]))
    assert len(list(read_examples(path))) == 3
