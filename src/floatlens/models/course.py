"""`Course`: where a checkpoint or an adapter is in its training. It is what results over training are ordered by.

A course has a name and snapshots at different training steps. Its `origin` is a model of its own, such as the
autoregressive base that is turned into a diffusion model; it has no step, since nothing was trained or changed yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from floatlens.models.adapted import read_adapted

if TYPE_CHECKING:
    from pathlib import Path

    from floatlens.models.adapted import Adapted

__all__ = ["Course", "earlier", "trained"]


@dataclass(frozen=True)
class Course:
    """One snapshot of a course. `tokens` were trained on up to here, where that is known; `origin` is the reference of
    the model that the course started from.

    Example: `Course("twin", step=400, tokens=350_000, origin="natural:smollm2").label`
    """

    name: str
    step: int
    tokens: int | None = None
    origin: str | None = None

    @property
    def label(self) -> str:
        """The name of the snapshot in records, tables and figures."""
        return f"{self.name}, step {self.step}"

    def to_dict(self) -> Mapping[str, Any]:
        """As manifests and traces hold it."""
        return asdict(self)


def earlier(courses: Mapping[str, Mapping[str, Any] | None]) -> set[str]:
    """Of models with their courses (None: no snapshot), as manifests and traces hold them: the snapshots before the
    last one of each course. What is said of models is said without these.

    Example: `earlier({"a": {"name": "a", "step": 0}, "b": {"name": "a", "step": 25}, "c": None})  # {"a"}`
    """
    last: dict[str, int] = {}
    for course in courses.values():
        if course is not None:
            last[course["name"]] = max(course["step"], last.get(course["name"], 0))
    return {model for model, one in courses.items() if one is not None and one["step"] < last[one["name"]]}


def trained(folder: Path) -> Adapted | None:
    """What a folder's `adaptation.json` says, if it states a training step."""
    found = read_adapted(folder) if folder.is_dir() else None
    return found if found is not None and "step" in found.model_fields_set else None
