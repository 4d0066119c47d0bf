"""Ray as an executor: actors that each hold one model, on this machine or on a cluster; only the driver writes.

An actor that dies is replaced and its task tried again elsewhere (see `scheduling`). Tasks go only to actors that have
started, so one that Ray cannot place blocks nothing. A cluster that is started here listens on the loopback interface
only, asks for a token, has no dashboard, sends no usage statistics, and ends with the run, even if that is killed.
"""

from __future__ import annotations

import logging
import math
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, TypeVar

from floatlens.core.errors import FloatlensError, FloatlensWarning
from floatlens.runs.scheduling import ATTEMPTS, Pending, Spread, Task
from floatlens.runs.workers import Holder, cores, said

__all__ = ["RayWorkers", "import_ray"]

R = TypeVar("R")
_LOOPBACK = "127.0.0.1"
_ONE_MACHINE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"


def import_ray(*, own: bool = False) -> ModuleType:
    """Ray, with usage statistics switched off; for a cluster of our `own`, one that asks for a token."""
    if own and "ray" not in sys.modules:  # it reads this when it is imported
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else it warns about a change to come
    try:
        import ray
    except ImportError:
        raise FloatlensError('the executor "ray" needs Ray; install it with: pip install "floatlens[ray]"') from None
    return ray


class RayWorkers:
    """Performs tasks in Ray actors. Example: `with RayWorkers(2, threads=1) as team: list(team.run(tasks))`

    `count` None: as many as the cluster has resources for. `cpus` and `gpus` are what Ray reserves for each; `patience`
    is how many seconds to wait for the first worker.
    """

    def __init__(
        self,
        count: int | None = None,
        threads: int = 1,
        *,
        cpus: float = 1.0,
        gpus: float = 0.0,
        address: str | None = None,
        patience: float = 300.0,
    ) -> None:
        self._ray = import_ray(own=address is None)
        self.count, self._threads, self._cpus, self._gpus, self._address = count, threads, cpus, gpus, address
        self._patience = patience
        self._all: list[_Worker] = []
        self._own = False
        self._guard: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> RayWorkers:
        ray = self._ray
        if not ray.is_initialized():
            self._connect()
        try:
            self.count = self._affordable()
            actor = ray.remote(num_cpus=self._cpus, num_gpus=self._gpus, max_restarts=0)(_Actor)
            self._all = [_Worker(ray, actor, self._threads, number) for number in range(self.count)]
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _connect(self) -> None:
        logging.getLogger("ray").setLevel(logging.WARNING)  # without its messages of normal operation
        options: dict[str, Any] = {"logging_level": logging.WARNING, "log_to_driver": False, "configure_logging": False}
        if self._address is None:
            wanted = math.ceil((self.count or cores()) * self._cpus)
            local = {"num_cpus": max(cores(), wanted), "include_dashboard": False, "_node_ip_address": _LOOPBACK}
            options |= {"address": "local", **local}
            os.environ.setdefault("RAY_worker_niceness", "0")  # as this process, and not after all others
        else:
            options["address"] = self._address
        try:
            with _one_machine(self._ray, self._address is None):
                self._ray.init(**options)
        except Exception as error:  # a bare one is what Ray raises where a machine is too busy to start it in time
            self._ray.shutdown()  # what was started of it
            where = f"at {self._address}" if self._address else "on this machine"
            raise FloatlensError(f"Ray {where} cannot be reached or started ({_first_line(error)})") from error
        self._own = True
        if self._address is None:
            self._guard = _started_guard()
            _check_loopback(self._ray)

    def _affordable(self) -> int:
        """How many workers the cluster has resources for; an error where that is fewer than asked for."""
        asked = [(name, each) for name, each in (("CPU", self._cpus), ("GPU", self._gpus)) if each]
        if not asked:
            return self.count or 1
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        most = sum(min(math.floor(node.get(name, 0) / each + 1e-9) for name, each in asked) for node in nodes)
        if most < (self.count or 1):
            cpus, gpus = (sum(node.get(name, 0) for node in nodes) for name in ("CPU", "GPU"))
            where = f"{len(nodes)} machine{'s' * (len(nodes) != 1)}"
            raise FloatlensError(
                f"{self.count or 1} workers with {self._asked} each are asked for, and the Ray cluster of {where} with "
                f"{cpus:g} CPUs and {gpus:g} GPUs in all has resources for {most}; "
                "ask for fewer (machine.workers, machine.cpus, machine.gpus)"
            )
        return self.count or most

    @property
    def _asked(self) -> str:
        return f"{self._cpus:g} CPUs and {self._gpus:g} GPUs"

    def __exit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        for worker in self._all:
            worker.stop()
        self._all = []
        if self._own:
            self._ray.shutdown()
            self._own = False
        if self._guard is not None:
            assert self._guard.stdin is not None
            self._guard.stdin.close()
            self._guard.wait()
            self._guard = None

    def run(self, tasks: Iterable[Task[R]]) -> Iterator[tuple[Task[R], R]]:
        team = _Team(self._ray, self._all, self._patience, self._asked)
        yield from Spread(team, team.ready).run(iter(tasks))


