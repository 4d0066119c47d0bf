"""Adaptation: turn an autoregressive checkpoint into a masked diffusion model, or tune it on the same rows.

`adapt` trains low-rank adapters (or all weights) on questions with passages and on plain text. With
`to="diffusion"` attention becomes bidirectional and masked tokens are predicted; with `to="autoregressive"` the same
tokens of the same rows are predicted from what precedes them. Only the mask and the objective differ.
"""

from __future__ import annotations

from floatlens.adaptation.recipe import Recipe
from floatlens.adaptation.training import Progress, adapt

__all__ = ["Progress", "Recipe", "adapt"]
