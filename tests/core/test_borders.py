"""Files of others: what is no file, too large, too deep or out of range is refused in one line, without waiting."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from floatlens.core.borders import MOST_DIGITS, check_values, parse_json, read_bounded, read_json
from floatlens.core.errors import FloatlensError
from floatlens.core.yaml_border import check_yaml, load_yaml
from floatlens.data import open_data
from floatlens.models import load
from floatlens.models.facts import look
from floatlens.models.settings import Settings
from floatlens.prompts import load_template
from floatlens.runs.plan import make_plan
from floatlens.runs.study_file import read_study


def test_only_regular_files_of_bounded_size(tmp_path: Path) -> None:
    plain, pipe, loop = tmp_path / "plain", tmp_path / "pipe", tmp_path / "loop"
    plain.write_bytes(b"12345")
    os.mkfifo(pipe)
    loop.symlink_to(loop)
    assert read_bounded(plain, 5) == b"12345"
    for path, most, said in (
        (plain, 4, "at most"),
        (pipe, 9, "a pipe"),
        (tmp_path, 9, "a folder"),
        (loop, 9, "leads back to itself"),
        (tmp_path / "none", 9, "No such file"),
        (Path("/dev/zero"), 9, "a device"),
    ):
        with pytest.raises(FloatlensError, match=said):
            read_bounded(path, most)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[" * 100_000, "nested too deeply"),
        (b"[" * 65 + b"]" * 65, "nested more than 64 levels"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not valid JSON"),
        (b'{"a": ' + b"9" * (MOST_DIGITS + 1) + b"}", "more than 40 digits"),
        (b'{"a": "\\ud800"}', "half a character"),
        (b'{"\\udfff": 1}', "half a character"),
        (b"\xff", "not valid JSON"),
        (b"{", "not valid JSON"),
    ],
)
def test_json_within_bounds(content: bytes, said: str) -> None:
    with pytest.raises(FloatlensError, match=said) as caught:
        parse_json(content, "x.json")
    assert len(str(caught.value)) < 300


def test_what_published_files_hold_passes(tmp_path: Path) -> None:
    value = {"model_max_length": 10**30, "eps": 1e-6, "deep": [[[[{"a": "é😀"}]]]]}
    (tmp_path / "x.json").write_text(json.dumps(value))
    assert read_json(tmp_path / "x.json") == value
    check_values(json.loads("[" * 63 + "]" * 63), "x")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: &a [*a]", 'the anchor "a" holds itself'),
        ("a: &a [x]\n" + "".join(f"k{i}: &k{i} [{', '.join([f'*{p}'] * 10)}]\n" for i, p in enumerate(
            ["a", *(f"k{i}" for i in range(8))])), "more than 100,000 values"),
        ("[" * 70 + "]" * 70, "nested more than 64"),
        ("a: !!int abc", "not valid YAML"),
        ("a: 2024-13-45", "not valid YAML"),
        ("? [1]\n: 2", "not valid YAML"),
        ("a: [", "not valid YAML"),
    ],
)  # fmt: skip
def test_yaml_within_bounds(text: str, said: str) -> None:
    with pytest.raises(FloatlensError, match=said):
        load_yaml(text, "x.yaml")


def test_aliases_that_are_few_pass() -> None:
    check_yaml("a: &a [1, 2]\nb: [*a, *a]", "x.yaml")
    assert load_yaml("a: &a [1, 2]\nb: [*a, *a]", "x.yaml") == {"a": [1, 2], "b": [[1, 2], [1, 2]]}


@pytest.mark.parametrize(
    "text",
    [
        "models: !!int abc\ndata: [x]",
        "models: [a]\ndata: 2024-13-45",
        "models: &m [*m]\ndata: [x]",
        "models: " + "[" * 3000 + "]" * 3000,
        "models: " + "9" * 5000,
        'models: ["\\ud800"]\ndata: [x]',
        "? [1]\n: 2",
    ],
)
def test_studies_are_refused_in_a_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(text)
    with pytest.raises(FloatlensError) as caught:
        read_study(path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 600


def test_pipes_instead_of_studies_templates_and_settings(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    for read in (read_study, load_template, Settings.read):
        with pytest.raises(FloatlensError, match="a pipe"):
            read(pipe)


@pytest.mark.parametrize("value", [0, -1, 2**31, 1.5, True, "8", [1], None])
def test_sizes_and_ids_are_in_range(value: object) -> None:
    settings = Settings({"hidden_size": value, "pad_token_id": value}, "config.json")
    with pytest.raises(FloatlensError, match="hidden_size"):
        settings.integer("hidden_size")
    if value not in (0, None):
        with pytest.raises(FloatlensError, match="pad_token_id"):
            settings.token("pad_token_id")


@pytest.mark.parametrize("name", ["x" * 256, "ü" * 128, "a/" * 3000, "y" * 10_000])
def test_names_that_no_file_can_have(name: str, tmp_path: Path) -> None:
    study = tmp_path / "study.yaml"
    study.write_text(f"models: [scale:llada]\ndata: ['{name}']\n")
    for read in (load, look, open_data, lambda _: make_plan(read_study(study))):
        with pytest.raises(FloatlensError, match="no file has a name of") as caught:
            read(name)
        assert len(str(caught.value)) < 500
