"""The fuzzer sees everything that can go wrong in a child, and its cases can be brought back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from floatlens.core.errors import FloatlensError
from floatlens_lab.fuzz.__main__ import main
from floatlens_lab.fuzz.archives import entries_of, resealed, root_of, unsealed
from floatlens_lab.fuzz.child import run_case
from floatlens_lab.fuzz.junk import JUNK, change_kind, flipped, replaced_somewhere
from floatlens_lab.fuzz.model_damage import DAMAGE as MODEL_DAMAGE
from floatlens_lab.fuzz.model_damage import weigh_infinitely
from floatlens_lab.fuzz.models import linked_copy
from floatlens_lab.fuzz.runner import FAILURES, fuzz
from floatlens_lab.fuzz.subject import SUBJECTS, load_subject
from floatlens_lab.fuzz.trace_damage import DAMAGE, FILE_DAMAGE
from floatlens_lab.fuzz.traces import TraceFiles
from shared.synthetic import ready

MISBEHAVING = "shared.misbehaving:Misbehaving"


def test_every_kind_of_failure_is_seen_and_costs_one_case() -> None:
    found = fuzz(MISBEHAVING, seed=3, seconds=1.0)
    seen = [(one.case, one.outcome) for one in found.failures]
    assert seen == [
        (1, "traceback"),
        (2, "hang"),
        (3, "memory"),
        (4, "crash"),
        (5, "different"),
        (6, "long message"),
    ]
    assert {name for _, name in seen} == set(FAILURES)
    assert found.outcomes == {**dict.fromkeys(FAILURES, 1), "refused": 1, "told": 1}
    assert "ZeroDivisionError" in found.failures[0].text
    assert "exit 3" in found.failures[3].text


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fuzz") / "prepared"
    folder.mkdir()
    ready("moving", causal=False, sample=0).save(folder / "diffusion")
    ready("fixed", causal=True, sample=1).save(folder / "autoregressive")
    return folder


def test_traces(prepared: Path) -> None:
    """Some damaged traces, in this process: refused in one line, unchanged, or with a word."""
    subject = TraceFiles()
    found = [run_case(subject, prepared, "traces", 1, number) for number in range(30)]
    bad = [one for one in found if one["outcome"] in FAILURES]
    assert not bad, bad
    assert sum(one["outcome"] == "refused" for one in found) > 15


@pytest.mark.parametrize(
    ("name", "cases", "least"), [("data", 60, 15), ("studies", 20, 5), ("models", 12, 3), ("adapters", 6, 0)]
)
def test_others(name: str, cases: int, least: int, tmp_path: Path) -> None:
    """Some damaged inputs of every other kind, in this process; nothing of what they hold is run."""
    subject, folder = load_subject(name), tmp_path / "prepared"
    folder.mkdir()
    subject.prepare(folder)
    found = [run_case(subject, folder, name, 1, number) for number in range(cases)]
    bad = [one for one in found if one["outcome"] in FAILURES]
    assert not bad, bad
    assert sum(one["outcome"] == "refused" for one in found) >= least
    assert not Path("/tmp/floatlens-fuzz-ran").exists()


@pytest.mark.parametrize("name", sorted(set(SUBJECTS) - {"traces"}))
def test_what_is_not_damaged_is_read(name: str, tmp_path: Path) -> None:
    """`warm` reads it as `read` does: a subject that refuses everything would find nothing."""
    subject = load_subject(name)
    subject.prepare(tmp_path)
    subject.warm(tmp_path)


@pytest.mark.parametrize("kind", sorted(MODEL_DAMAGE))
def test_every_damage_of_models_damages(kind: str, tmp_path: Path) -> None:
    """The files of the folder change, and those that it has links to do not."""
    source = tmp_path / "source"
    source.mkdir()
    for name in ("config.json", "tokenizer_config.json"):
        (source / name).write_text(json.dumps({"model_type": "x", "a": [1, {"b": 2}]}))
    save_file({"a": torch.ones(2, 3)}, source / "model.safetensors")
    before = {path.name: path.read_bytes() for path in source.iterdir()}
    changed = False
    for number in range(5):
        copy = linked_copy(source, tmp_path / str(number))
        MODEL_DAMAGE[kind](Random(number), copy)
        there = {path.name for path in copy.iterdir()}
        same = there == set(before) and all((copy / name).is_file() for name in before)
        changed |= not (same and all((copy / name).read_bytes() == before[name] for name in before))
    assert changed
    assert {path.name: path.read_bytes() for path in source.iterdir()} == before


def test_an_infinite_weight_is_written(tmp_path: Path) -> None:
    save_file({"a": torch.ones(2, 3)}, tmp_path / "model.safetensors")
    assert weigh_infinitely(Random(0), tmp_path) == "infinite a"
    assert int((~torch.isfinite(load_file(tmp_path / "model.safetensors")["a"])).sum()) == 1


def test_other_kinds_of_files(tmp_path: Path) -> None:
    seen = set()
    for number in range(60):
        path = tmp_path / str(number)
        path.write_text("x")
        kind = change_kind(Random(number), path)
        seen.add(kind)
        assert path.is_dir() == (kind == "folder")
        assert path.is_file() == (kind in ("huge", "empty"))
        assert path.is_symlink() == (kind.startswith("link") or kind == "device")
        path.unlink(missing_ok=True) if not path.is_dir() else path.rmdir()
    assert len(seen) == 8


def test_a_case_depends_on_its_number_only(prepared: Path) -> None:
    texts = [
        [run_case(TraceFiles(), prepared, "traces", 5, at)["done"] for at in order] for order in ((0, 1, 2), (2, 1))
    ]
    assert texts[0][::-1][:2] == texts[1]


@pytest.mark.parametrize("kind", sorted(DAMAGE))
def test_every_damage_damages(kind: str, prepared: Path) -> None:
    entries = entries_of(prepared / "diffusion.zarr.zip")
    rng = Random(kind)
    assert any(DAMAGE[kind](rng, dict(entries)) != entries for _ in range(5))


@pytest.mark.parametrize("kind", sorted(FILE_DAMAGE))
def test_every_damage_of_files_damages(kind: str, prepared: Path) -> None:
    path = prepared / "diffusion.zarr.zip"
    assert FILE_DAMAGE[kind](Random(1), path.read_bytes(), entries_of(path)) != path.read_bytes()


def test_seals(prepared: Path) -> None:
    entries = entries_of(prepared / "diffusion.zarr.zip")
    assert "digests" not in root_of(unsealed(entries))["attributes"]
    assert root_of(resealed(entries)) == root_of(entries)


def test_junk_reaches_every_depth() -> None:
    made = {replaced_somewhere(Random(seed), {"a": {"b": [1, 2]}}) for seed in range(300)}
    assert len(made) > len(JUNK)
    assert any(b"[[[[" in one for one in made)
    assert any(b"9" * 5000 in one for one in made)
    assert flipped(Random(0), b"") == b""
    assert sum(bin(x ^ y).count("1") for x, y in zip(flipped(Random(0), b"abc"), b"abc", strict=True)) == 1


def test_the_command(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setitem(SUBJECTS, "traces", MISBEHAVING)
    made: list[Any] = []
    run: Callable[..., Any] = fuzz
    monkeypatch.setattr("floatlens_lab.fuzz.__main__.fuzz", lambda *a, **k: made.append(a) or run(MISBEHAVING, 2, 3))
    assert main(["--only", "--traces", "2", "--seed", "3"]) == 1
    assert made == [("traces", 2, 3, 0)]
    said = capsys.readouterr().out
    assert "again: python -m floatlens_lab.fuzz --only --shared.misbehaving:Misbehaving 1 --seed 3 --first 1" in said
    assert main(["--only", "--traces", "0"]) == 0


def test_unknown_subjects() -> None:
    with pytest.raises(FloatlensError, match='no subject "trace" to fuzz; did you mean "traces"'):
        load_subject("trace")
