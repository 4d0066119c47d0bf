"""A tiny LLaDA checkpoint that can be asked in words: the golden one with more room and a tokenizer of characters."""

from __future__ import annotations

import json
import shutil
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

GOLDEN = Path(__file__).parents[1] / "golden" / "llada-tiny"
VOCABULARY, MASK = 160, 150
WORDS = " the of to and in a is that for it as was with be by on not he his but at are this have from or had an they"


def write_tokenizer(folder: Path) -> None:
    """One token per printable character; the ids that are left are words, so that answers look like something."""
    names = ["<s>", "</s>", "<unk>", "\n", *string.printable[:95]]
    words = [f" {word}" for word in WORDS.split()]
    names += words + [f" w{i}" for i in range(VOCABULARY - len(names) - len(words))]
    names[MASK] = "<|mdm_mask|>"
    backend = Tokenizer(models.BPE({name: i for i, name in enumerate(names)}, [], unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    backend.decoder = decoders.Fuse()
    backend.add_special_tokens(["<s>", "</s>", "<unk>", "<|mdm_mask|>"])
    backend.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    backend.save(str(folder / "tokenizer.json"))
    names_of = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **names_of})
    )


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """3 layers, 4 heads, 480 positions, 160 words, mask 150."""
    folder = tmp_path_factory.mktemp("llada-words")
    shutil.copy(GOLDEN / "model.safetensors", folder)
    config = json.loads((GOLDEN / "config.json").read_text()) | {"max_sequence_length": 480}
    (folder / "config.json").write_text(json.dumps(config))
    write_tokenizer(folder)
    return folder


@pytest.fixture
def data(tmp_path: Path) -> Callable[..., Path]:
    """`data(3)` writes three good questions; records given as dicts or raw texts are written instead."""

    def write(count: int = 3, *records: Any) -> Path:
        lines = records or [
            {
                "id": f"q{i}",
                "question": f"who built house {i}?",
                "answers": [f"Ann{i}"],
                "documents": [
                    {"title": "Rain", "text": "It rained."},
                    {"title": f"House {i}", "text": f"Ann{i} built house {i}.", "is_gold": True},
                ],
            }
            for i in range(count)
        ]
        path = tmp_path / "questions.jsonl"
        path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in lines))
        return path

    return write


@pytest.fixture(autouse=True)
def _no_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Output as in a pipe; pytest-xdist sets COLUMNS."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def floatlens(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """`floatlens("models")` runs the command line here: exit code, stdout, stderr."""
    from floatlens.cli import main

    def run(*args: str | Path) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([str(arg) for arg in args])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def unpublished(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records and traces alone, without the tables and figures that take longer than the items."""
    from floatlens.runs import publish

    monkeypatch.setattr(publish, "publish_study", lambda *_, **__: publish.Findings())
