"""`Subject`: one kind of input to damage. A file in this folder and a line in `SUBJECTS` add one."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from random import Random
from typing import Literal, Protocol

from floatlens.core.errors import FloatlensError, did_you_mean

__all__ = ["SUBJECTS", "Outcome", "Subject", "load_subject"]

Outcome = Literal["unchanged", "told", "forged", "another", "different"]
"""Of an input that was accepted: it means what it meant before, or something else and a warning said so, or something
else under digests that were made to fit it, or it is another valid input of a kind that carries no digests, or
something else without a word, though it could be noticed. The last is a failure.
"""

SUBJECTS = {
    "traces": "floatlens_lab.fuzz.traces:TraceFiles",
    "data": "floatlens_lab.fuzz.data:DataFiles",
    "models": "floatlens_lab.fuzz.models:ModelFolders",
    "adapters": "floatlens_lab.fuzz.adapters:AdapterFolders",
    "studies": "floatlens_lab.fuzz.studies:StudyFiles",
}
"""Subjects by name: module and class."""


class Subject(Protocol):
    """What is damaged and how it is read. One instance lives in the parent, one in each child."""

    count: int
    """Cases unless another number is asked for."""

    def prepare(self, folder: Path) -> None:
        """Write undamaged inputs into an empty folder; called once, in the parent."""

    def warm(self, folder: Path) -> None:
        """Read undamaged inputs; called once in each child, so that imports are part of its base."""

    def damage(self, folder: Path, rng: Random, target: Path) -> str:
        """Make one damaged input in the empty folder `target`, from what `prepare` wrote; returns what was done."""

    def read(self, target: Path, folder: Path) -> Outcome:
        """Read the damaged input as a user would. A refusal is a FloatlensError; all else that is raised is a bug."""


def load_subject(name: str) -> Subject:
    """The subject of that name, or of that class (`module:Class`)."""
    if name not in SUBJECTS and ":" not in name:
        raise FloatlensError(f'no subject "{name}" to fuzz{did_you_mean(name, SUBJECTS)}')
    module, _, kind = SUBJECTS.get(name, name).partition(":")
    made: Subject = getattr(import_module(module), kind)()
    return made
