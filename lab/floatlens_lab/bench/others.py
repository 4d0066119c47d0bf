"""Received attention by floatlens beside TransformerLens and nnsight: one model, one run, variants taking turns.

The two are no dependencies of floatlens. Each variant works in a process of its own, which is idle while the others
have their turn; TransformerLens and nnsight in the interpreter that is given, which has them installed.
"""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from floatlens.core.errors import FloatlensError
from floatlens_lab.bench import tool_worker
from floatlens_lab.bench.run import LINUX, from_proc, memory_settings
from floatlens_lab.bench.subject import LAYERS, make_model

__all__ = ["AGREEMENT", "OTHERS", "TOOLS", "OthersMeasured", "OthersPlan", "run_others"]

OTHERS = {"transformerlens": "transformer-lens", "nnsight": "nnsight"}
"""The tools that are not floatlens, and their packages."""
TOOLS = ("plain", "floatlens", *OTHERS)
AGREEMENT = 1e-4
"""What received attention of another tool may differ by from floatlens's."""


@dataclass(frozen=True)
class OthersPlan:
    """What to measure: a pass of each length, with the interpreter that has the other tools."""

    lengths: tuple[int, ...] = (512, 1024, 2048)
    rounds: int = 3
    threads: int | None = None
    python: str = sys.executable

    def __post_init__(self) -> None:
        if self.rounds < 1 or any(length < 64 for length in self.lengths):
            raise FloatlensError("bench: lengths start at 64 and rounds at 1")
        if not Path(self.python).is_file():
            raise FloatlensError(f"bench: --python {self.python}: no such file; give the python of an environment")


@dataclass
class OthersMeasured:
    """One length: seconds of a pass by variant and round, the highest peak of memory in bytes, the largest difference
    of received attention from floatlens's, versions, and why a tool could not be had."""

    length: int
    seconds: dict[str, list[float]] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)
    difference: dict[str, float] = field(default_factory=dict)
    versions: dict[str, dict[str, str]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    def ratio(self, variant: str) -> tuple[float, float, float]:
        """Median, smallest and largest over rounds of a variant's time ÷ that of the plain pass next to it."""
        pairs = [a / b for a, b in zip(self.seconds[variant], self.seconds["plain"], strict=True)]
        return statistics.median(pairs), min(pairs), max(pairs)


class _Tool:
    """The process of a variant."""

    def __init__(self, variant: str, python: str) -> None:
        own = variant not in OTHERS
        settings = memory_settings()
        if not own:
            del settings["PYTHONPATH"]  # its packages are its own
        self._process = subprocess.Popen(
            [sys.executable if own else python, tool_worker.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=settings,
        )

    def ask(self, *order: Any) -> dict[str, Any]:
        """The answer to an order; `error` where it could not be carried out."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            return {"error": f"its process ended with {self._process.wait()}"}
        answer: dict[str, Any] = json.loads(line)
        return answer

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


def run_others(plan: OthersPlan, say: Callable[[str], object] = lambda _: None) -> list[OthersMeasured]:
    """Measure every length of the plan; a tool that cannot be had is left out, with the reason."""
    if plan.threads is not None:
        torch.set_num_threads(plan.threads)  # of this process: the table says how many there are
    with tempfile.TemporaryDirectory(prefix="floatlens-bench-") as folder, _tools(plan.python) as tools:
        _save_model(Path(folder), max(plan.lengths))
        versions, skipped = {}, {}
        for name, tool in list(tools.items()):
            answer = tool.ask("prepare", folder, name, plan.threads)
            if "error" in answer:
                skipped[name] = _why(name, plan.python, answer["error"])
                say(skipped[name])
                tools.pop(name).end()
            else:
                versions[name] = answer["versions"]
        results = []
        for length in plan.lengths:
            found = OthersMeasured(length, versions=versions, skipped=dict(skipped))
            _measure(found, plan.rounds, tools, Path(folder))
            ratios = (f"{name} {found.ratio(name)[0]:.2f} ×" for name in found.seconds if name != "plain")
            say(f"T = {length}: " + ", ".join(ratios))
            results.append(found)
        return results


@contextmanager
def _tools(python: str) -> Iterator[dict[str, _Tool]]:
    with ExitStack() as stack:
        made = {name: _Tool(name, python) for name in TOOLS}
        for tool in made.values():
            stack.callback(tool.end)
        yield made


def _why(name: str, python: str, error: str) -> str:
    """One line: a variant of our own must work, another tool may be missing."""
    if name not in OTHERS:
        raise FloatlensError(f"bench: {name} failed: {error}")
    if error.startswith("ModuleNotFoundError"):
        return f'{name}: not in {python}; install it there with "pip install {OTHERS[name]}", or give another --python'
    return f"{name}: {error}"


def _measure(found: OthersMeasured, rounds: int, tools: dict[str, _Tool], folder: Path) -> None:
    received: dict[str, NDArray[np.float32]] = {}
    here = {}
    for name, tool in tools.items():  # the first pass is not timed: it shows whether the tool works, and its numbers
        reason = _too_large(name, found.length)
        if reason is None and name != "plain":
            reason = tool.ask("received", found.length, str(folder / f"{name}.npy")).get("error")
        if reason is None:
            here[name] = tool
            if name != "plain":
                received[name] = np.load(folder / f"{name}.npy", allow_pickle=False)
        elif name in OTHERS:
            found.skipped[name] = reason
        else:
            raise FloatlensError(f"bench: {name} failed at T = {found.length}: {reason}")
    for name in received.keys() & OTHERS.keys():
        found.difference[name] = _difference(received[name], received["floatlens"])
    tools["plain"].ask("pass", found.length)
    found.seconds = {name: [] for name in here}
    for _ in range(rounds):
        for name, tool in here.items():
            answer = tool.ask("pass", found.length)
            if "error" in answer:
                raise FloatlensError(f"bench: {name} failed at T = {found.length}: {answer['error']}")
            found.seconds[name].append(answer["seconds"])
            if answer["peak"] is not None:
                found.memory[name] = max(found.memory.get(name, 0), answer["peak"])


def _difference(one: NDArray[Any], other: NDArray[Any]) -> float:
    """The largest difference; infinite where the shapes are not the same."""
    return float(np.abs(one - other).max()) if one.shape == other.shape else math.inf


def _too_large(name: str, length: int) -> str | None:
    """Why a tool that holds attention matrices is not run: about three of a layer to work in, and what it keeps."""
    matrices = {"transformerlens": LAYERS + 3, "nnsight": 4}.get(name)
    if matrices is None or not LINUX:
        return None
    needed = matrices * 8 * 4 * length**2
    return f"needs about {needed / 2**30:.0f} GiB" if needed > from_proc("/proc/meminfo", "MemAvailable") else None


def _save_model(folder: Path, length: int) -> None:
    """The bench model as a folder that every transformers reads, with the tokenizer that TransformerLens asks for."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    make_model(length, "arm").module.save_pretrained(folder)
    words = Tokenizer(WordLevel({"<s>": 0, "a": 1}, unk_token="a"))
    special = {"bos_token": "<s>", "eos_token": "<s>", "pad_token": "<s>", "unk_token": "a"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, **special)  # type: ignore[no-untyped-call]
    tokenizer.save_pretrained(str(folder))


def versions_in_words(results: Sequence[OthersMeasured]) -> str:
    """Tool and version, for each that was run."""
    return "; ".join(
        f"{name}: " + ", ".join(f"{package} {number}" for package, number in found.items())
        for name, found in results[0].versions.items()
    )
