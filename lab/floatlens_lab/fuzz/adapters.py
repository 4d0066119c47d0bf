"""Damaged adapters in peft's format, with and without `adaptation.json`, beside an undamaged base."""

from __future__ import annotations

import warnings
from pathlib import Path
from random import Random
from typing import Any

from floatlens_lab.fuzz.models import answer, damaged_copy
from floatlens_lab.fuzz.subject import Outcome

__all__ = ["AdapterFolders"]


class AdapterFolders:
    """One adapter that leaves the kind of its base as it is, and one that makes a diffusion model of it."""

    count = 200

    def __init__(self) -> None:
        self._answers: dict[str, list[Any]] = {}

    def prepare(self, folder: Path) -> None:
        import torch
        from peft import LoraConfig, get_peft_model

        import floatlens as fl
        from floatlens.models.adapted import Adapted

        base = fl.load("scale:llama")
        torch.manual_seed(0)
        wrapped: Any = get_peft_model(base.module, LoraConfig(r=2, target_modules=["q_proj", "down_proj"]))
        for name, parameter in wrapped.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(parameter, std=0.1)
        wrapped.peft_config["default"].base_model_name_or_path = "scale:llama"
        for name in ("plain", "diffusion"):
            wrapped.save_pretrained(folder / name)
        told = Adapted(to="diffusion", attention="full", mask_token_id=4, base="scale:llama")
        told.write(folder / "diffusion")

    def warm(self, folder: Path) -> None:
        for path in folder.iterdir():
            self._answers[path.name] = answer(str(path))

    def damage(self, folder: Path, rng: Random, target: Path) -> str:
        return damaged_copy(rng.choice(sorted(folder.iterdir())), rng, target)

    def read(self, target: Path, folder: Path) -> Outcome:
        name, done = (target / "note").read_text().split("\n")[:2]
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found = answer(str(target / "model"))
        if name not in self._answers:
            self._answers[name] = answer(str(folder / name))
        if found == self._answers[name]:
            return "unchanged"
        return "different" if "infinite" in done else "told" if said else "another"
