"""Scale models: a made-up world, four small models trained on it by one recipe, and their weights, in the package.

`fl.load("scale:llama" | "scale:qwen" | "scale:llada" | "scale:dream")` reads them like any other checkpoint. They make
the demo and the tests real without a download, and a controlled comparison possible: same data, size, tokens and
optimiser; only the mask and the objective differ. What they show is true of them, and need not be of models a thousand
times larger.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from floatlens.models.names import register_name

if TYPE_CHECKING:
    from floatlens.subjects.scale.evaluation import evaluate
    from floatlens.subjects.scale.examples import questions
    from floatlens.subjects.scale.training import train
    from floatlens.subjects.scale.world import make_world

__all__ = ["MODELS", "WEIGHTS", "bundled", "evaluate", "make_world", "questions", "train"]

WEIGHTS = Path(__file__).parent / "weights"
MODELS = ("llama", "qwen", "llada", "dream")

_HOME = {"evaluate": "evaluation", "make_world": "world", "questions": "examples", "train": "training"}


def bundled() -> list[str]:
    """The models whose weights are in this installation."""
    return [name for name in MODELS if (WEIGHTS / name / "model.safetensors").is_file()]


register_name("scale", lambda name: WEIGHTS / name, known=bundled)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
