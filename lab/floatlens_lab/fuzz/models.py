"""Damaged checkpoints: config.json, tokenizers, chat templates, headers of weight files, GGUF, and what is no file.

A folder is looked at, weighed up and loaded; what loads answers a question. Another configuration is another model,
which nobody can notice; an infinite weight can be noticed, and has to be.
"""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from random import Random
from typing import Any

from floatlens.core.errors import FloatlensError
from floatlens_lab.fuzz.gguf_file import write_gguf
from floatlens_lab.fuzz.model_damage import DAMAGE, weigh_infinitely
from floatlens_lab.fuzz.subject import Outcome

__all__ = ["GOLDEN", "ModelFolders", "answer", "damaged_copy", "linked_copy"]

GOLDEN = Path(__file__).parents[3] / "tests" / "golden"
_GOLDENS = tuple(f"{name}-tiny" for name in ("dream", "sdar", "nemotron-diffusion", "caduceus-ph", "lfm2-encoder"))
_IDS = [5, 6, 7, 8]


class ModelFolders:
    """Two scale models, tiny checkpoints of five families, one in shards, one pickled, and a GGUF file."""

    count = 500

    def __init__(self) -> None:
        self._answers: dict[str, list[Any]] = {}

    def prepare(self, folder: Path) -> None:
        import torch
        from safetensors.torch import load_file, save_file

        from floatlens.models import names

        for name in ("llada", "llama"):
            found = Path(names.resolve(f"scale:{name}"))
            _copy(found, folder / name)
        for name in _GOLDENS:
            _copy(GOLDEN / name, folder / name)
        tensors = load_file(GOLDEN / "llada-tiny" / "model.safetensors")
        for name in ("shards", "pickled"):
            (folder / name).mkdir()
            shutil.copy(GOLDEN / "llada-tiny" / "config.json", folder / name)
        torch.save(tensors, folder / "pickled" / "pytorch_model.bin")
        halves = [dict(sorted(tensors.items())[part::2]) for part in (0, 1)]
        for number, half in enumerate(halves):
            save_file(half, folder / "shards" / f"model-{number}.safetensors", metadata={"format": "pt"})
        weight_map = {name: f"model-{number}.safetensors" for number, half in enumerate(halves) for name in half}
        index = {"metadata": {}, "weight_map": weight_map}
        (folder / "shards" / "model.safetensors.index.json").write_text(json.dumps(index))
        (folder / "gguf").mkdir()
        write_gguf(folder / "gguf" / "model.gguf")

    def warm(self, folder: Path) -> None:
        for path in folder.iterdir():
            self._answers[path.name] = answer(_ref(path))

    def damage(self, folder: Path, rng: Random, target: Path) -> str:
        source = rng.choice(sorted(folder.iterdir()))
        return damaged_copy(source, rng, target)

    def read(self, target: Path, folder: Path) -> Outcome:
        name, done = (target / "note").read_text().split("\n")[:2]
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found = answer(_ref(target / "model"))
        if name not in self._answers:
            self._answers[name] = answer(_ref(folder / name))
        if found == self._answers[name]:
            return "unchanged"
        return "different" if "infinite" in done else "told" if said else "another"


def damaged_copy(source: Path, rng: Random, target: Path) -> str:
    """A damaged copy of a folder in `target / "model"`, with a note of what was done."""
    copy = linked_copy(source, target / "model")
    if rng.random() < 0.05 and any(copy.glob("*.safetensors")):
        done = weigh_infinitely(rng, copy)
    else:
        chosen = rng.choice(("bits", "cut", "header", "kind")) if source.name == "gguf" else rng.choice(sorted(DAMAGE))
        done = str(DAMAGE[chosen](rng, copy))
    (target / "note").write_text(f"{source.name}\n{done}")
    return f"{source.name}: {done}"


def linked_copy(source: Path, target: Path) -> Path:
    """A folder with links to the files of another one."""
    target.mkdir()
    for path in source.iterdir():
        (target / path.name).symlink_to(path.resolve())
    return target


def answer(ref: str) -> list[Any]:
    """What a user sees of a model: its facts, what it takes to load it, and what it writes. Each may refuse."""
    import floatlens as fl
    from floatlens.models.facts import look
    from floatlens.models.requirements import requirements
    from floatlens.probes import default_probes

    refused = []
    for see in (look, requirements):
        try:
            see(ref)
        except FloatlensError as error:
            refused.append(str(error))
    model = fl.load(ref)
    if refused:  # what is loaded has to be known beforehand as well
        raise FloatlensError(refused[0])
    own = len(model.attention_layers)
    probes = default_probes(model.kind, None if own == model.num_layers else own)[:1]
    asked: dict[str, Any] = {"gen_length": 4, "probes": probes, "heads": "mean"}
    asked |= {"prompt_ids": _IDS} if model.tokenizer is None else {"question": "Who sings?", "documents": ["Bo sings."]}
    trace = fl.trace(model, **asked)
    return [trace.answer, *(trace.data[name].values.tobytes() for name in sorted(map(str, trace.data.data_vars)))]


def _ref(folder: Path) -> str:
    file = folder / "model.gguf"
    return str(file) if folder.name == "gguf" or file.is_symlink() or file.exists() else str(folder)


def _copy(source: Path, target: Path) -> None:
    target.mkdir()
    for path in source.iterdir():
        if not path.name.startswith(("golden", "README", "card", "training")):
            shutil.copy(path, target)
