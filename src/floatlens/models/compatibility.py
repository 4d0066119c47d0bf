"""The compatibility table: which published checkpoints load, with which mask and sampler, and how that was verified.

Every family declares its own rows (`Family.published`), also one of another package, so the command line, the
documentation and the families cannot disagree. Nothing is imported but the families themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from floatlens.models.adapted import FAMILY_NAME
from floatlens.models.plan import Family, Published, Verified, default_sampler
from floatlens.models.registry import families

__all__ = ["Compatible", "compatibility", "markdown"]

_ATTENTION = {"arm": "causal", "mdm": "full"}
_MADE_HERE = "models made by floatlens adapt"


@dataclass(frozen=True)
class Compatible:
    """One row: the checkpoints of a family that behave alike."""

    family: str
    checkpoints: str
    mask: str
    shift: bool
    sampler: str
    verified: Verified


def compatibility() -> tuple[Compatible, ...]:
    """The rows of all families, in the order in which families are asked.

    >>> next((row.sampler, row.verified) for row in compatibility() if row.family == "dream")
    ('dream', 'golden')
    """
    adapted = Compatible(FAMILY_NAME, _MADE_HERE, "full or block", True, default_sampler("mdm", shift=True), "class")
    return (*(row for family in families() for row in _rows(family)), adapted)


def _rows(family: Family) -> list[Compatible]:
    """A family that declares no checkpoints is listed by its description, as experimental."""
    return [
        Compatible(
            family.name,
            one.checkpoints,
            one.attention or _ATTENTION[family.kind],
            family.shift if one.shift is None else one.shift,
            one.sampler or default_sampler(family.kind, family.shift),
            one.verified,
        )
        for one in family.published or (Published(family.about),)
    ]


def markdown(rows: Sequence[Compatible]) -> str:
    """The table as docs/models.md has it."""
    lines = ["| family | checkpoints | mask | shift | sampler | verified |", "|---|---|---|---|---|---|"]
    for row in rows:
        shift = "yes" if row.shift else "no"
        cells = (f"`{row.family}`", row.checkpoints, row.mask, shift, f"`{row.sampler}`", row.verified)
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines) + "\n"
