"""Workers: every task once, whoever does it; failures tried again, dead processes replaced, orphans ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from floatlens.runs.scheduling import ATTEMPTS
from floatlens.runs.workers import Holder, Workers

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Job:
    """Doubles a number; may raise or die the first times, which it counts in a file."""

    number: int
    folder: str
    raises: int = 0
    dies: int = 0

    def perform(self, holder: Holder) -> int:
        marks = Path(self.folder) / f"{self.number}"
        tried = len(marks.read_text()) if marks.is_file() else 0
        marks.write_text("x" * (tried + 1))
        if tried < self.dies:
            os.kill(os.getpid(), signal.SIGKILL)
        if tried < self.raises:
            raise ValueError(f"not yet, says {os.getpid()}")
        return 2 * self.number

    def failed(self, error: str) -> str:
        return error


def done(workers: Workers, jobs: list[Job]) -> dict[int, object]:
    with workers:
        return {job.number: result for job, result in workers.run(jobs)}  # type: ignore[attr-defined]


@pytest.mark.parametrize("count", [1, 2])
def test_every_task_is_done_once(tmp_path: Path, count: int) -> None:
    jobs = [Job(i, str(tmp_path)) for i in range(9)]
    assert done(Workers(count), jobs) == {i: 2 * i for i in range(9)}
    assert all((tmp_path / f"{i}").read_text() == "x" for i in range(9))


def test_what_fails_or_dies_is_tried_again_and_the_others_go_on(tmp_path: Path) -> None:
    folder = str(tmp_path)
    jobs = [Job(0, folder, raises=2), Job(1, folder, dies=1), Job(2, folder, raises=9), Job(3, folder), Job(4, folder)]
    jobs.append(Job(5, folder, dies=9))
    found = done(Workers(2), jobs)
    assert {i: found[i] for i in (0, 1, 3, 4)} == {0: 0, 1: 2, 3: 6, 4: 8}
    assert str(found[2]).startswith("ValueError: not yet, says ")
    assert str(found[2]).endswith("(tried 3 times)")
    assert "the worker process died (exit code -9)" in str(found[5])
    assert len((tmp_path / "2").read_text()) == len((tmp_path / "5").read_text()) == ATTEMPTS


def test_in_this_process_a_failure_is_on_record_at_once(tmp_path: Path) -> None:
    assert done(Workers(1), [Job(0, str(tmp_path), raises=9), Job(1, str(tmp_path))])[1] == 2
    assert (tmp_path / "0").read_text() == "x"


def test_leaving_early_does_not_wait(tmp_path: Path) -> None:
    def stop_at_once() -> None:
        with Workers(2) as workers:
            for _ in workers.run([Job(i, str(tmp_path)) for i in range(1000)]):
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop_at_once()
    assert len(list(tmp_path.iterdir())) < 100


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        textwrap.dedent(
            """
            import time
            from floatlens.runs.workers import Workers

            if __name__ == "__main__":
                with Workers(2) as workers:
                    print(*(worker.process.pid for worker in workers._team), flush=True)
                    time.sleep(600)
            """
        )
    )
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = parent.stdout.readline().split()
        time.sleep(1)
        parent.kill()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and any(Path("/proc", pid).exists() for pid in pids):
        time.sleep(0.2)
    assert not any(Path("/proc", pid).exists() for pid in pids)
