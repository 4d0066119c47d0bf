"""A run that is killed again and again ends with the records and traces of one that was left alone, for each preset.

The short form kills few times at fixed moments and is run by CI; the long form kills at random moments.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from shared.killing import MORE, Real, crash_at, finish, kill_after, kill_again_and_again, zygote
from shared.small import assert_same, bare

pytestmark = pytest.mark.slow
SHORT = bool(os.environ.get("FLOATLENS_SHORT"))
START, STRIDE = 8, 5
"""Of the calls that can be the last one: the first eight, then every fifth in the short form."""
long = pytest.mark.skipif(SHORT, reason="CI runs the short form")
STUDY = """
name: killed
models: [scale:llada, scale:qwen]
data:
  - {ref: "scale:rag:documents=3", limit: LIMIT, conditions: [closed, rag, "drop_anchors:k=1"]}
decoding: {settings: {gen_length: 4, steps: 2}}
traces: {questions: TRACED, probes: [received], edited: 1}
controls: {shuffled_weights: 1}
output: {figures: [png], report: false}
analyses: [drift]
machine: {batch: 2}
"""
KILLS, RAY_KILLS, RECORDS, BATCH = 18, 10, 4, 2
"""100 kills: 18 of each of five presets, 10 of a driver on Ray."""
QUICK = ("--batch", str(BATCH), "--set", "gen_length=4", "--set", "steps=2", "--no-report")
DATA = ("scale:llada", "--data", "scale:rag:documents=3")
PRESETS = {
    "qa": ("qa", *DATA, *QUICK),
    "stress": ("stress", *DATA, "--test", "order:shuffles=2", "--documents", "3", *QUICK),
    "intervene": ("intervene", *DATA, "--edit", "drop_anchors:k=1", "--traces", "1", *QUICK),
    "trace": ("trace", *DATA, "--probes", "received", "--controls", "1", *QUICK),
    "run": ("run",),
}


def command(name: str, out: Path, limit: int) -> list[str]:
    """The command of a preset; `limit` is the number of questions."""
    if name != "run":
        return [*PRESETS[name], "--limit", str(limit), "--out", str(out)]
    path = out.parent / f"killed-{limit}.yaml"
    path.write_text(STUDY.replace("LIMIT", str(limit)).replace("TRACED", str(limit // 2)))
    return ["run", str(path), "--out", str(out)]


@pytest.fixture(scope="module")
def forks() -> Iterator[subprocess.Popen[str]]:
    with zygote() as process:
        yield process


@pytest.mark.parametrize("name", PRESETS)
def test_killed_at_three_moments(name: str, forks: subprocess.Popen[str], tmp_path: Path) -> None:
    whole, torn = tmp_path / "whole", tmp_path / "torn"
    finish(command(name, whole, 6), whole, forks)
    items = len(bare(whole))
    for records in (0, 1, items // 2):
        kill_after(command(name, torn, 6), torn, forks, records)
    assert f"{items} of {items} items" in finish(command(name, torn, 6), torn, forks)
    assert_same(whole, torn)


@pytest.mark.parametrize("name", PRESETS)
def test_killed_at_every_sync_and_rename(name: str, forks: subprocess.Popen[str], tmp_path: Path) -> None:
    """Each crash is of a start into a new folder, so all points of the first start are met; then it is continued."""
    whole = tmp_path / "whole"
    finish(command(name, whole, 2), whole, forks)
    items, number = len(bare(whole)), 1
    while True:
        torn = tmp_path / f"torn-{number}"
        if not crash_at(command(name, torn, 2), torn, forks, number):
            break
        assert f"{items} of {items} items" in finish(command(name, torn, 2), torn, forks), number
        assert_same(whole, torn)
        number += 1 if number < START or not SHORT else STRIDE
    assert number > START


def test_killed_while_it_publishes(forks: subprocess.Popen[str], tmp_path: Path) -> None:
    """Tables and figures are the same after crashes at their syncs and renames, and nothing is left beside them."""
    whole, torn = tmp_path / "whole", tmp_path / "torn"
    finish(command("run", whole, 2), whole, forks, publish=True)
    finish(command("run", torn, 2), torn, forks)
    number = 1
    while crash_at(command("run", torn, 2), torn, forks, number, publish=True):
        number += 3 * STRIDE if SHORT else 3  # a write is a sync, a rename and a sync of the folder
    assert number > START
    assert_same(whole, torn)
    assert _published(torn) == _published(whole)


def _published(out: Path) -> dict[str, bytes | None]:
    """Files by name, and the content of tables: figures and results say when they were made."""
    files = sorted(path for path in out.rglob("*") if path.is_file() and "traces" not in path.parts)
    return {str(path.relative_to(out)): path.read_bytes() if path.suffix == ".csv" else None for path in files}


@long
@pytest.mark.parametrize("name", PRESETS)
def test_killed_at_random_moments(name: str, forks: subprocess.Popen[str], tmp_path: Path) -> None:
    whole, torn = tmp_path / "whole", tmp_path / "torn"
    limit = 190 if name == "trace" else 95  # more items than the kills can let pass
    finish(command(name, whole, limit), whole, forks)
    items = len(bare(whole))
    assert items > KILLS * (RECORDS + MORE + BATCH)
    kill_again_and_again(command(name, torn, limit), torn, forks, kills=KILLS, real=2, records=RECORDS)
    assert f"{items} of {items} items" in finish(command(name, torn, limit), torn, forks)
    assert_same(whole, torn)


@long
@pytest.mark.skipif(find_spec("ray") is None, reason='Ray is not installed (pip install "floatlens[ray]")')
def test_a_killed_driver_on_ray(forks: subprocess.Popen[str], tmp_path: Path) -> None:
    whole, torn = tmp_path / "whole", tmp_path / "torn"
    finish(command("run", whole, 24), whole, forks)
    args = [*command("run", torn, 24), "--executor", "ray"]
    assert len(bare(whole)) > RAY_KILLS * (RECORDS + MORE + BATCH)
    kill_again_and_again(args, torn, forks, kills=RAY_KILLS, real=RAY_KILLS, records=RECORDS)
    assert Real([*args, "--workers", "2"], tmp_path / "last").wait() == 0
    assert_same(whole, torn)
