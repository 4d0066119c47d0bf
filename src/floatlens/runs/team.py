"""Who does the work of a plan: the executor that its study asks for, with so many workers and threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from floatlens.runs.workers import Executor, Workers, small_on_cpu, suggest, threads_for

if TYPE_CHECKING:
    from floatlens.runs.plan import Plan

__all__ = ["Team", "team_for"]


@dataclass(frozen=True)
class Team:
    """The executor of a run; `count` None: as many workers as a cluster has resources for."""

    executor: Executor
    count: int | None
    threads: int
    elsewhere: bool = False


def team_for(plan: Plan, items: int, local: int | None = None) -> Team:
    """The executor that a study asks for. Small models on a CPU get one thread each, and a worker per core.

    `local` is the number of workers on this machine where the study does not say; None: as suits the number of items.
    The threads of small models do not depend on the number of workers, since sums differ in their last bits with them.
    For larger ones they do, unless the study gives their number.
    """
    machine = plan.study.machine
    models = [model.config for model in plan.models]
    if machine.executor == "ray":
        from floatlens.runs.ray_workers import RayWorkers

        here = machine.address is None
        wanted = machine.workers or (suggest(models, items) if here else None)
        small = all(small_on_cpu(model) for model in models)
        threads = machine.threads or (1 if small else max(1, int(machine.cpus)))
        return Team(RayWorkers.of(machine, wanted, threads), wanted, threads, elsewhere=not here)
    count = machine.workers or local or suggest(models, items)
    threads = machine.threads or threads_for(models, count)
    return Team(Workers(count, threads), count, threads)
