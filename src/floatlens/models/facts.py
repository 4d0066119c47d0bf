"""What a checkpoint says of itself before any weights are read: which family reads it, and its sizes.

It takes the same steps as `load`, up to the weights, so it refuses what `load` would refuse. Of local weights only a
digest is taken; of a hub repository only the small files are fetched. It imports transformers, but no torch module is
built.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from floatlens.core.errors import FloatlensError
from floatlens.core.files import fingerprint
from floatlens.models import names, registry
from floatlens.models.adapted import FAMILY_NAME, Adapted, adapter_digest, adapter_folder, base_of, read_adapted
from floatlens.models.checkpoint import find, in_one_line
from floatlens.models.plan import Reading, plan_checkpoint, read_as
from floatlens.models.told import Told
from floatlens.models.visibility import layers_with_attention

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from floatlens.models.base import Attention, Kind
    from floatlens.models.course import Course
    from floatlens.models.plan import Family

__all__ = ["Facts", "look", "tokenizer_of"]


@dataclass(frozen=True)
class Facts:
    """What is known of a model without its weights. Example: `look("GSAI-ML/LLaDA-8B-Instruct").layers`"""

    ref: str
    revision: str | None
    weights: str | None
    """A digest of the weight files of a folder or a file; None for a hub repository, which has its revision."""
    family: str
    kind: Kind
    shift: bool
    architecture: str
    layers: int
    heads: int
    kv_heads: int
    width: int | None
    vocabulary: int
    context: int | None
    mask_id: int | None
    mask_text: str | None
    tokenizer: str | None
    attention: Attention | None = None
    block_size: int | None = None
    sampler: str | None = None
    control: Mapping[str, Any] | None = None
    """For a control of another model, as in `LanguageModel.control`."""
    course: Course | None = None
    """For a snapshot of a course: where in its training it is."""
    attention_layers: tuple[int, ...] | None = None
    """The layers that have attention, where not all do."""


def look(
    ref: str,
    *,
    family: str | None = None,
    revision: str | None = None,
    adapter: str | Path | None = None,
    told: Told | None = None,
) -> Facts:
    """Read the configuration and the tokenizer of a hub id, a folder, a .gguf file or a registered name."""
    told = told or Told()
    path = names.resolve(ref)
    folder = adapter_folder(ref, path, adapter)
    adapted = read_adapted(Path(path).expanduser() if folder is None else folder)
    mask_id = None if adapted is None or adapted.to == "autoregressive" else adapted.mask_token_id
    if folder is None:
        base = _look_whole(ref, path, family, revision, mask_id, told)
        return base if adapted is None else _changed(base, adapted)
    named = ref if adapter is not None else base_of(folder)
    base = _look_whole(ref, names.resolve(named), family, revision, mask_id, told)
    digest = hashlib.sha256(f"{base.weights} {adapter_digest(folder)}".encode()).hexdigest()
    base = replace(base, ref=ref if adapter is None else f"{ref} + {folder}", weights=digest)
    return base if adapted is None else _changed(base, adapted)


def tokenizer_of(ref: str, family: str | None = None, revision: str | None = None) -> PreTrainedTokenizerBase | None:
    """The tokenizer of a model, as `load` would give it. Example: `tokenizer_of("scale:llada").mask_token`"""
    from floatlens.models.tokenizer import load_gguf_tokenizer, load_tokenizer

    path = names.resolve(ref)
    folder = adapter_folder(ref, path, None)
    if folder is not None:
        path = names.resolve(base_of(folder))
    if path.endswith(".gguf"):
        return load_gguf_tokenizer(Path(path).expanduser())
    checkpoint = find(path, revision)
    return load_tokenizer(checkpoint, byte_pair=registry.pick(checkpoint.settings, family).byte_pair)


def _changed(base: Facts, adapted: Adapted) -> Facts:
    """The facts of a base, and what adaptation made of it."""
    if adapted.to == "autoregressive":
        return base
    return replace(base, family=FAMILY_NAME, kind="mdm", attention=adapted.attention)


def _look_whole(
    ref: str, path: str, family: str | None, revision: str | None, mask_id: int | None, told: Told
) -> Facts:
    """The facts of a checkpoint; `mask_id` is given for one that was adapted."""
    chosen = None if family is None else registry.FAMILIES[family]
    if path.endswith(".gguf"):
        return _look_gguf(ref, path, chosen, revision, mask_id)
    from floatlens.models.tokenizer import find_mask, load_tokenizer

    checkpoint = find(path, revision, told)
    settings = checkpoint.settings
    reads = registry.pick(settings, family)
    plan = plan_checkpoint(reads, checkpoint.settings)
    reading = read_as(reads, plan, settings)
    tokenizer = load_tokenizer(checkpoint, byte_pair=reads.byte_pair)
    config = plan.config.get_text_config()
    if mask_id is None and reading.kind == "mdm":
        mask_id = find_mask(settings, tokenizer, config.vocab_size, plan.mask_id)
    classes = settings.get("architectures")
    declared = classes[0] if isinstance(classes, list) and classes else None
    own = plan.architecture.__name__
    architecture = str(declared) if own.startswith("Auto") and declared else own
    which = (checkpoint.revision, checkpoint.weights_digest())
    return _facts(ref, which, reading, config, tokenizer, architecture, mask_id, plan.position_offset)


def _look_gguf(ref: str, file: str, chosen: Family | None, revision: str | None, mask_id: int | None) -> Facts:
    from transformers import AutoConfig

    from floatlens.models.causal import FAMILY, check_gguf
    from floatlens.models.tokenizer import load_gguf_tokenizer

    path = Path(file).expanduser()
    check_gguf(ref, path, chosen, revision)
    with in_one_line(ref, "transformers cannot read its header"):
        config = AutoConfig.from_pretrained(path.parent, gguf_file=path.name, local_files_only=True)
    tokenizer = load_gguf_tokenizer(path)
    which = (None, fingerprint([path]))
    reading = Reading(FAMILY.name, FAMILY.kind, FAMILY.shift, "causal", None, None)
    return _facts(ref, which, reading, config.get_text_config(), tokenizer, f"{config.model_type} (GGUF)", mask_id, 0)


def _facts(
    ref: str,
    which: tuple[str | None, str | None],
    reading: Reading,
    config: Any,
    tokenizer: Any,
    architecture: str,
    mask_id: int | None,
    offset: int,
) -> Facts:
    def number(name: str) -> int | None:
        value = getattr(config, name, None)
        return value if isinstance(value, int) else None

    def needed(name: str) -> int:
        value = number(name)
        if value is None:
            raise FloatlensError(f"{ref}: its configuration has no `{name}`, which floatlens needs")
        return value

    length = number("max_position_embeddings")
    own = layers_with_attention(getattr(config, "layer_types", None), needed("num_hidden_layers"))
    return Facts(
        ref=ref,
        revision=which[0],
        weights=which[1],
        **asdict(reading),
        architecture=architecture,
        layers=needed("num_hidden_layers"),
        heads=needed("num_attention_heads"),
        kv_heads=number("num_key_value_heads") or needed("num_attention_heads"),
        width=number("hidden_size"),
        vocabulary=needed("vocab_size"),
        context=None if length is None else length - offset,
        mask_id=mask_id,
        mask_text=None if tokenizer is None or mask_id is None else tokenizer.convert_ids_to_tokens(mask_id),
        tokenizer=None if tokenizer is None else type(tokenizer).__name__,
        attention_layers=None if len(own) == needed("num_hidden_layers") else own,
    )
