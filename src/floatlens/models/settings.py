"""`Settings`: a checkpoint's config.json, of which every key is checked.

A family asks it for the values it needs and states which values of which flags it covers; anything else is refused by
name. It never fills in a default: a class default that differs from the checkpoint is the classic silent error.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from floatlens.core.borders import SETTINGS, read_json
from floatlens.core.errors import FloatlensError
from floatlens.core.validation import short
from floatlens.models.told import Told

__all__ = ["BOOKKEEPING", "Settings"]

_WORDS = """_attn_implementation _attn_implementation_autoset _name_or_path architectures attn_implementation
    auto_map bad_words_ids begin_suppress_tokens bos_token_id chunk_size_feed_forward cls_token_id dtype eos_token_id
    finetuning_task id2label initializer_range label2id length_penalty mask_token_id max_length min_length model_type
    num_beams num_return_sequences output_attentions output_hidden_states output_scores pad_token_id
    prefix problem_type pruned_heads repetition_penalty return_dict return_dict_in_generate sep_token_id
    suppress_tokens temperature tokenizer_class top_k top_p torch_dtype torchscript transformers_version
    typical_p unk_token_id use_cache attention_dropout _commit_hash"""
BOOKKEEPING = frozenset(_WORDS.split())
"""Keys that name, describe or train a model and never change what a forward pass in eval mode computes."""


_INDEX = 64 << 20
"""Bytes of the largest index of shards."""
_LONGEST = 100
"""Characters of the longest `model_type`, which messages quote."""
_LARGEST = 2**31
"""Of sizes and token ids: what a tensor's dimension can be."""


class Settings(Mapping[str, Any]):
    """The mapping itself, plus the questions a family asks of it; `where` is the file, for messages.

    It remembers which keys were asked for, so `nothing_else` can refuse the others. `told` is what the user says of the
    checkpoint that its files do not.
    """

    def __init__(self, values: Mapping[str, Any], where: str, told: Told | None = None) -> None:
        self.told = told if told is not None else Told()
        self._values = dict(values)
        self._asked: set[str] = set()
        self.where = where

    @classmethod
    def read(cls, path: Path, told: Told | None = None) -> Settings:
        """Read one config.json."""
        if not os.path.lexists(path):
            raise FloatlensError(f"{path.parent}: there is no {path.name} in it, so it is not a checkpoint")
        values = read_json(path, _INDEX if path.name.endswith(".index.json") else SETTINGS)
        if not isinstance(values, dict):
            raise FloatlensError(f"{path}: expected a JSON object, found {type(values).__name__}")
        return cls(values, str(path), told)

    def __getitem__(self, key: str) -> Any:
        self._asked.add(key)
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def model_type(self) -> str:
        given = self.get("model_type")
        if not isinstance(given, str) or not given:
            raise FloatlensError(f"{self.where}: it has no `model_type`, so nothing says which model this is")
        if len(given) > _LONGEST:
            raise FloatlensError(f"{self.where}: its `model_type` has {len(given):,} characters; it is the name of one")
        return given

    def integer(self, key: str) -> int:
        """A positive whole number that must be there."""
        value = self._needed(key)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < _LARGEST:
            raise FloatlensError(f"{self.where}: `{key}` must be a positive integer, not {short(value)}")
        return value

    def number(self, key: str) -> float:
        """A positive number that must be there."""
        value = self._needed(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise FloatlensError(f"{self.where}: `{key}` must be a positive number, not {short(value)}")
        return float(value)

    def switch(self, key: str) -> bool:
        """True or false; absent or null is off."""
        value = self.get(key)
        if value is not None and not isinstance(value, bool):
            raise FloatlensError(f"{self.where}: `{key}` must be true or false, not {short(value)}")
        return bool(value)

    def token(self, key: str) -> int | None:
        """A token id, or None when the file has none."""
        value = self.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _LARGEST:
            raise FloatlensError(f"{self.where}: `{key}` must be a token id, not {short(value)}")
        return value

    def tokens(self, key: str) -> list[int] | int | None:
        """One token id, several, or None."""
        value = self.get(key)
        if isinstance(value, list) and all(type(item) is int and 0 <= item < _LARGEST for item in value):
            return value
        return self.token(key)

    def only(self, family: str, key: str, *covered: Any, needed: bool = False) -> None:
        """Refuse `key` by name unless its value is covered; absent or null passes unless `needed`."""
        value = self._needed(key) if needed else self.get(key)
        if value is None and not needed:
            return
        if not any(value == fine and isinstance(value, bool) == isinstance(fine, bool) for fine in covered):
            fine = " or ".join(json.dumps(item) for item in covered)
            raise FloatlensError(
                f"{self.where}: `{key}` is {short(value)}, which the {family} family does not cover (only {fine})"
            )

    def nothing_else(self, family: str, idle: Iterable[str]) -> None:
        """Refuse by name a key nobody has asked for, unless it is `idle`, bookkeeping or switched off."""
        for key in sorted(set(self) - self._asked - set(idle) - BOOKKEEPING):
            value = self._values[key]
            if value:
                raise FloatlensError(
                    f"{self.where}: the {family} family does not know `{key}` (here {short(value, 80)}), "
                    "which may change what the model computes; remove it if it does not"
                )

    def rope_theta(self, family: str) -> float:
        """The base of plain rotary embedding, in the old spelling or the new; any scaling of it is refused."""
        scaling = self.get("rope_scaling")
        if scaling and _rope_type(scaling) != "default":
            raise FloatlensError(
                f"{self.where}: `rope_scaling` is {short(scaling)}, which the {family} family does not cover"
            )
        parameters = self.get("rope_parameters")
        if not isinstance(parameters, dict):
            return self.number("rope_theta")
        if _rope_type(parameters) != "default":
            raise FloatlensError(
                f"{self.where}: `rope_parameters` is {short(parameters)}, which the {family} family does not cover"
            )
        return Settings(parameters, f"{self.where} (rope_parameters)").number("rope_theta")

    def block_size(self, key: str) -> int:
        """Positions per block of block-causal attention: the file's, else what the user says."""
        if self.get(key) is None:
            if self.told.block_size is None:
                raise FloatlensError(f"{self.where}: `{key}` is missing, and nothing else says it; give block_size=")
            return self.told.block_size
        return self.integer(key)

    def special_tokens(self) -> dict[str, Any]:
        """The token ids that transformers' configuration classes take."""
        ids = {key: self.token(key) for key in ("bos_token_id", "pad_token_id")}
        return ids | {"eos_token_id": self.tokens("eos_token_id")}

    def qwen(self, family: str) -> dict[str, Any]:
        """What a bidirectional Qwen needs and config.json has under transformers' own names."""
        sizes = """vocab_size hidden_size num_hidden_layers num_attention_heads num_key_value_heads
            max_position_embeddings"""
        self.only(family, "head_dim", self.integer("hidden_size") // self.integer("num_attention_heads"))
        return self.special_tokens() | {
            **{key: self.integer(key) for key in sizes.split()},
            "hidden_act": "silu",
            "rms_norm_eps": self.number("rms_norm_eps"),
            "rope_parameters": {"rope_type": "default", "rope_theta": self.rope_theta(family)},
            "tie_word_embeddings": self.switch("tie_word_embeddings"),
            "use_sliding_window": False,
            "is_causal": False,
        }

    def _needed(self, key: str) -> Any:
        if self.get(key) is None:
            raise FloatlensError(f"{self.where}: `{key}` is missing, and floatlens guesses no value for it")
        return self[key]


def _rope_type(given: Any) -> Any:
    return given.get("rope_type", given.get("type", "default")) if isinstance(given, dict) else given
