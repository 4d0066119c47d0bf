"""The paper's five data sets as named, versioned specs, and the values it printed for them (sets.yaml).

A spec says how a file of that name is read and which column of Table 1 it belongs to. It holds no data and downloads
none. Where a value of the paper is not known exactly there is none, rather than one read off a figure.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

import yaml
from pydantic import BaseModel, ConfigDict, Field, field_validator

from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.data.formats import format_named

__all__ = ["Average", "PaperTable", "SetSpec", "paper_table", "set_named"]


class _Spec(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SetSpec(_Spec):
    """One data set. `values[metric][model]` is (closed book, RAG) in per cent, as printed."""

    name: str
    version: int = Field(ge=1)
    title: str
    column: str
    format: str
    passages: int = Field(ge=1)
    values: dict[str, dict[str, tuple[float, float]]] = Field(default_factory=dict)

    @property
    def label(self) -> str:
        """Name and version, as a record states it: `nq@1`."""
        return f"{self.name}@{self.version}"

    @field_validator("format")
    @classmethod
    def _known(cls, name: str) -> str:
        return format_named(name).name


class Average(_Spec):
    """A model's average over the table in per cent. The gain is the printed one, which was rounded by itself."""

    closed: float
    rag: float
    gain: float


class PaperTable(_Spec):
    """Table 1: its metrics with their names there, its sets in the order of the columns, and its averages."""

    paper: str
    metrics: dict[str, str]
    sets: tuple[SetSpec, ...]
    average: dict[str, Average]


@cache
def paper_table() -> PaperTable:
    """The table as far as it is known. Example: `paper_table().average["LLaDA"].gain  # 25.68`"""
    raw = (resources.files("floatlens.data") / "sets.yaml").read_text(encoding="utf-8")
    return PaperTable.model_validate(yaml.safe_load(raw))


def set_named(name: str) -> SetSpec:
    """A set by name. Example: `set_named("trex").column  # "T-REx"`"""
    for spec in paper_table().sets:
        if spec.name == name:
            return spec
    raise FloatlensError(f'no data set "{name}"{did_you_mean(name, [spec.name for spec in paper_table().sets])}')
