"""The paper's five data sets as named, versioned specs: how a file of that name is read, and its column of Table 1.

A spec holds no data and downloads none. The values the paper printed are in `floatlens.analysis.paper`.
"""

from __future__ import annotations

from dataclasses import dataclass

from floatlens.core.errors import FloatlensError, did_you_mean

__all__ = ["SETS", "SetSpec", "set_named"]


@dataclass(frozen=True)
class SetSpec:
    """One data set. `passages` is how many documents the paper shows; raise `version` when the same file would give
    other examples."""

    name: str
    title: str
    column: str
    version: int = 1
    format: str = "psg"
    passages: int = 5

    @property
    def label(self) -> str:
        """Name and version, as a record states it: `nq@1`."""
        return f"{self.name}@{self.version}"


SETS = {
    spec.name: spec
    for spec in (
        SetSpec("nq", "Natural Questions", "NQ"),
        SetSpec("tqa", "TriviaQA", "TQA"),
        SetSpec("marcoqa", "MS MARCO QA", "MarcoQA"),
        SetSpec("hotpotqa", "HotpotQA", "HotpotQA"),
        SetSpec("trex", "T-REx", "T-REx"),
    )
}
"""By name, in the order of the columns of Table 1 (arXiv 2601.07894)."""


def set_named(name: str) -> SetSpec:
    """A set by name. Example: `set_named("trex").column  # "T-REx"`"""
    if name not in SETS:
        raise FloatlensError(f'no data set "{name}"{did_you_mean(name, SETS)}')
    return SETS[name]
