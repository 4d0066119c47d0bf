"""The process that reads damaged inputs: one line of JSON before each case and one after it, under a memory limit."""

from __future__ import annotations

import gc
import json
import os
import resource
import shutil
import sys
import traceback
import warnings
from pathlib import Path
from random import Random
from typing import Any

from floatlens.core.errors import FloatlensError
from floatlens_lab.fuzz.subject import Subject, load_subject

__all__ = ["LONGEST", "main", "run_case"]

LONGEST = 1000
"""Characters of a refusal; a longer one is a failure."""


def main(name: str, seed: str, first: str, last: str, prepared: str, memory: str) -> None:
    """Read the cases from `first` up to `last` of a subject and say on stdout what became of each."""
    subject, folder = load_subject(name), Path(prepared)
    said, sys.stdout = sys.stdout, sys.stderr  # what the package prints is no part of the protocol
    subject.warm(folder)
    run_case(subject, folder, name, int(seed), -1)
    _limit(int(memory))
    for number in range(int(first), int(last)):
        said.write(json.dumps({"began": number}) + "\n")
        said.flush()
        found = run_case(subject, folder, name, int(seed), number)
        said.write(json.dumps({"case": number} | found) + "\n")
        said.flush()
        if found["outcome"] == "memory":  # what is left of it would be the next case's: another process goes on
            return


def run_case(subject: Subject, folder: Path, name: str, seed: int, number: int) -> dict[str, Any]:
    """What became of one case, which only its seed and number decide."""
    target = folder.parent / f"case-{os.getpid()}"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    done = "nothing"
    try:
        done = subject.damage(folder, Random(f"{name} {seed} {number}"), target)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcome: str = subject.read(target, folder)
        return {"done": done, "outcome": outcome, "text": ""}
    except FloatlensError as error:
        text = str(error)
        proper = "\n" not in text and len(text) <= LONGEST
        return {"done": done, "outcome": "refused" if proper else "long message", "text": text[:LONGEST]}
    except MemoryError:
        return {"done": done, "outcome": "memory", "text": traceback.format_exc(limit=-8)}
    except Exception:
        return {"done": done, "outcome": "traceback", "text": traceback.format_exc(limit=-8)}
    finally:
        shutil.rmtree(target, ignore_errors=True)
        gc.collect()


def _limit(memory: int) -> None:
    """Let the process grow by that many bytes over what it has now (Linux)."""
    status = Path("/proc/self/status")
    if status.exists():
        size = next(line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmSize"))
        resource.setrlimit(resource.RLIMIT_AS, (1024 * int(size) + memory,) * 2)


if __name__ == "__main__":
    main(*sys.argv[1:])
