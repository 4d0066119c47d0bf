"""Speed-up with two workers: the same items by one worker and by two, one thread each, taking turns in one run.

Workers have their model before the clock starts; what is timed is asking, tracing, and carrying tasks and results.
"""

from __future__ import annotations

import json
import platform
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch

from floatlens.runs.engine import answer_tasks
from floatlens.runs.plan import make_plan
from floatlens.runs.ray_workers import RayWorkers
from floatlens.runs.study_file import read_study
from floatlens.runs.workers import Executor, Workers

if TYPE_CHECKING:
    from floatlens.runs.folder import RunFolder
    from floatlens.runs.scheduling import Task

__all__ = ["Throughput", "as_markdown", "measure", "save"]

_TEAMS: dict[str, Callable[[int], Executor]] = {
    "local": lambda count: Workers(count, threads=1) if count > 1 else _OneProcess(),
    "ray": lambda count: RayWorkers(count, threads=1, cpus=0.25),  # all teams share one cluster of this machine
}


class _OneProcess(Workers):
    """One worker process beside this one, so both teams pay for carrying tasks."""

    def __init__(self) -> None:
        super().__init__(2, threads=1)

    def __enter__(self) -> _OneProcess:
        super().__enter__()
        self._team.pop().stop(kill=True)
        return self


@dataclass
class Throughput:
    """Seconds of every round, by executor and number of workers; `items` were done in each."""

    model: str
    items: int
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def gain(self, executor: str) -> tuple[float, float, float]:
        """Median, smallest and largest over rounds of how much faster two are than one, measured next to each other."""
        pairs = zip(self.seconds[f"{executor} 1"], self.seconds[f"{executor} 2"], strict=True)
        found = [one / two for one, two in pairs]
        return statistics.median(found), min(found), max(found)


def measure(
    model: str = "scale:llada",
    questions: int = 96,
    traces: int = 8,
    rounds: int = 3,
    executors: tuple[str, ...] = ("ray", "local"),
    say: Callable[[str], Any] = lambda message: None,
) -> Throughput:
    """Time `rounds` turns of every team over the same questions and traces."""
    tasks = _tasks(model, questions, traces)
    found = Throughput(model, questions + traces)
    with ExitStack() as stack:
        teams = {}
        for name in executors:
            for count in (2, 1):
                teams[f"{name} {count}"] = stack.enter_context(_TEAMS[name](count))
        for name, team in teams.items():
            say(f"{name}: loading the model")
            for _ in team.run(tasks[:1] * 6):  # everybody gets something to warm up with
                pass
        found.seconds = {name: [] for name in teams}
        for turn in range(rounds):
            for name, team in teams.items():
                began = time.perf_counter()
                done = sum(1 for _ in team.run(tasks))
                assert done == len(tasks)
                found.seconds[name].append(time.perf_counter() - began)
            last = ", ".join(f"{name} {seconds[-1]:.1f} s" for name, seconds in found.seconds.items())
            say(f"round {turn + 1} of {rounds}: {last}")
    return found


def _tasks(model: str, questions: int, traces: int) -> list[Task[Any]]:
    """Questions in batches of eight and full traces, with the gold document among ten."""
    data = {"ref": "scale:rag", "limit": max(questions, traces), "conditions": ["rag"]}
    decoding = {"settings": {"gen_length": 8}}
    study = {"models": [model], "data": [data], "decoding": decoding, "traces": {"questions": traces}}
    study["machine"] = {"batch": 8}
    plan = make_plan(read_study(study))
    (model_plan,), (part,) = plan.models, plan.data
    nothing = cast("RunFolder", _Blank())
    answers = answer_tasks(plan, model_plan, part, part.conditions, nothing)
    return [*plan.trace_tasks(model_plan, nothing.done), *answers]


class _Blank:
    """A run in which nothing is done."""

    def done(self, item: str) -> bool:
        return False


def as_markdown(found: Throughput) -> str:
    header = ("executor", "1 worker, items a second", "2 workers, items a second", "2 ÷ 1")
    lines: list[tuple[str, ...]] = [header, ("---", *("---:" for _ in header[1:]))]
    for name in dict.fromkeys(key.split()[0] for key in found.seconds):
        one, two = (found.items / statistics.median(found.seconds[f"{name} {count}"]) for count in (1, 2))
        gain = found.gain(name)
        lines.append((name, f"{one:.1f}", f"{two:.1f}", f"{gain[0]:.2f} ({gain[1]:.2f}–{gain[2]:.2f})"))
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    rounds = len(next(iter(found.seconds.values())))
    return (
        f"{table}\n\n{found.items} items of {found.model} (questions with ten documents, and full traces), "
        f"{rounds} rounds, taking turns; one thread a worker, torch {torch.__version__}, {platform.machine()}. The "
        "last column is the median (smallest–largest) of neighbouring measurements. Loading does not count.\n"
    )


def save(found: Throughput, folder: str | Path) -> tuple[Path, Path]:
    """Write `throughput.md` and `throughput.json` into a folder; returns both paths."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    table, numbers = target / "throughput.md", target / "throughput.json"
    table.write_text(f"# Speed-up with two workers\n\n`floatlens bench --part throughput`\n\n{as_markdown(found)}")
    numbers.write_text(json.dumps(asdict(found), indent=1) + "\n")
    return table, numbers
