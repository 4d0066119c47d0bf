"""Commands that are started, killed at random moments and started again.

Importing torch and transformers takes longer than what is to be killed, so most commands run in children of a process
that has imported everything already (`Zygote`); a child that is killed is as dead as any other process. The moments
come from a seed that stands in the output of a test that fails: FLOATLENS_KILL_SEED=… repeats them. A command that is
to be killed stops of itself before it records more than `most` items, so it is never over before the kill, however fast
or busy the machine is.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ENV = {**os.environ, "FLOATLENS_KERNEL": "torch", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
MORE = 4
"""How many items a command may record after the moment in which it is to be killed."""
WARM = (
    *("floatlens.cli.studies", "floatlens.cli.presets", "floatlens.runs.engine"),
    *("floatlens.runs.measurement", "floatlens.runs.publish", "floatlens.models.loading", "floatlens.subjects.scale"),
    *("transformers.models.llama.modeling_llama", "transformers.models.qwen2.modeling_qwen2"),
)


def moments() -> random.Random:
    """Random numbers from a seed that is printed, which pytest shows of a test that fails."""
    seed = int(os.environ.get("FLOATLENS_KILL_SEED") or random.SystemRandom().randrange(2**32))
    print(f"FLOATLENS_KILL_SEED={seed}")
    return random.Random(seed)


class Real:
    """A command as a process of its own, its workers included."""

    startup = 6.0

    def __init__(self, args: Sequence[str], log: Path, most: int | None = None) -> None:
        with log.open("wb") as said:
            command = [sys.executable, __file__, json.dumps({"args": list(args), "most": most})]
            self._process = subprocess.Popen(command, env=ENV, stdout=said, stderr=said)

    def over(self) -> bool:
        return self._process.poll() is not None

    def kill(self) -> None:
        self._process.kill()

    def wait(self) -> int:
        return self._process.wait()


class Child:
    """A command in a child of the zygote."""

    startup = 1.5

    def __init__(
        self,
        zygote: subprocess.Popen[str],
        args: Sequence[str],
        log: Path,
        most: int | None = None,
        crash: int | None = None,
        publish: bool = False,
    ) -> None:
        assert zygote.stdin is not None
        assert zygote.stdout is not None
        self._answers = zygote.stdout
        zygote.stdin.write(
            json.dumps({"args": list(args), "log": str(log), "most": most, "crash": crash, "publish": publish}) + "\n"
        )
        zygote.stdin.flush()
        self._pid = int(self._answers.readline())

    def over(self) -> bool:
        return bool(select.select([self._answers], [], [], 0)[0])

    def kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)

    def wait(self) -> int:
        return int(self._answers.readline())


@contextmanager
def zygote() -> Iterator[subprocess.Popen[str]]:
    """A process that has imported what commands need and forks for each."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, __file__], env=ENV, text=True, bufsize=1, **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout.readline() == "ready\n"
        yield process
        process.stdin.close()


def kill_again_and_again(
    args: Sequence[str], out: Path, forks: subprocess.Popen[str], *, kills: int, real: int, records: int
) -> None:
    """Start the command, kill it, start it again: `real` times with two worker processes, the others in one.

    Most die when 1 … `records` new records have come, and up to 0.03 s later; every fifth while it starts. At each
    start at most `records` + `MORE` items are recorded, and a batch.
    """
    if os.environ.get("FLOATLENS_SHORT"):  # as CI runs it
        kills, real = min(kills, 5), min(real, 1)
    chance = moments()
    order = [True] * real + [False] * (kills - real)
    chance.shuffle(order)
    for number, own in enumerate(order):
        log, goal = out.with_name(f"log-{number}"), chance.randint(1, records)
        before = _count(out)
        if own:
            process: Real | Child = Real([*args, "--workers", "2"], log, goal + MORE)
        else:
            process = Child(forks, [*args, "--workers", "1"], log, goal + MORE)
        if number % 5 == 0:
            time.sleep(chance.random() * process.startup)
        else:
            _await(process, out, before + goal)
            time.sleep(chance.random() * 0.03)
        _kill(process, log)


