"""`floatlens data`: what a file was taken for, its counts and lengths, and a prompt that never becomes markup."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

FIXTURES = Path(__file__).parents[1] / "data" / "fixtures"
FILES = sorted(path for path in FIXTURES.iterdir() if path.stem != "corpus")
Run = Callable[..., tuple[int, str, str]]


def test_counts_and_lengths(floatlens: Run) -> None:
    code, out, err = floatlens("data", FIXTURES / "hotpotqa.jsonl")
    assert (code, err) == (0, "")
    plain = " ".join(out.split())
    assert "taken for HotpotQA, distractor setting: 2 questions, 2 to 3 documents, 2 gold each" in plain
    assert 'because it has "context" with titles and sentences' in plain
    assert "answers 2 accepted answers of 2 questions" in plain
    assert "documents 5, 4 of them gold" in plain
    assert "length in words number median longest question 2 9 10" in plain  # 10 and 8 words
    assert "first example (h1) Answer the question" in plain
    assert "[3] Title: Orrin Orrin has a lighthouse. Orrin is in Hest." in plain
    assert plain.endswith("accepted: Hest")


def test_lengths_in_tokens_of_a_model(floatlens: Run, model: Path) -> None:
    code, out, _ = floatlens("data", FIXTURES / "qa.jsonl", "--model", model, "--limit", "1")
    plain = " ".join(out.split())
    asked = "who keeps the lighthouse of orrin"  # the tokenizer has a token per character
    assert code == 0
    assert "1 question, no documents" in plain
    assert f"length in tokens number median longest question 1 {len(asked)} {len(asked)}" in plain


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_format_fits_eighty_columns(floatlens: Run, monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = floatlens("data", path)
    assert (code, err) == (0, "")
    assert max(len(line.rstrip()) for line in out.splitlines()) <= 80
    assert "taken for" in out


def test_text_from_data_is_not_markup(floatlens: Run, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    record = {"id": "[red]a[/]", "question": "Who \x1b[31m[bold]built[/] it?", "answers": ["[link=x]Ann[/]"]}
    path.write_text(json.dumps(record) + "\n")
    code, out, _ = floatlens("data", path)
    assert code == 0
    assert "\x1b" not in out
    assert "first example ([red]a[/])" in out
    assert "Who [31m[bold]built[/] it?" in out
    assert "accepted: [link=x]Ann[/]" in out


def test_a_named_format_and_what_is_missing(floatlens: Run) -> None:
    _, out, _ = floatlens("data", FIXTURES / "psg.jsonl", "--format", "psg")
    plain = " ".join(out.split())
    assert "because the format was named" in plain
    assert "note 1 of 3 questions has no documents" in plain
    assert "note no document is marked as gold" in plain
    assert "because the format was named" in " ".join(floatlens("data", f"nq={FIXTURES / 'psg.jsonl'}")[1].split())
    _, out, _ = floatlens("data", FIXTURES / "psg.jsonl", "--gold", "answer")
    assert "3, 2 of them gold" in out
    assert floatlens("data", FIXTURES / "psg.jsonl", "--format", "litm")[0] == 2


def test_generated_questions(floatlens: Run) -> None:
    code, out, _ = floatlens("data", "scale:rag:documents=3", "--limit", "4")
    assert code == 0
    assert "4 questions, 3 documents each, 1 gold each" in " ".join(out.split())
