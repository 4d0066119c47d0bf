"""`load`: from a reference to a `LanguageModel`, in one pass that checks first and reads weights last.

It runs the family's plan through transformers and insists that every tensor found its place. It trusts no remote code,
leaves no module half initialised, and keeps transformers quiet while it works.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import asdict
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.models.finite import check_weights

from . import names, registry
from .adapted import adapter_folder, base_of, merge, read_adapted
from .base import LanguageModel
from .causal import FAMILY as CAUSAL
from .causal import check_gguf
from .checkpoint import Checkpoint, find, in_one_line, weights_of
from .plan import Family, Reading, plan_checkpoint, read_as
from .tensors import check_tensors
from .tokenizer import find_mask, load_gguf_tokenizer, load_tokenizer
from .told import Told

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

__all__ = ["load", "quiet"]

_DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16, "float64": torch.float64}


def load(
    ref: str | Path,
    *,
    family: str | None = None,
    dtype: str | torch.dtype | None = None,
    device: str | torch.device | None = None,
    device_map: str | dict[str, Any] | None = None,
    revision: str | None = None,
    adapter: str | Path | None = None,
    attention: str | None = None,
    block_size: int | None = None,
    mask_id: int | None = None,
    mode: str | None = None,
) -> LanguageModel:
    """Load a hub id, a local folder, a .gguf file or a registered name such as `scale:llada`.

    `family` overrides what config.json suggests. `dtype` is float32 on a CPU and the checkpoint's elsewhere unless
    given ("auto": the checkpoint's everywhere). `device` defaults to a CUDA device when there is one; `device_map` goes
    to transformers as it is. `adapter` is a folder in peft's format whose weights are merged into the model; a folder
    that holds an adapter alone is loaded with the base it names.

    The rest says what a checkpoint does not: `attention` is "full" or "block_causal", by blocks of `block_size`
    positions; `mask_id` is the mask token; `mode` is for families whose weights run in more than one way.

    Example: `load("scale:llada", dtype="float32").kind  # "mdm"`
    """
    name = str(ref)
    chosen = None if family is None else registry.FAMILIES[family]
    place = _Placement(dtype, device, device_map)
    told = Told(attention, block_size, mask_id, mode)
    with quiet():
        path = names.resolve(name)
        folder = adapter_folder(name, path, adapter)
        if folder is None:
            return check_weights(_load_whole(name, path, chosen, place, revision, told))
        base = name if adapter is not None else base_of(folder)
        try:
            loaded = _load_whole(base, names.resolve(base), chosen, place, revision, told)
            digest = weights_of(names.resolve(base), revision)
        except FloatlensError as error:
            raise FloatlensError(f"{folder}: its base model cannot be loaded: {error}") from error
        return check_weights(merge(loaded, folder, name if adapter is None else f"{name} + {folder}", digest))


def _load_whole(
    name: str, path: str, chosen: Family | None, place: _Placement, revision: str | None, told: Told
) -> LanguageModel:
    """A model without an adapter."""
    if path.endswith(".gguf"):
        for said in told.given:
            raise FloatlensError(f"{name}: {said}= is for diffusion models, and a .gguf file is autoregressive")
        return _load_gguf(name, path, chosen, place, revision)
    checkpoint = find(path, revision, told)
    loaded = _load_folder(name, checkpoint, chosen, place)
    adapted = read_adapted(checkpoint.folder)  # a base all of whose weights were adapted
    return loaded if adapted is None else adapted.apply(loaded, loaded.module, name)


def _load_folder(name: str, checkpoint: Checkpoint, chosen: Family | None, place: _Placement) -> LanguageModel:
    settings = checkpoint.settings
    family = registry.pick(settings, None if chosen is None else chosen.name)
    plan = plan_checkpoint(family, checkpoint.settings)  # a fresh copy: it counts what the family asks for
    reading = read_as(family, plan, settings)
    config = plan.config.get_text_config()
    tokenizer = load_tokenizer(checkpoint, byte_pair=family.byte_pair)
    mask_id = find_mask(settings, tokenizer, config.vocab_size, plan.mask_id) if reading.kind == "mdm" else None
    options: dict[str, Any] = {"config": plan.config, "use_safetensors": checkpoint.weights()}
    if plan.key_mapping is not None:
        options["key_mapping"] = dict(plan.key_mapping)
    module = _read_weights(plan.architecture, checkpoint.folder, place, plan.surplus, **options)
    special = _special_ids(config, checkpoint.optional_json("generation_config.json"), tokenizer)
    return _wrap(
        name,
        module,
        reading,
        offset=plan.position_offset,
        mask_id=mask_id,
        tokenizer=tokenizer,
        revision=checkpoint.revision,
        head=None if plan.head is None else module.get_submodule(plan.head),
        **special,
    )


def _load_gguf(name: str, file: str, chosen: Family | None, place: _Placement, revision: str | None) -> LanguageModel:
    from transformers import AutoModelForCausalLM

    path = Path(file).expanduser()
    check_gguf(name, path, chosen, revision)
    with redirect_stderr(StringIO()):  # its progress bar is plain tqdm, which no verbosity setting reaches
        module = _read_weights(AutoModelForCausalLM, path.parent, place, gguf_file=path.name)
    tokenizer = load_gguf_tokenizer(path)
    special = _special_ids(module.config.get_text_config(), {}, tokenizer)
    reading = Reading(CAUSAL.name, CAUSAL.kind, CAUSAL.shift, "causal", None, None)
    return _wrap(name, module, reading, tokenizer=tokenizer, **special)


def _wrap(name: str, module: PreTrainedModel, reading: Reading, offset: int = 0, **facts: Any) -> LanguageModel:
    """The module as its family reads it."""
    length = getattr(module.config.get_text_config(), "max_position_embeddings", None)
    facts |= asdict(reading) | {"position_offset": offset}
    return LanguageModel(module=module, ref=name, max_length=None if length is None else length - offset, **facts)


class _Placement:
    """Where the weights go and in which precision, checked before anything is read."""

    def __init__(
        self,
        dtype: str | torch.dtype | None,
        device: str | torch.device | None,
        device_map: str | dict[str, Any] | None,
    ) -> None:
        if device is not None and device_map is not None:
            raise FloatlensError("give device= or device_map=, not both")
        self.device_map = device_map
        self.device: torch.device | None = None
        if device_map is None:
            self.device = _parse_device(device)
        self.dtype = self._parse_dtype(dtype)

    @property
    def on_cpu(self) -> bool:
        if self.device is not None:
            return self.device.type == "cpu"
        if isinstance(self.device_map, dict):
            return all(str(place) in ("cpu", "disk") for place in self.device_map.values())
        return self.device_map == "cpu" or not torch.accelerator.is_available()

    def _parse_dtype(self, given: str | torch.dtype | None) -> torch.dtype | str:
        if given is None:
            # Some virtual CPUs die of an illegal instruction in a bfloat16 matmul.
            return torch.float32 if self.on_cpu else "auto"
        if isinstance(given, torch.dtype):
            found = given
        elif given == "auto":
            return "auto"
        elif given.removeprefix("torch.") in _DTYPES:
            found = _DTYPES[given.removeprefix("torch.")]
        else:
            raise FloatlensError(f"no dtype {given!r}{did_you_mean(given, [*_DTYPES, 'auto'])}")
        if found not in _DTYPES.values():
            raise FloatlensError(f"a model cannot run in {found}; known: {', '.join(_DTYPES)}, auto")
        return found


def _parse_device(given: str | torch.device | None) -> torch.device:
    if given is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(given)
    except RuntimeError as error:
        raise FloatlensError(f"no device {given!r}; give cpu, cuda, cuda:1, mps, ...") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise FloatlensError(f"device {str(given)!r} was asked for, and torch finds no CUDA device here")
    return device


def _read_weights(
    architecture: Any, folder: Path, place: _Placement, surplus: tuple[str, ...] = (), **options: Any
) -> PreTrainedModel:
    """Let transformers read. Mismatched sizes pass it here, so `check_tensors` can name them in one line."""
    where = folder / options["gguf_file"] if "gguf_file" in options else folder
    with in_one_line(where, "transformers cannot load it"):
        try:
            module, info = architecture.from_pretrained(
                folder,
                dtype=place.dtype,
                device_map=place.device_map,
                attn_implementation="sdpa",
                local_files_only=True,
                trust_remote_code=False,
                weights_only=True,
                ignore_mismatched_sizes=True,
                output_loading_info=True,
                **options,
            )
        except pickle.UnpicklingError as error:
            said = "its .bin holds more than tensors, which floatlens does not unpickle"
            raise FloatlensError(f"{where}: {said}") from error
    check_tensors(info, type(module).__name__, surplus, where)
    loaded: PreTrainedModel = module
    if place.device is not None:
        loaded.to(place.device)  # type: ignore[arg-type]
    return loaded


def _special_ids(config: Any, generation: dict[str, Any], tokenizer: PreTrainedTokenizerBase | None) -> dict[str, Any]:
    """BOS, EOS and padding in transformers' own order: generation_config.json, config.json, the tokenizer."""

    def first(key: str) -> Any:
        given = (generation.get(key), getattr(config, key, None), getattr(tokenizer, key, None))
        return next((value for value in given if value is not None), None)

    eos = first("eos_token_id")
    return {
        "bos_id": first("bos_token_id"),
        "eos_ids": () if eos is None else tuple(eos) if isinstance(eos, list) else (eos,),
        "pad_id": first("pad_token_id"),
    }


@contextmanager
def quiet() -> Iterator[None]:
    """Silence transformers' reports and bars: what matters in them is raised, and the rest is noise. Restored after."""
    from huggingface_hub.utils import logging as hub
    from transformers.utils import logging as library

    hub_level, level, bar = hub.get_verbosity(), library.get_verbosity(), library.is_progress_bar_enabled()
    hub.set_verbosity(logging.ERROR)
    library.set_verbosity(logging.ERROR)
    library.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        hub.set_verbosity(hub_level)
        library.set_verbosity(level)
        if bar:
            library.enable_progress_bar()  # type: ignore[no-untyped-call]
