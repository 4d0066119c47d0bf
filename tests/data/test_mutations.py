"""Mutated files of every format: an error of one line or a reported problem, never a traceback, never a silent loss."""

from __future__ import annotations

import copy
import json
import random
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from floatlens.core.errors import FloatlensError
from floatlens.data import FORMATS, Data, open_data

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
)
BYTES = (b"\x00", b"\xff", b"{", b"}", b"[", b'"', b",", b"\n", b"\\", b"NaN", b"\t", b"\xef\xbb\xbf", b"#")


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container and key in a JSON value."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from places(value[key])


def changed_values(raw: bytes, rng: random.Random, *, is_lines: bool) -> bytes:
    """The same layout with a value replaced, a field removed or renamed, or an element repeated."""
    whole = [json.loads(line) for line in raw.splitlines()] if is_lines else json.loads(raw)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        container, key = rng.choice(list(places(whole)))
        how = rng.choice(("replace", "replace", "replace", "remove", "rename", "repeat"))
        if how == "replace" or isinstance(container, list):
            container[key] = copy.deepcopy(rng.choice(VALUES))
        elif how == "remove":
            del container[key]
        elif how == "rename":
            container[f"{key}x"] = container.pop(key)
        elif isinstance(container[key], list):
            container[key] = container[key] * 2
    if is_lines:
        return b"".join(json.dumps(one).encode() + b"\n" for one in whole)
    return json.dumps(whole, indent=rng.choice((None, 2))).encode()


def changed_bytes(raw: bytes, rng: random.Random) -> bytes:
    """The file cut off, or with bytes replaced or put in."""
    at = rng.randrange(len(raw))
    how = rng.choice(("cut", "replace", "insert"))
    if how == "cut":
        return raw[:at]
    return raw[:at] + rng.choice(BYTES) + raw[at + (how == "replace") :]


def check(path: Path, whole: Data, *, one_per_line: bool) -> None:
    """What is no longer read must be an error, a bad record, a record left out, or a note."""
    try:
        data = open_data(path, skip_bad=True)
        examples = list(data.examples())
    except FloatlensError as error:
        if "\n" in str(error):
            raise ValueError("more than one line") from error
        return
    assert len(examples) == data.count
    if one_per_line:
        there = sum(bool(line.strip()) for line in path.read_bytes().split(b"\n"))
        assert data.count + data.bad + data.left_out == there
    reported = data.bad or data.left_out > whole.left_out or data.counts.unread
    if data.count < whole.count and not one_per_line:
        assert reported
    if not reported and data.count == whole.count:
        if data.counts.unanswered > whole.counts.unanswered:
            assert any("no accepted answer" in note for note in data.notes())
        if data.counts.documents[0] > whole.counts.documents[0] and data.format == whole.format:
            assert any("no documents" in said for said in (data.headline(), *data.notes()))
        if data.counts.without_gold > whole.counts.without_gold:
            assert any("gold" in note for note in data.notes())


def run(folder: Path, name: str, times: int) -> None:
    fixture = FILES[name]
    raw = fixture.read_bytes()
    whole = open_data(fixture)
    one_per_line = fixture.suffix in (".jsonl", ".txt") or name == "rgb"
    path = folder / fixture.name
    for seed in range(times):
        rng = random.Random(f"{name}/{seed}")
        as_values = name != "text" and seed % 2 == 0
        content = changed_values(raw, rng, is_lines=one_per_line) if as_values else changed_bytes(raw, rng)
        path.write_bytes(content)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                check(path, whole, one_per_line=one_per_line)
            except Exception as error:
                raise AssertionError(f"{name}/{seed}: {content!r}") from error


@pytest.mark.parametrize("name", FILES)
def test_ten_of_each_format(name: str, tmp_path: Path) -> None:
    run(tmp_path, name, 10)


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_fifty_of_each_format(name: str, tmp_path: Path) -> None:
    run(tmp_path, name, 50)
