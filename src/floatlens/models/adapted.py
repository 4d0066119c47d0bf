"""Adapted models: a base, an adapter in peft's format (or a whole checkpoint), and `adaptation.json`, which says what
became of the base: diffusion or autoregressive, which attention, which mask token.

An adapter is merged when it is loaded, so what runs is a plain transformers module. An adapter without the file is one
that changes weights only, and the model stays what its base is.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict

from floatlens.core.borders import check_reference
from floatlens.core.errors import FloatlensError, FloatlensWarning
from floatlens.core.files import fingerprint, write_atomically
from floatlens.core.validation import validate

from . import names
from .checkpoint import brief, check_files, in_one_line
from .settings import Settings

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from .base import LanguageModel

__all__ = [
    "FAMILY_NAME",
    "Adapted",
    "adapter_digest",
    "adapter_folder",
    "base_of",
    "is_adapter",
    "merge",
    "read_adapted",
]

FAMILY_NAME = "adapted"
_FILE = "adaptation.json"
_WEIGHTS = "adapter_model.safetensors"
_CONFIG = "adapter_config.json"


class Adapted(BaseModel):
    """What `adaptation.json` holds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    to: Literal["diffusion", "autoregressive"]
    attention: Literal["full", "block", "causal"]
    mask_token_id: int | None
    base: str
    base_weights: str | None = None
    step: int = 0
    tokens: int = 0

    def write(self, folder: Path) -> None:
        write_atomically(folder / _FILE, (self.model_dump_json(indent=1) + "\n").encode())

    def apply(self, base: LanguageModel, module: PreTrainedModel, ref: str | None = None) -> LanguageModel:
        """`base` with the weights of `module`, read as the kind of model that it became."""
        changed: dict[str, Any] = {"module": module, "ref": ref or base.ref, "observers": [], "head": None}
        if self.to == "diffusion":
            changed |= {"kind": "mdm", "family": FAMILY_NAME, "mask_id": self.mask_token_id}
            changed |= {"attention": self.attention, "sampler": None}
            module.config.is_causal = False
        return replace(base, **changed)


def is_adapter(folder: Path) -> bool:
    """Whether a folder holds an adapter and no whole model."""
    return (folder / _CONFIG).is_file() and not (folder / "config.json").is_file()


def read_adapted(folder: Path) -> Adapted | None:
    """The folder's `adaptation.json`; None where there is none."""
    path = folder / _FILE
    if not path.is_file():
        return None
    return validate(Adapted, dict(Settings.read(path)), str(path))


def adapter_folder(name: str, path: str, adapter: str | Path | None) -> Path | None:
    """The folder of the adapter that is asked for, if any."""
    check_reference(path)
    if adapter is None:
        return check_files(Path(path).expanduser()) if is_adapter(Path(path).expanduser()) else None
    folder = Path(names.resolve(str(adapter))).expanduser()
    if not is_adapter(folder):
        raise FloatlensError(
            f"adapter={str(adapter)!r}: there is no adapter_config.json in it, so it is not an adapter"
        )
    if is_adapter(Path(path).expanduser()):
        raise FloatlensError(f"{name}: it is an adapter itself; give its base ({base_of(Path(path))}) with adapter=")
    return check_files(folder)


def base_of(folder: Path) -> str:
    """The base that an adapter names."""
    adapted = read_adapted(folder)
    named = adapted.base if adapted is not None else Settings.read(folder / _CONFIG).get("base_model_name_or_path")
    if not isinstance(named, str) or not named:
        raise FloatlensError(f"{folder / _CONFIG}: it names no base model; load the base with adapter={str(folder)!r}")
    return named


def adapter_digest(folder: Path) -> str:
    """Which adapter this is."""
    return fingerprint([folder / name for name in (_WEIGHTS, _CONFIG, _FILE) if (folder / name).is_file()])


def merge(base: LanguageModel, folder: Path, ref: str, base_weights: str | None) -> LanguageModel:
    """The base with the adapter of `folder` merged into its weights."""
    _check_fit(base, folder)
    try:
        from peft import PeftModel
    except ImportError as error:
        raise FloatlensError(f"{folder}: adapters need peft; run: pip install peft") from error
    adapted = read_adapted(folder)
    if (
        adapted is not None
        and None not in (adapted.base_weights, base_weights)
        and adapted.base_weights != base_weights
    ):
        warnings.warn(
            f"{folder}: the adapter was trained on other weights of {adapted.base} than {base.ref} has here",
            FloatlensWarning,
            stacklevel=3,
        )
    with in_one_line(folder, "peft cannot load this adapter"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wrapped = PeftModel.from_pretrained(base.module, str(folder))
        module: Any = wrapped.merge_and_unload()
    if adapted is None:
        return replace(base, module=module, ref=ref, observers=[])
    return adapted.apply(base, module, ref)


def _check_fit(base: LanguageModel, folder: Path) -> None:
    """Every low-rank pair has a layer of its size in the base, or the first that has none is named."""
    from safetensors import SafetensorError, safe_open

    path = folder / _WEIGHTS
    if not path.is_file():
        raise FloatlensError(f"{path}: missing; the adapter's weights must be in the same folder as its {_CONFIG}")
    layers = dict(base.module.named_modules())
    try:
        with safe_open(path, framework="pt") as file:
            sizes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise FloatlensError(f"{path}: damaged or cut short ({brief(error)}); download it again") from error
    for name, size in sizes.items():
        inner, _, kind = name.removeprefix("base_model.model.").partition(".lora_")
        if kind not in ("A.weight", "B.weight"):
            continue
        weight = getattr(layers.get(inner), "weight", None)
        if weight is None:
            raise FloatlensError(f"{path}: {name} is for a layer that {base.ref} does not have; is this its base?")
        here, needed = (size[1], weight.shape[1]) if kind == "A.weight" else (size[0], weight.shape[0])
        if here != needed:
            raise FloatlensError(
                f"{path}: {name} is for a layer of width {here}, and that of {base.ref} has {needed}; is this its base?"
            )
