"""`floatlens scale`: training that goes on, a table, files of questions, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from floatlens.data import read_examples
from floatlens.subjects.scale import questions
from floatlens_lab.scale.recipe import Recipe, Stage

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    stage = Stage(name="words", steps=55, length=24, rows=2, documents=(2, 2), mixture={"words": 1.0}, names=4)
    path = tmp_path / "recipe.json"
    path.write_text(Recipe(stages=(stage,), decay=5).model_dump_json())
    return path


def test_train_writes_a_folder_that_loads(floatlens: Run, tmp_path: Path, recipe: Path) -> None:
    out = tmp_path / "models"
    code, _, err = floatlens("scale", "train", "--model", "llada", "--out", out, "--recipe", recipe)
    assert code == 0, err
    assert "llada: 0.0 million tokens in" in err
    names = {"config.json", "model.safetensors", "tokenizer.json", "training.jsonl", "training.png"}
    assert names <= {path.name for path in (out / "llada").iterdir()}
    assert "llada (masked diffusion)" in floatlens("models", out / "llada")[1]
    code, _, err = floatlens("scale", "train", "--model", "llada", "--out", out, "--recipe", recipe)
    assert (code, "finished already" in err) == (0, True)


def test_train_needs_to_know_what(floatlens: Run, tmp_path: Path) -> None:
    for arguments in ((), ("--all", "--model", "llada")):
        code, _, err = floatlens("scale", "train", "--out", tmp_path, *arguments)
        assert (code, err) == (2, "floatlens: give either --model NAME (repeatable) or --all\n")
    code, _, err = floatlens("scale", "train", "--out", tmp_path, "--model", "lama")
    assert (code, err) == (2, 'floatlens: no scale model "lama"; did you mean "llama"?\n')


def test_questions_go_into_a_file_that_trace_reads(floatlens: Run, tmp_path: Path) -> None:
    out = tmp_path / "new" / "q.jsonl"
    arguments = ("scale", "questions", "--out", out, "--count", 7, "--documents", 3, "--place", 2)
    code, _, err = floatlens(*map(str, arguments))
    assert code == 0
    assert f"7 questions in {out}" in err
    made = list(read_examples(out))
    assert made == questions("rag", 7, documents=3, gold=2)
    code, _, err = floatlens(*map(str, arguments))
    assert (code, "the file exists" in err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--question-set", "rga"), 'no question set "rga"; did you mean "rag"?'),
        (("--documents", "40"), "documents=40: the scale models were trained on 1 to 12"),
        (("--place", "10"), "gold=10: give a place from 0 to 9, for rag, known or counterfactual questions"),
    ],
)
def test_questions_that_cannot_be_asked(
    floatlens: Run, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    code, _, err = floatlens("scale", "questions", "--out", tmp_path / "q.jsonl", *arguments)
    assert (code, err) == (2, f"floatlens: {message}\n")
    assert not (tmp_path / "q.jsonl").exists()


def test_eval_prints_a_table(floatlens: Run, tmp_path: Path, recipe: Path) -> None:
    assert floatlens("scale", "train", "--model", "llama", "--out", tmp_path, "--recipe", recipe)[0] == 0
    model = tmp_path / "llama"
    code, out, _ = floatlens("scale", "eval", model, "--count", "10", "--question-sets", "rag,closed-known")
    assert code == 0
    head, row, guessing, *_ = out.splitlines()
    assert head.split() == ["accuracy,", "%", "rag", "closed-known"]
    assert row.startswith(str(model))
    assert guessing.startswith("guessing")
    places = out.splitlines()[-1].split()
    assert places[0] == str(model)
    assert len(places) == 11
    code, _, err = floatlens("scale", "eval", model, "--question-sets", "rag,three-hop")
    assert (code, "no question set" in err) == (2, True)


def test_help_lists_the_commands(floatlens: Run) -> None:
    _, out, _ = floatlens("scale", "--help")
    assert all(name in out for name in ("train", "eval", "questions"))
