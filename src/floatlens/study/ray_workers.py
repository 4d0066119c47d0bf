"""Ray as an executor: actors that each hold one model, on this machine or on a cluster; the driver alone writes.

An actor that dies is replaced and its task tried again elsewhere (see `spread`). A cluster that is started here listens
on this machine only, has no dashboard, reports nothing to anybody, and ends with the run.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from floatlens.errors import FloatlensError
from floatlens.study.spread import Pending, Spread, Task
from floatlens.study.workers import Holder, cores, said

if TYPE_CHECKING:
    from floatlens.study.spec import Machine

__all__ = ["RayWorkers", "import_ray"]

R = TypeVar("R")


def import_ray() -> ModuleType:
    """Ray, told beforehand to keep to itself."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else it warns about a change to come
    try:
        import ray
    except ImportError:
        raise FloatlensError('the executor "ray" needs Ray; install it with: pip install "floatlens[ray]"') from None
    return ray


class RayWorkers:
    """Performs tasks in Ray actors. Example: `with RayWorkers(2, threads=1) as team: list(team.run(tasks))`

    `count` None takes as many as the cluster has room for. `cpus` and `gpus` are what Ray reserves for each.
    """

    def __init__(
        self,
        count: int | None = None,
        threads: int = 1,
        *,
        cpus: float = 1.0,
        gpus: float = 0.0,
        address: str | None = None,
    ) -> None:
        self._ray = import_ray()
        self.count, self._threads, self._cpus, self._gpus, self._address = count, threads, cpus, gpus, address
        self._team: list[_Worker] = []
        self._own = False

    @staticmethod
    def of(machine: Machine, count: int | None, threads: int) -> RayWorkers:
        """As a study asks for it."""
        return RayWorkers(count, threads, cpus=machine.cpus, gpus=machine.gpus, address=machine.address)

    def __enter__(self) -> RayWorkers:
        ray = self._ray
        if not ray.is_initialized():
            self._connect()
        try:
            self.count = self._affordable()
            actor = ray.remote(num_cpus=self._cpus, num_gpus=self._gpus, max_restarts=0)(_Actor)
            self._team = [_Worker(ray, actor, self._threads, number) for number in range(self.count)]
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _connect(self) -> None:
        logging.getLogger("ray").setLevel(logging.ERROR)  # it says at length that all is well
        options: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False, "configure_logging": False}
        if self._address is None:
            wanted = math.ceil((self.count or cores()) * self._cpus)
            local = {"num_cpus": max(cores(), wanted), "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
            options |= {"address": "local", **local}
            os.environ.setdefault("RAY_worker_niceness", "0")  # as this process, and not after all others
        else:
            options["address"] = self._address
        try:
            self._ray.init(**options)
        except (ConnectionError, ValueError, RuntimeError) as error:
            where = self._address or "on this machine"
            raise FloatlensError(f"Ray {where}: cannot be reached or started ({error})") from None
        self._own = True

    def _affordable(self) -> int:
        """How many workers the cluster has room for; an error where that is fewer than were asked for."""
        there = self._ray.cluster_resources()
        limits = [int(there.get(name, 0) // each) for name, each in (("CPU", self._cpus), ("GPU", self._gpus)) if each]
        most = min(limits, default=self.count or 1)
        if most < (self.count or 1):
            raise FloatlensError(
                f"{self.count or 1} workers with {self._cpus:g} CPUs and {self._gpus:g} GPUs each are asked for, and "
                f"the Ray cluster has {there.get('CPU', 0):g} CPUs and {there.get('GPU', 0):g} GPUs in all; "
                "ask for fewer (machine.workers, machine.cpus, machine.gpus)"
            )
        return self.count or most

    def __exit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        for worker in self._team:
            worker.stop()
        self._team = []
        if self._own:
            self._ray.shutdown()
            self._own = False

    def run(self, tasks: Iterable[Task[R]]) -> Iterator[tuple[Task[R], R]]:
        yield from Spread(self._team, self._ready).run(iter(tasks))

    def _ready(self, busy: Sequence[_Worker]) -> list[_Worker]:
        done, _ = self._ray.wait([worker.promise for worker in busy], num_returns=1)
        return [worker for worker in busy if worker.promise in done]


class _Worker:
    """One actor as the driver sees it."""

    def __init__(self, ray: ModuleType, kind: Any, threads: int, number: int) -> None:
        self._ray, self._kind, self._threads, self.number = ray, kind, threads, number
        self.pending: Pending[Any] | None = None
        self.promise: Any = None
        self.actor = kind.remote(threads)

    def give(self, pending: Pending[Any]) -> None:
        self.pending = pending
        self.promise = self.actor.perform.remote(pending.task)

    def receive(self) -> tuple[bool, Any]:
        """(True, result), or (False, what went wrong); a dead actor is replaced."""
        self.pending = None
        promise, self.promise = self.promise, None
        try:
            found: tuple[bool, Any] = self._ray.get(promise)
            return found
        except self._ray.exceptions.RayError as error:  # the actor or its machine is gone, or the result is lost
            self.stop()
            self.actor = self._kind.remote(self._threads)
            reason = str(error).strip().splitlines()
            return False, f"the Ray worker was lost ({reason[0] if reason else type(error).__name__})"

    def stop(self) -> None:
        with suppress(self._ray.exceptions.RayError, ValueError):
            self._ray.kill(self.actor)


class _Actor:
    """What runs in an actor's process."""

    def __init__(self, threads: int) -> None:
        import torch

        torch.set_num_threads(threads)
        self._holder = Holder()

    def perform(self, task: Task[Any]) -> tuple[bool, Any]:
        try:
            return True, task.perform(self._holder)
        except Exception as error:
            return False, said(error)

    def pid(self) -> int:
        return os.getpid()
