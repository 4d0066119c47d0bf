"""`Told`: what the user says of a checkpoint that its files do not (attention, block size, mask token, mode)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from floatlens.core.errors import FloatlensError, did_you_mean

__all__ = ["Told", "ToldAttention", "check_block_size"]

ToldAttention = Literal["full", "block_causal"]


@dataclass(frozen=True)
class Told:
    """The arguments of `load` that a family takes into account; None where nothing was said.

    Example: `Told(attention="block_causal", block_size=32)`
    """

    attention: str | None = None
    block_size: int | None = None
    mask_id: int | None = None
    mode: str | None = None

    def __post_init__(self) -> None:
        known = get_args(ToldAttention)
        if self.attention is not None and self.attention not in known:
            hint = did_you_mean(str(self.attention), known)
            raise FloatlensError(f'attention="{self.attention}"{hint}; give {" or ".join(known)}')
        if self.block_size is not None:
            check_block_size(self.block_size)
            if self.attention == "full":
                raise FloatlensError('block_size= goes with attention="block_causal"; full attention has no blocks')
        given = self.mask_id
        if given is not None and (isinstance(given, bool) or not isinstance(given, int) or given < 0):
            raise FloatlensError(f"mask_id={given!r}; give a token id")

    @property
    def given(self) -> dict[str, Any]:
        """What was said, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def check_block_size(given: object) -> None:
    """Refuse what cannot be a number of positions."""
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise FloatlensError(f"block_size={given!r}; give a whole number of positions, at least 1")
