"""Mutated files of every format: an error of one line or a reported problem; no traceback, no hang, no silent loss.

Values are replaced, fields removed, renamed or doubled, bytes changed or cut off; then the file is laid out as another
kind of JSON document, packed, and perhaps damaged or read with a limit.
"""

from __future__ import annotations

import bz2
import copy
import gzip
import json
import lzma
import os
import random
import re
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from floatlens.core.errors import FloatlensError
from floatlens.data import FORMATS, Data, compression, json_documents, open_data

FIXTURES = Path(__file__).parent / "fixtures"
FILES = {name: next(path for path in FIXTURES.iterdir() if path.stem == name) for name in FORMATS.builtin}
VALUES = (
    None,
    "",
    " ",
    "text",
    0,
    -1,
    2.5,
    True,
    [],
    {},
    [None],
    ["a"],
    [["a"]],
    [{}],
    {"a": 1},
    {"text": 3},
    "\ud800",
    {"\ud800": "\udfff"},
    [["a", ["b"]], {"answer": [["c"]]}],
    {"title": ["a"], "text": {"b": []}},
    10**20,
    1e300,
    "x" * 5000,
    "yes",
    "#### none",
    [["a"]] * 12,
)
BYTES = (b"\x00", b"\xff", b"{", b"}", b"[", b'"', b",", b"\n", b"\\", b"NaN", b"\t", b"\xef\xbb\xbf", b"#")


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container and key in a JSON value."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from places(value[key])


def changed_values(raw: bytes, rng: random.Random, *, is_lines: bool) -> list[Any] | Any:
    """The records, or the document, with a value replaced, a field removed or renamed, or an element repeated."""
    whole = [json.loads(line) for line in raw.splitlines()] if is_lines else json.loads(raw)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        container, key = rng.choice(list(places(whole)))
        how = rng.choice(("replace", "replace", "replace", "remove", "rename", "repeat", "swap"))
        if how == "replace" or isinstance(container, list):
            container[key] = copy.deepcopy(rng.choice(VALUES))
        elif how == "remove" and container is not whole:  # a mapping without one of its records is no mutated record
            del container[key]
        elif how == "rename":
            container[rng.choice((f"{key}x", "\ud800", "", "id", "meta"))] = container.pop(key)
        elif how == "swap":
            other = rng.choice(list(container))
            container[key], container[other] = container[other], container[key]
        elif how == "repeat" and isinstance(container[key], list):
            container[key] = container[key] * 2
    return whole


def written(whole: Any, rng: random.Random, *, is_lines: bool) -> bytes:
    """Records as lines, as a list, or under a key; a document with or without line breaks."""
    how = rng.choice(("lines", "lines", "list", "under a key", "by id")) if is_lines else "document"
    if how == "lines":
        return b"".join(json.dumps(one).encode() + rng.choice((b"\n", b"\r\n")) for one in whole)
    made = {"list": whole, "under a key": {"version": 1, "data": whole}, "document": whole}
    made["by id"] = {str(i): one for i, one in enumerate(whole)} if is_lines else whole
    return json.dumps(made[how], indent=rng.choice((None, 2))).encode()


def with_a_field_twice(raw: bytes, rng: random.Random) -> bytes:
    """A field of an object is there once more, with another value."""
    fields = list(re.finditer(rb'"(\w+)": ', raw))
    if not fields:
        return raw
    one = rng.choice(fields)
    return raw[: one.start()] + one[0] + b'"twice", ' + raw[one.start() :]


def changed_bytes(raw: bytes, rng: random.Random) -> bytes:
    """The file cut off, or with bytes replaced or put in."""
    at = rng.randrange(len(raw))
    how = rng.choice(("cut", "replace", "insert"))
    if how == "cut":
        return raw[:at]
    return raw[:at] + rng.choice(BYTES) + raw[at + (how == "replace") :]


PACKED: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


