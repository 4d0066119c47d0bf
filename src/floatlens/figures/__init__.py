"""Figures: a result in, a matplotlib Figure out. Nothing here computes, saves or shows."""

from __future__ import annotations

from floatlens.figures.training import plot_training

__all__ = ["plot_training"]
