"""Ray as executor: every task once, failures tried again, dead actors replaced, and the same study as without it."""

from __future__ import annotations

import builtins
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

import floatlens as fl
from floatlens.core.errors import FloatlensError
from floatlens.runs.scheduling import ATTEMPTS
from floatlens.runs.workers import Holder
from shared.killing import moments
from shared.small import STUDY, assert_same

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason='Ray is not installed (pip install "floatlens[ray]")')


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def absent(name: str, *rest: Any) -> Any:
        if name == "ray":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", absent)
    from floatlens.runs.ray_workers import RayWorkers

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

    from floatlens.runs.ray_workers import RayWorkers

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


class LostError(Exception):
    """What stands in for Ray's errors."""


class Actor:
    """Answers at once, or never, or dies: what a stand-in for Ray's actors is told to do."""

    def __init__(self, ray: FakeRay, number: int) -> None:
        self._fate = ray.fates[number] if number < len(ray.fates) else ray.fates[-1]
        self.pid = self.perform = self

    def remote(self, task: Any = None) -> Any:
        promise = object()
        FakeRay.promises[promise] = (self._fate, None if task is None else 2 * task.number)
        return promise


class FakeRay:
    """As much of Ray as the driver uses; `fates` of actors in the order in which they are started."""

    promises: ClassVar[dict[Any, tuple[str, Any]]] = {}
    exceptions = SimpleNamespace(RayError=LostError)

    def __init__(self, *fates: str, nodes: Sequence[dict[str, float]] = ({"CPU": 8.0},)) -> None:
        self.fates, self.started = fates, 0
        self._nodes = [{"Alive": True, "Resources": node} for node in nodes]

    def is_initialized(self) -> bool:
        return True

    def nodes(self) -> list[dict[str, Any]]:
        return self._nodes

    def remote(self, **asked: float) -> Any:
        def kind(cls: type) -> Any:
            return SimpleNamespace(remote=self._start)

        return kind

    def _start(self, threads: int) -> Actor:
        self.started += 1
        return Actor(self, self.started - 1)

    def wait(self, promises: list[Any], *, num_returns: int, timeout: float | None) -> tuple[list[Any], list[Any]]:
        done = [one for one in promises if self._comes(one)][:num_returns]
        assert done or timeout is not None, "this would wait for ever"
        return done, [one for one in promises if one not in done]

    def _comes(self, promise: Any) -> bool:
        return self.promises[promise][0] != "absent"

    def get(self, promise: Any) -> Any:
        fate, value = self.promises[promise]
        if fate == "still-born" or (fate == "mortal" and value is not None):
            raise LostError("the actor is dead\nand more")
        return 1 if value is None else (True, value)

    def kill(self, actor: Actor) -> None:
        """Nothing to do."""


def team(monkeypatch: pytest.MonkeyPatch, ray: FakeRay, count: int | None, **how: Any) -> Any:
    from floatlens.runs import ray_workers

    monkeypatch.setattr(ray_workers, "import_ray", lambda own: ray)
    return ray_workers.RayWorkers(count, **{"patience": 0.2, **how})


@pytest.mark.parametrize(
    "fates",
    [("here", "here"), ("absent", "here"), ("here", "absent"), ("mortal", "absent", "here"), ("still-born", "here")],
    ids=str,
)
def test_an_actor_without_a_place_holds_up_nothing(fates: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    jobs = [Job(i, str(tmp_path)) for i in range(5)]
    with team(monkeypatch, FakeRay(*fates), 2) as workers:
        assert {job.number: found for job, found in workers.run(jobs)} == {i: 2 * i for i in range(5)}


@pytest.mark.parametrize(
    ("fate", "why"),
    [("absent", "others may be using the cluster"), ("still-born", "the last one said: the actor is dead")],
)
def test_without_any_worker_it_ends_with_one_line(
    fate: str, why: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    message = rf"no Ray worker could be started within 0\.2 s: each asks for 1 CPUs and 0 GPUs; {why}"
    with team(monkeypatch, FakeRay(fate), 2) as workers, pytest.raises(FloatlensError, match=message) as caught:
        list(workers.run([Job(0, str(tmp_path))]))
    assert "\n" not in str(caught.value)


def test_room_is_counted_machine_by_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [{"CPU": 8.0, "GPU": 3.0}, {"CPU": 3.0, "GPU": 8.0}, {"CPU": 64.0}]
    ray = FakeRay("here", nodes=nodes)
    with team(monkeypatch, ray, None, cpus=2, gpus=2) as workers:
        assert workers.count == 2  # one on each machine with GPUs; all CPUs and GPUs together would make five
    with (
        pytest.raises(FloatlensError, match=r"3 workers with 2 CPUs and 2 GPUs each .* has resources for 2;"),
        team(monkeypatch, ray, 3, cpus=2, gpus=2),
    ):
        pass
    with team(monkeypatch, FakeRay("here", nodes=[{"CPU": 1.0}]), None, cpus=0.1) as workers:
        assert workers.count == 10


@needs_ray
@pytest.mark.slow
def test_more_than_there_is_is_refused() -> None:
    from floatlens.runs.ray_workers import RayWorkers

    with (
        pytest.raises(FloatlensError, match="1 workers with 1 CPUs and 64 GPUs each are asked for"),
        RayWorkers(1, gpus=64),
    ):
        pass


class Murderer(threading.Thread):
    """Kills busy actors, one after another, at random moments; of a task only one, since three times is a failure."""

    def __init__(self, chance: random.Random, kills: int) -> None:
        super().__init__(daemon=True)
        self._chance, self._kills, self.team, self.killed = chance, kills, list[Any](), 0

    def run(self) -> None:
        while self.killed < self._kills:
            time.sleep(self._chance.random() * 0.8)
            busy = [one for one in self.team if one.placed and one.pending is not None and not one.pending.tried]
            if busy:
                os.kill(self._chance.choice(busy).pid, signal.SIGKILL)
                self.killed += 1


@needs_ray
@pytest.mark.slow
def test_a_study_with_killed_actors_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from floatlens.runs import ray_workers

    data = [{**STUDY["data"][0], "limit": 8}]
    study = {**STUDY, "data": data, "output": {"figures": ["png"], "report": False}}
    fl.run(study, tmp_path / "here")
    murderer = Murderer(moments(), kills=12)
    start = ray_workers._Worker.__init__

    def watched(self: Any, *given: Any) -> None:
        start(self, *given)
        murderer.team.append(self)

    monkeypatch.setattr(ray_workers._Worker, "__init__", watched)
    murderer.start()
    fl.run(study, tmp_path / "ray", workers=2, executor="ray")
    assert murderer.killed >= 10
    assert_same(tmp_path / "here", tmp_path / "ray")
