"""Ray as executor: every task once, failures tried again, dead actors replaced, and the same study as without it."""

from __future__ import annotations

import builtins
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import floatlens as fl
from floatlens.errors import FloatlensError
from floatlens.study.workers import ATTEMPTS, Holder

sys.path.insert(0, str(Path(__file__).parent))

from small import STUDY, assert_same

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason='Ray is not installed (pip install "floatlens[ray]")')


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def absent(name: str, *rest: Any) -> Any:
        if name == "ray":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", absent)
    from floatlens.study.ray_workers import RayWorkers

    with pytest.raises(FloatlensError, match=r'pip install "floatlens\[ray\]"'):
        RayWorkers(1)


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
            raise ValueError("not yet")
        return 2 * self.number

    def failed(self, error: str) -> str:
        return error


@needs_ray
@pytest.mark.slow
def test_every_task_is_done_whatever_happens_to_workers(tmp_path: Path) -> None:
    import ray

    from floatlens.study.ray_workers import RayWorkers

    ray.cloudpickle.register_pickle_by_value(sys.modules[Job.__module__])  # the actors cannot import a test
    folder = str(tmp_path)
    jobs = [Job(i, folder) for i in range(6)]
    jobs += [Job(6, folder, raises=1), Job(7, folder, raises=9), Job(8, folder, dies=1), Job(9, folder, dies=9)]
    with RayWorkers(2, threads=1) as team:
        found = {job.number: result for job, result in team.run(jobs)}  # type: ignore[attr-defined]
        assert {i: found[i] for i in (*range(7), 8)} == {i: 2 * i for i in (*range(7), 8)}
        assert found[7] == "ValueError: not yet (tried 3 times)"
        assert str(found[9]).startswith("the Ray worker was lost (")
        assert len((tmp_path / "7").read_text()) == len((tmp_path / "9").read_text()) == ATTEMPTS
    assert not ray.is_initialized()


@needs_ray
@pytest.mark.slow
def test_more_than_there_is_is_refused() -> None:
    from floatlens.study.ray_workers import RayWorkers

    with (
        pytest.raises(FloatlensError, match="1 workers with 1 CPUs and 64 GPUs each are asked for"),
        RayWorkers(1, gpus=64),
    ):
        pass


@needs_ray
@pytest.mark.slow
def test_a_study_with_killed_actors_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from floatlens.study import ray_workers
    from floatlens.study.spread import Spread

    study = {**STUDY, "output": {"figures": ["png"], "report": False}}
    fl.run(study, tmp_path / "here")
    killed: list[int] = []

    class Murderous(Spread[Any]):
        """Kills the actor that is busy with every seventh task, at once."""

        def run(self, tasks: Iterator[Any]) -> Iterator[Any]:
            return super().run(self._counted(tasks))

        def _counted(self, tasks: Iterable[Any]) -> Iterator[Any]:
            for number, task in enumerate(tasks):
                busy = [worker for worker in self._team if worker.pending is not None]
                if number % 7 == 3 and busy:
                    killed.append(number)
                    worker = busy[0]
                    worker._ray.kill(worker.actor)
                yield task

    monkeypatch.setattr(ray_workers, "Spread", Murderous)
    fl.run(study, tmp_path / "ray", workers=2, executor="ray")
    assert len(killed) >= 2
    assert_same(tmp_path / "here", tmp_path / "ray")
