"""A study that is killed again and again ends with the records and the traces of one that was left alone."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from shared.killing import Real, finish, kill_again_and_again, zygote
from shared.small import assert_same, bare

pytestmark = pytest.mark.slow
STUDY = """
name: killed
models: [scale:llada, scale:qwen]
data:
  - {ref: "scale:rag:documents=3", limit: 24, conditions: [closed, rag, "drop_anchors:k=1"]}
decoding: {settings: {gen_length: 4, steps: 2}}
traces: {questions: 12, probes: [received], edited: 1}
output: {figures: [png], report: false}
analyses: [drift]
machine: {batch: 2}
"""
ITEMS = 2 * (24 * 4 + 12)


def args(study: Path, out: Path, executor: str = "local") -> list[str]:
    return ["run", str(study), "--executor", executor, "--out", str(out)]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study") / "killed.yaml"
    path.write_text(STUDY)
    return path


@pytest.fixture(scope="module")
def forks() -> Iterator[subprocess.Popen[str]]:
    with zygote() as process:
        yield process


@pytest.fixture(scope="module")
def whole(study: Path, forks: subprocess.Popen[str]) -> Path:
    """Left alone."""
    out = study.parent / "whole"
    finish(args(study, out), out, forks)
    assert len(bare(out)) == ITEMS
    return out


def test_killed_at_25_moments(study: Path, whole: Path, forks: subprocess.Popen[str], tmp_path: Path) -> None:
    torn = tmp_path / "torn"
    kill_again_and_again(args(study, torn), torn, forks, kills=25, real=5, records=6)
    assert f"{ITEMS} of {ITEMS} items" in finish(args(study, torn), torn, forks)
    assert_same(whole, torn)


@pytest.mark.skipif(find_spec("ray") is None, reason='Ray is not installed (pip install "floatlens[ray]")')
def test_a_killed_driver_on_ray(study: Path, whole: Path, forks: subprocess.Popen[str], tmp_path: Path) -> None:
    torn = tmp_path / "torn"
    kill_again_and_again(args(study, torn, "ray"), torn, forks, kills=2, real=2, records=20)
    assert Real([*args(study, torn, "ray"), "--workers", "2"], tmp_path / "last").wait() == 0
    assert_same(whole, torn)
