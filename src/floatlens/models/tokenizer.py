"""The tokenizer of a checkpoint, if it has one, and the mask token; never through code of the checkpoint.

LLaDA and Dream declare tokenizers of their own which are, file for file, a plain fast tokenizer and Qwen2's. Other
declared code is left alone: the model then works on ids, with a warning that says so.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from floatlens.core.errors import FloatlensError, FloatlensWarning

from .checkpoint import Checkpoint, brief

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from .settings import Settings

__all__ = ["find_mask", "load_tokenizer"]

_VOCABULARIES = (
    "tokenizer.json",
    "vocab.json",
    "vocab.txt",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
)
_PLAIN = ("PreTrainedTokenizerFast", "TokenizersBackend")
_MASK_NAMES = ("<|mask|>", "<|mdm_mask|>")


def load_tokenizer(checkpoint: Checkpoint, *, byte_pair: bool) -> PreTrainedTokenizerBase | None:
    """The tokenizer of the folder; None when it has no vocabulary, or only one that needs remote code."""
    from transformers import CONFIG_MAPPING, AutoTokenizer, PreTrainedTokenizerFast, Qwen2Tokenizer

    folder = checkpoint.folder
    if not any((folder / name).is_file() for name in _VOCABULARIES):
        return None
    declared = checkpoint.optional_json("tokenizer_config.json")
    own_code = "auto_map" in declared
    reader: Any
    if declared.get("tokenizer_class") in _PLAIN and (folder / "tokenizer.json").is_file():
        reader = PreTrainedTokenizerFast  # AutoTokenizer would give a Qwen2 model Qwen2's splitting all the same
    elif not own_code and checkpoint.settings.model_type in CONFIG_MAPPING:
        reader = AutoTokenizer
    elif (folder / "tokenizer.json").is_file():
        reader = PreTrainedTokenizerFast
    elif byte_pair and (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        reader = Qwen2Tokenizer
    else:
        warnings.warn(
            f"{checkpoint.ref}: its tokenizer needs code from the checkpoint, which floatlens never runs; "
            "loaded without a tokenizer, for ids only",
            FloatlensWarning,
            stacklevel=2,
        )
        return None
    return _read(reader, folder)


def _read(reader: Any, folder: Path, **options: Any) -> PreTrainedTokenizerBase:
    try:
        found: PreTrainedTokenizerBase = reader.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, **options
        )
    except Exception as error:  # the tokenizers library raises nothing more specific for a damaged file
        raise FloatlensError(
            f"{folder}: its tokenizer cannot be read ({brief(error)}); without its files ids still work"
        ) from error
    longest: Any = found.model_max_length
    if isinstance(longest, bool) or not isinstance(longest, int | float):
        raise FloatlensError(
            f"{folder}: `model_max_length` of its tokenizer is {brief(repr(longest))}; give a number in "
            "tokenizer_config.json"
        )
    return found


def load_gguf_tokenizer(path: Path) -> PreTrainedTokenizerBase:
    """The tokenizer that a .gguf file carries."""
    from transformers import AutoTokenizer

    return _read(AutoTokenizer, path.parent, gguf_file=path.name)


def find_mask(settings: Settings, tokenizer: PreTrainedTokenizerBase | None, rows: int, own: int | None = None) -> int:
    """The id of the mask token: from config.json, else what the user says, else the family's `own`, else the
    tokenizer's, else one of the usual names."""
    found, told = settings.token("mask_token_id"), settings.told.mask_id
    if found is not None and told is not None and found != told:
        raise FloatlensError(
            f"{settings.where}: mask_id={told} was given, but its `mask_token_id` is {found}; leave mask_id= out"
        )
    found = next((given for given in (found, told, own) if given is not None), None)
    if found is None and tokenizer is not None:
        found = tokenizer.mask_token_id
        vocabulary = tokenizer.get_vocab() if found is None else {}
        found = next((vocabulary[name] for name in _MASK_NAMES if name in vocabulary), found)
    if found is None:
        without = "there is no tokenizer" if tokenizer is None else "the tokenizer has no mask token"
        raise FloatlensError(
            f"{settings.where}: no mask token: there is no `mask_token_id` in it, and {without}; "
            "give mask_id= or add `mask_token_id`"
        )
    if found >= rows:
        raise FloatlensError(f"{settings.where}: mask token {found} is outside the vocabulary of {rows}; give mask_id=")
    return found