@contextmanager
def _one_machine(ray: ModuleType, here: bool) -> Iterator[None]:
    """Inside, a cluster is started as on systems where Ray spans no machines: its servers listen on the loopback.

    Ray takes 127.0.0.1 as its address for "the address that others reach", and then listens on all interfaces.
    """
    if not here:
        yield
        return
    constants, before = ray._private.ray_constants, os.environ.get(_ONE_MACHINE)
    enabled = constants.ENABLE_RAY_CLUSTER
    os.environ[_ONE_MACHINE], constants.ENABLE_RAY_CLUSTER = "0", False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = enabled
        if before is None:
            del os.environ[_ONE_MACHINE]
        else:
            os.environ[_ONE_MACHINE] = before


def _check_loopback(ray: ModuleType) -> None:
    """Warn where the cluster has another address than the loopback: a version of Ray that decides otherwise."""
    others = {node["NodeManagerAddress"] for node in ray.nodes()} - {_LOOPBACK}
    if others:
        warnings.warn(
            f"Ray {ray.__version__} listens on {', '.join(sorted(others))} and not on the loopback alone; "
            "others on this network reach it, though not without its token",
            FloatlensWarning,
            stacklevel=4,
        )


def _started_guard() -> subprocess.Popen[bytes]:
    script = Path(__file__).with_name("ray_guard.py")
    # in a session of its own, so Ctrl-C on the terminal does not end it
    return subprocess.Popen(
        [sys.executable, str(script), str(os.getpid())], stdin=subprocess.PIPE, start_new_session=True
    )


class _Worker:
    """One actor as the driver sees it. It gets no task before its first answer: Ray may not have placed it yet."""

    def __init__(self, ray: ModuleType, kind: Any, threads: int, number: int) -> None:
        self._ray, self._kind, self._threads, self.number = ray, kind, threads, number
        self.pending: Pending[Any] | None = None
        self.promise: Any = None
        self.failed_starts = 0
        self._start()

    def _start(self) -> None:
        self.placed = False
        self.actor = self._kind.remote(self._threads)
        self.hello = self.actor.pid.remote()

    def meet(self) -> str:
        """Take its first answer: from now on it gets tasks. One that died before is replaced; returns its error."""
        try:
            self.pid: int = self._ray.get(self.hello)
        except self._ray.exceptions.RayError as error:
            self.failed_starts += 1
            self.stop()
            self._start()
            return _first_line(error)
        self.placed = True
        return ""

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
            self._start()
            return False, f"the Ray worker was lost ({_first_line(error)})"

    def stop(self) -> None:
        with suppress(self._ray.exceptions.RayError, ValueError):
            self._ray.kill(self.actor)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


class _Team(Sequence[_Worker]):
    """The workers that can be given tasks now. Iterating waits for the first one, up to `patience` seconds.

    Actors that are not placed yet (a machine is gone, others use the cluster) are waited for while the others work.
    """

    def __init__(self, ray: ModuleType, workers: Sequence[_Worker], patience: float, asked: str) -> None:
        self._ray, self._workers, self._patience, self._asked = ray, workers, patience, asked
        self._said = ""

    def __len__(self) -> int:
        return sum(worker.placed for worker in self._workers)

    def __getitem__(self, at: Any) -> Any:
        return [worker for worker in self._workers if worker.placed][at]

    def __iter__(self) -> Iterator[_Worker]:
        end = time.monotonic() + self._patience
        while not len(self):
            self._meet([], max(0.0, end - time.monotonic()))
            if not len(self) and (time.monotonic() >= end or not self._absent):
                why = f"the last one said: {self._said}" if self._said else "others may be using the cluster"
                raise FloatlensError(
                    f"no Ray worker could be started within {self._patience:g} s: each asks for {self._asked}; {why}"
                )
        return iter(self[:])

    def ready(self, busy: Sequence[_Worker]) -> list[_Worker]:
        """The busy workers that are done; none where a new worker has started instead."""
        done = self._meet([worker.promise for worker in busy], None)
        return [worker for worker in busy if worker.promise in done]

    @property
    def _absent(self) -> list[_Worker]:
        """Workers that have not started; without those that failed to start several times."""
        return [worker for worker in self._workers if not worker.placed and worker.failed_starts < ATTEMPTS]

    def _meet(self, promises: list[Any], seconds: float | None) -> list[Any]:
        """Wait for a result or a start, register the workers that have started, and return the finished results."""
        absent = {worker.hello: worker for worker in self._absent}
        wanted = [*promises, *absent]
        done: list[Any] = self._ray.wait(wanted, num_returns=1, timeout=seconds)[0] if wanted else []
        for hello in done:
            if hello in absent:
                self._said = absent[hello].meet() or self._said
        return done


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
