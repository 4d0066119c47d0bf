"""A study that is killed again and again ends with the records and the traces of one that was left alone."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from small import assert_same, bare

pytestmark = pytest.mark.slow
KILLS = 25
STUDY = """
name: killed
models: [scale:llada, scale:qwen]
data:
  - {ref: "scale:rag:documents=3", limit: 60, conditions: [closed, rag, noise, "drop_anchors:k=1"]}
decoding: {settings: {gen_length: 4}}
stress: {noise_ratios: [0, 0.4], noise_documents: 3}
traces: {questions: 20, places: [0, 2], documents: 3, probes: [received, flow], edited: 2}
output: {figures: [png], report: false}
analyses: [drift, flow]
machine: {batch: 4}
"""
ITEMS = 2 * (60 * 7 + 2 * 20)


def command(study: Path, out: Path, workers: int, executor: str) -> list[str]:
    options = ("--workers", str(workers), "--executor", executor, "--out", str(out))
    return [sys.executable, "-m", "floatlens", "run", str(study), *options]


def lines(out: Path) -> int:
    path = out / "records.jsonl"
    return path.read_bytes().count(b"\n") if path.is_file() else 0


def killed(study: Path, out: Path, kills: int, executor: str) -> None:
    """Start it, kill it somewhere, start it again."""
    moments = random.Random(0)
    for kill in range(kills):
        workers = 1 + kill % 2
        process = subprocess.Popen(
            command(study, out, workers, executor), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        if kill % 5:  # most while it writes, some while it starts
            goal = lines(out) + moments.randint(1, 20)
            while lines(out) < goal and process.poll() is None:
                time.sleep(0.002)
            time.sleep(moments.random() * 0.3)
        else:
            time.sleep(moments.random() * 8)
        assert process.poll() is None, "the run was over before it could be killed; ask more questions"
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study") / "killed.yaml"
    path.write_text(STUDY)
    return path


@pytest.fixture(scope="module")
def whole(study: Path) -> Path:
    """Left alone."""
    out = study.parent / "whole"
    subprocess.run(command(study, out, 1, "local"), check=True, capture_output=True)
    assert len(bare(out)) == ITEMS
    return out


def test_killed_at_25_moments(study: Path, whole: Path, tmp_path: Path) -> None:
    killed(study, tmp_path / "torn", KILLS, "local")
    last = subprocess.run(command(study, tmp_path / "torn", 2, "local"), check=True, capture_output=True, text=True)
    assert f"{ITEMS} of {ITEMS} items" in last.stderr
    assert_same(whole, tmp_path / "torn")


@pytest.mark.skipif(find_spec("ray") is None, reason='Ray is not installed (pip install "floatlens[ray]")')
def test_killed_on_ray(study: Path, whole: Path, tmp_path: Path) -> None:
    killed(study, tmp_path / "torn", 4, "ray")
    subprocess.run(command(study, tmp_path / "torn", 2, "ray"), check=True, capture_output=True)
    assert_same(whole, tmp_path / "torn")
