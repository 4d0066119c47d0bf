"""The fuzzer: cases in children that are watched from outside, so a hang or a crash costs one case and no more."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from floatlens_lab.fuzz.subject import load_subject

__all__ = ["FAILURES", "SECONDS", "Failure", "Findings", "fuzz"]

SECONDS = 10.0
PATIENCE = 10
"""A case ends after `SECONDS` of the processor, or ten times as long by the clock."""
MEMORY = 1 << 30
_ENVIRONMENT = {"MALLOC_ARENA_MAX": "2", "OMP_NUM_THREADS": "1"}
"""Threads reserve address space, which is what is limited."""
_START = 180.0
"""Seconds for a child to import what it needs."""
FAILURES = ("traceback", "hang", "memory", "crash", "different", "long message")
"""Outcomes that must not be; the others are refused, unchanged, told and forged."""


@dataclass(frozen=True)
class Failure:
    """One case that went wrong; `seed` and `case` bring it back."""

    subject: str
    seed: int
    case: int
    outcome: str
    done: str
    text: str

    def report(self) -> str:
        """What happened, and the command that brings it back."""
        again = f"python -m floatlens_lab.fuzz --only --{self.subject} 1 --seed {self.seed} --first {self.case}"
        return f"\n{self.outcome}: {self.subject}, case {self.case}: {self.done}\n{self.text}\nagain: {again}\n"


@dataclass
class Findings:
    """How often each outcome was seen, and the failures."""

    subject: str
    cases: int
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def line(self) -> str:
        """The outcomes in one line, failures last."""
        good = [f"{count} {name}" for name, count in sorted(self.outcomes.items()) if name not in FAILURES]
        return f"{self.subject}: {self.cases} cases: {', '.join(good)}; " + ", ".join(
            f"{self.outcomes[name]} {name}" for name in FAILURES
        )


def fuzz(
    name: str,
    cases: int | None = None,
    seed: int = 0,
    first: int = 0,
    seconds: float = SECONDS,
    memory: int = MEMORY,
    say: Callable[[str], Any] = lambda line: None,
) -> Findings:
    """Read `cases` damaged inputs of a subject, each within `seconds` and `memory` bytes above the base."""
    subject = load_subject(name)
    last = first + (subject.count if cases is None else cases)
    found = Findings(name, last - first)
    with tempfile.TemporaryDirectory(prefix="floatlens-fuzz-") as folder:
        prepared = Path(folder) / "prepared"
        prepared.mkdir()
        subject.prepare(prepared)
        number = first
        while number < last:
            with _Child(name, seed, number, last, prepared, memory) as child:
                number = _watch(child, found, number, last, seed, seconds, say)
    return found


def _watch(
    child: _Child, found: Findings, number: int, last: int, seed: int, seconds: float, say: Callable[[str], Any]
) -> int:
    """Note what the child says until it ends, hangs or dies; returns the first case that is left."""
    limit = _START
    while number < last:
        said = child.next(limit, limit * (1 if limit == _START else PATIENCE))
        if said is None or isinstance(said, str):
            outcome, text = ("hang", "") if said is None else ("crash", said)
            if limit == _START:
                raise RuntimeError(f"fuzz {found.subject}: a child did not start: {text or 'no word from it'}")
            said = {"case": number, "done": "", "outcome": outcome, "text": text}
        if "began" in said:
            limit = seconds
            continue
        number = said["case"] + 1
        found.outcomes[said["outcome"]] += 1
        if said["outcome"] in FAILURES:
            one = Failure(found.subject, seed, said["case"], said["outcome"], said["done"], said["text"])
            found.failures.append(one)
            say(one.report())
        if number % 100 == 0:
            say(found.line())
        if said["outcome"] in ("hang", "crash", "memory"):
            return number
    return number


class _Child:
    """One child, and what it says line by line."""

    def __init__(self, name: str, seed: int, first: int, last: int, prepared: Path, memory: int) -> None:
        given = (name, seed, first, last, prepared, memory)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed on exit
        self._process = subprocess.Popen(
            [sys.executable, "-m", "floatlens_lab.fuzz.child", *map(str, given)],
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **_ENVIRONMENT},
        )
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def next(self, seconds: float, longest: float) -> dict[str, Any] | str | None:
        """What the child says next; None where it says nothing in time, its last words where it has ended.

        Time is that of the processor, and `longest` by the clock: on a busy machine a child may wait for its turn.
        """
        began, spent = time.monotonic(), self._spent()
        while True:
            try:
                line = self._lines.get(timeout=seconds)
                break
            except queue.Empty:
                used = self._spent() - spent
                if used >= seconds or time.monotonic() - began >= longest:
                    return None
        if not line:
            self._process.wait()
            self._errors.seek(0)
            words = self._errors.read().decode(errors="replace")[-2000:]
            return f"exit {self._process.returncode}: {words}"
        said: dict[str, Any] = json.loads(line)
        return said

    def _spent(self) -> float:
        """Seconds of the processor that the child has used; by the clock where the system does not say."""
        try:
            fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except (OSError, IndexError):
            return time.monotonic()

    def __enter__(self) -> _Child:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._errors.close()