def kill_after(args: Sequence[str], out: Path, forks: subprocess.Popen[str], records: int) -> None:
    """Start the command and kill it as soon as so many new records have come; 0: as soon as the folder is there."""
    log = out.with_name(f"log-after-{records}")
    before = _count(out)
    process = Child(forks, [*args, "--workers", "1"], log, records)
    if records:
        _await(process, out, before + records)
    else:
        while not (out / "manifest.json").is_file() and not process.over():
            time.sleep(0.001)
    _kill(process, log)


def crash_at(
    args: Sequence[str], out: Path, forks: subprocess.Popen[str], number: int, *, publish: bool = False
) -> bool:
    """Run the command until it is about to sync, rename or make something in its folder for the `number`-th time.

    There it is killed; False where it ended before. Every other time, what was to be synced loses its last bytes, as
    when the power fails.
    """
    log = out.with_name(f"crash-{number}.log")
    code = Child(forks, [*args, "--workers", "1"], log, crash=number, publish=publish).wait()
    assert code in (0, -signal.SIGKILL), log.read_text()[-2000:]
    return code != 0


def _kill(process: Real | Child, log: Path) -> None:
    over = process.over()
    if not over:
        process.kill()
    process.wait()  # also of one that is over: the zygote's answer must not be left to the next
    assert not over, f"over before the kill; ask more questions. It said: {log.read_text()[-600:]}"


def _await(process: Real | Child, out: Path, goal: int) -> None:
    path, size = out / "records.jsonl", -1
    while not process.over():
        now = path.stat().st_size if path.is_file() else 0
        if now != size and _count(out) >= goal:
            return
        size = now
        time.sleep(0.002)


def _count(out: Path) -> int:
    path = out / "records.jsonl"
    return path.read_bytes().count(b"\n") if path.is_file() else 0


def finish(args: Sequence[str], out: Path, forks: subprocess.Popen[str], *, publish: bool = False) -> str:
    """Run the command to its end; gives what it said."""
    log = out.with_name(f"{out.name}.log")
    code = Child(forks, [*args, "--workers", "1"], log, publish=publish).wait()
    assert code == 0, log.read_text()[-2000:]
    return log.read_text()


# -- in the zygote, and in a process of its own ---------------------------------------------------------------------


def _serve() -> None:
    from importlib import import_module

    for name in WARM:
        import_module(name)
    print("ready", flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _child(**request)
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def _child(args: list[str], log: str, most: int | None, crash: int | None, publish: bool) -> None:
    said = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(said, 1)
    os.dup2(said, 2)
    from floatlens.cli import main
    from floatlens.runs import publish as publishing

    if not publish:  # takes longer than items
        publishing.publish_study = lambda *_, **__: publishing.Findings()  # type: ignore[assignment]
    code = 1
    try:
        _stop_after(most)
        if crash is not None:
            _crash_at(crash, args[args.index("--out") + 1])
        code = main(args)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _stop_after(most: int | None) -> None:
    """Once `most` items are on record in this process, wait to be killed instead of recording more."""
    from floatlens.runs.folder import RunFolder

    add, added = RunFolder.add, 0

    def add_some(self: RunFolder, *args: Any, **kwargs: Any) -> Any:
        nonlocal added
        while most is not None and added >= most:
            time.sleep(60)
        new = add(self, *args, **kwargs)
        added += len(new)
        return new

    RunFolder.add = add_some  # type: ignore[method-assign]


def _crash_at(number: int, out: str) -> None:
    """Kill this process where it is about to sync, rename or make something in the run folder for that time."""
    count = 0

    def watched(name: str) -> Any:
        do = getattr(os, name)

        def call(first: Any, *args: Any, **kwargs: Any) -> Any:
            nonlocal count
            path = os.readlink(f"/proc/self/fd/{first}") if isinstance(first, int) else os.fspath(first)
            count += str(path).startswith(out)
            if count == number:
                if name == "fsync" and number % 2 and os.path.isfile(path):
                    os.truncate(path, max(0, os.path.getsize(path) - 7))
                os.kill(os.getpid(), signal.SIGKILL)
            return do(first, *args, **kwargs)

        return call

    for name in ("fsync", "replace", "rename", "mkdir"):
        setattr(os, name, watched(name))


def _real(args: list[str], most: int | None) -> None:
    from floatlens.cli import main

    _stop_after(most)
    sys.exit(main(args))


if __name__ == "__main__":
    _serve() if len(sys.argv) == 1 else _real(**json.loads(sys.argv[1]))
