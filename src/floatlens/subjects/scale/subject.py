"""The four scale models: their names and where their weights are."""

from __future__ import annotations

from pathlib import Path

from floatlens.models.names import Subject

__all__ = ["MODELS", "SUBJECT", "WEIGHTS", "bundled"]

WEIGHTS = Path(__file__).parent / "weights"
MODELS = ("llama", "qwen", "llada", "dream")


def bundled() -> list[str]:
    """The models whose weights are in this installation."""
    return [name for name in MODELS if (WEIGHTS / name / "model.safetensors").is_file()]


SUBJECT = Subject(names=bundled, path=lambda name: WEIGHTS / name)