@contextmanager
def no_hang(seconds: int = 120) -> Iterator[None]:
    """A generous limit: a file of a few kilobytes that takes this long is a hang, on any machine."""

    def stop(*_: object) -> None:
        raise TimeoutError("hangs")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def opened(path: Path, limit: int | None) -> Data | None:
    """The data, if it opens with bad records left out; an error must be one short line that can be printed."""
    try:
        data = open_data(path, skip_bad=True, limit=limit)
    except FloatlensError as error:
        printable(str(error))
        return None
    examples = list(data.examples())
    assert len(examples) == data.count
    for said in (data.headline(), *data.notes(), *data.problems):
        printable(said)
    return data


def printable(said: str) -> None:
    assert "\n" not in said
    assert len(said) < 1500
    assert said.encode()


def check(path: Path, whole: Data, there: int | None) -> None:
    """What is no longer read must be an error, a bad record, a record left out, or a note; `there` counts records."""
    data = opened(path, None)
    if data is None:
        return
    if there is not None:
        assert data.count + data.bad + data.left_out == there
    reported = data.bad or data.left_out > whole.left_out or data.counts.unread
    if data.count < whole.count and there is None:
        assert reported
    if not reported and data.count == whole.count:
        if data.counts.unanswered > whole.counts.unanswered:
            assert any("no accepted answer" in note for note in data.notes())
        if data.counts.documents[0] > whole.counts.documents[0] and data.format == whole.format:
            assert any("no documents" in said for said in (data.headline(), *data.notes()))
        if data.counts.without_gold > whole.counts.without_gold:
            assert any("gold" in note for note in data.notes())


def check_twice(path: Path) -> None:
    """Of two values of one field none is taken without a word."""
    data = opened(path, None)
    assert data is None or data.bad


def check_damaged(path: Path, rng: random.Random) -> None:
    """A packed file that is cut off or changed is refused, also if only its first record is wanted."""
    raw = path.read_bytes()
    at = rng.randrange(10, len(raw))  # behind what says how it is packed
    path.write_bytes(raw[:at] if rng.random() < 0.5 else raw[:at] + bytes([raw[at] ^ 0xFF]) + raw[at + 1 :])
    assert opened(path, rng.choice((None, 1))) is None


def mutate(folder: Path, name: str, rng: random.Random, how: str, whole: Data) -> None:
    """One mutated file, opened and checked."""
    fixture = FILES[name]
    raw, path = fixture.read_bytes(), folder / fixture.name
    is_lines = fixture.suffix in (".jsonl", ".txt") or name == "rgb"
    if how == "damaged":
        packed = rng.choice(list(PACKED))
        path = path.with_name(f"{path.name}.{packed}")
        path.write_bytes(PACKED[packed](raw))
        return check_damaged(path, rng)
    if how == "twice" and name != "text":
        path.write_bytes(with_a_field_twice(raw, rng))
        return check_twice(path)
    if how == "values" and name != "text":
        changed = changed_values(raw, rng, is_lines=is_lines)
        path.write_bytes(written(changed, rng, is_lines=is_lines))
        return check(path, whole, len(changed) if is_lines else None)
    content = changed_bytes(raw, rng)
    path.write_bytes(content)
    return check(path, whole, sum(bool(line.strip()) for line in content.split(b"\n")) if is_lines else None)


HOW = ("values", "values", "bytes", "bytes", "twice", "damaged")


def run(folder: Path, name: str, seeds: range) -> None:
    whole = open_data(FILES[name])
    for seed in seeds:
        rng = random.Random(f"{name}/{seed}")
        how = HOW[seed % len(HOW)]
        try:
            with no_hang(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                mutate(folder, name, rng, how, whole)
        except Exception as error:
            raise AssertionError(f"{name}/{seed} ({how})") from error


@pytest.mark.parametrize("name", FILES)
def test_a_dozen_of_each_format(name: str, tmp_path: Path) -> None:
    run(tmp_path, name, range(12))


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_a_thousand_over_all_formats(name: str, tmp_path: Path) -> None:
    """Twenty formats, 60 files each: 1,200."""
    run(tmp_path, name, range(12, 72))


# -- single faults ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["x.jsonl", "x.json", "x.tsv", "x.txt"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_line_or_record_too_long_for_memory(
    layout: str, packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small packed file may unpack to one line of gigabytes: it is refused before it is in memory."""
    for module in (compression, json_documents):
        monkeypatch.setattr(module, "LONGEST", 1 << 20)
    long = "x" * (3 << 20)
    content = {
        "x.jsonl": '{"question": "Who?"}\n' + json.dumps({"question": long}),
        "x.json": json.dumps([{"question": "Who?"}, {"question": long}]),
        "x.tsv": f"question\tanswer\nWho?\tAda\n{long}\tAda\n",
        "x.txt": f"{'word ' * 20}\n{long}",
    }[layout].encode()
    path = tmp_path / (layout + ".gz" * packed)
    path.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(FloatlensError, match=r"a (line|record) of more than 1 MB, which is no record") as error:
        open_data(path)
    printable(str(error.value))


def test_what_follows_the_limit_of_a_damaged_file(tmp_path: Path) -> None:
    rows = b"".join(json.dumps({"question": f"{i} {random.Random(i).random()}?"}).encode() + b"\n" for i in range(9999))
    path = tmp_path / "x.jsonl.gz"
    whole = gzip.compress(rows)
    path.write_bytes(whole)
    assert open_data(path, limit=2).count == 2
    path.write_bytes(whole[:-6])
    with pytest.raises(FloatlensError, match="the gzip file is damaged or cut short"):
        open_data(path, limit=2)


@pytest.mark.parametrize(
    "record",
    [
        {"question": "Who?", "x" * 10_000_000: 1, "answrs": []},
        {"x" * 10_000_000: 1},
        {"id": "x" * 10_000_000, "question": 3},
        {"question": "Who?", "answers": [{"x" * 10_000_000: 1}]},
        {"question": "Who?", "answer": {"y" * 10_000_000: 1}},
        {"question": "Who?", "answer_kind": "z" * 10_000_000},
        {f"field {i}": i for i in range(100_000)},
    ],
)
@pytest.mark.filterwarnings("ignore::floatlens.core.errors.FloatlensWarning")
def test_a_message_stays_short(record: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps(record))
    assert opened(path, None) is None
    with pytest.raises(FloatlensError) as error:
        open_data(path)
    printable(str(error.value))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"question": "Who?", "question": "Why?"}', 'the field "question" is there twice'),
        ('{"question": "Who?", "documents": [{"text": "a", "text": "b"}]}', 'the field "text" is there twice'),
        ('{"data": [{"question": "Who?"}], "data": [{"question": "Why?"}]}', 'the field "data" is there twice'),
        ('{"a": {"question": "Who?"}, "a": {"question": "Why?"}}', 'the field "a" is there twice'),
        ('{"question": "Who?", "\\ud800": 1, "\\ud800": 2}', r'the field "\\ud800" is there twice'),
    ],
)
def test_a_field_twice(line: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(line)
    with pytest.raises(FloatlensError, match=said):
        open_data(path)


@pytest.mark.parametrize("name", ["x.jsonl", "x.parquet", "x.tsv", "x.txt", "x.json.gz"])
def test_what_is_no_file_is_not_waited_for(name: str, tmp_path: Path) -> None:
    """A pipe that nobody writes to, a device without an end, a link to itself."""
    path = tmp_path / name
    os.mkfifo(path)
    with pytest.raises(FloatlensError, match="not a regular file but a pipe; give a file"):
        open_data(path)
    for target, said in (("/dev/zero", "not a regular file but a device"), (name, "symbolic links")):
        path.unlink()
        path.symlink_to(target)
        with pytest.raises(FloatlensError, match=said):
            open_data(path)
