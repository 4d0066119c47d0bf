"""Where an adaptation starts: the base model, its mask token, and the parameters that will be trained.

Bases are causal Llama, Qwen2 and Qwen3 checkpoints, GGUF files among them. The mask token is one that the base has and
never uses, so the vocabulary keeps its size; its embedding row is trained.
"""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from floatlens.adaptation.recipe import Recipe
from floatlens.core.errors import FloatlensError
from floatlens.core.files import replaced

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedTokenizerBase

    from floatlens.models import LanguageModel

__all__ = ["BASES", "find_mask_token", "trainable", "wrap", "write_adapter"]

BASES = ("LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")
_NAME = "adapter_model.safetensors"
_LIKELY = re.compile(r"mask|unused|reserved|extra|repo_?name|fim|empty", re.IGNORECASE)


def check_base(model: LanguageModel) -> None:
    """Refuse a base that cannot be adapted."""
    kind = type(model.module).__name__
    if model.kind != "arm" or kind not in BASES:
        raise FloatlensError(
            f"{model.ref}: only causal Llama, Qwen2 and Qwen3 models can be adapted, and this is {kind} "
            f"({'autoregressive' if model.kind == 'arm' else 'masked diffusion'})"
        )
    if model.tokenizer is None or not model.eos_ids:
        missing = "tokenizer" if model.tokenizer is None else "end-of-text token"
        raise FloatlensError(f"{model.ref}: it has no {missing}, which adaptation needs")


def find_mask_token(model: LanguageModel, named: str | None = None) -> int:
    """Id of the mask token: the one `named`, the tokenizer's own, a special token that nothing uses, or a spare row.

    Special tokens whose names say that they are reserved come first.
    """
    tokenizer = model.tokenizer
    assert tokenizer is not None
    if named is not None:
        found = tokenizer.convert_tokens_to_ids(named)
        if not isinstance(found, int) or tokenizer.convert_ids_to_tokens(found) != named:
            raise FloatlensError(f"{model.ref}: its tokenizer has no token {named!r}; leave it out to have one chosen")
        return found
    if tokenizer.mask_token_id is not None:
        return int(tokenizer.mask_token_id)
    special = _unused_special(tokenizer)
    if special:
        return next((number for text, number in special if _LIKELY.search(text)), special[0][1])
    if len(tokenizer) < model.vocab_size:
        return len(tokenizer)
    raise FloatlensError(f"{model.ref}: no unused special token to serve as mask; name a token with mask_token=")


def _unused_special(tokenizer: PreTrainedTokenizerBase) -> list[tuple[str, int]]:
    """Special tokens that are neither named roles (BOS, EOS, …) nor part of the chat template."""
    roles = {tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token, tokenizer.unk_token}
    roles |= {"<|endoftext|>", "<s>", "</s>"}
    template = str(tokenizer.chat_template or "")
    added = sorted((number, str(token)) for number, token in tokenizer.added_tokens_decoder.items() if token.special)
    return [(text, number) for number, text in added if text not in roles and text not in template]


def wrap(model: LanguageModel, recipe: Recipe, mask_id: int | None) -> PeftModel:
    """The base with fresh adapters on the recipe's modules, and the mask token's embedding row to be trained."""
    from peft import LoraConfig, get_peft_model

    names = {name.rsplit(".", 1)[-1] for name, part in model.module.named_modules() if isinstance(part, nn.Linear)}
    for wanted in recipe.modules:
        if wanted not in names:
            raise FloatlensError(f"{model.ref}: it has no linear layer {wanted!r}; it has {', '.join(sorted(names))}")
    config = LoraConfig(
        r=recipe.rank,
        lora_alpha=2 * recipe.rank,
        target_modules=list(recipe.modules),
        trainable_token_indices=None if mask_id is None else {"embed_tokens": [mask_id]},
        task_type="CAUSAL_LM",
    )
    wrapped: PeftModel = get_peft_model(model.module, config)
    config.base_model_name_or_path = model.ref  # peft would name the folder that transformers happened to read
    return wrapped


def trainable(module: nn.Module) -> list[tuple[str, nn.Parameter]]:
    """Names and parameters that are trained, in a fixed order."""
    return [(name, parameter) for name, parameter in module.named_parameters() if parameter.requires_grad]


def write_adapter(wrapped: PeftModel, folder: Path, dtype: Any) -> None:
    """The adapter in peft's own format; tensors in `dtype`."""
    from peft import get_peft_model_state_dict
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peft warns about embeddings, which are saved as single rows
        state = get_peft_model_state_dict(wrapped, save_embedding_layers=False)
    with replaced(folder / _NAME) as temporary:
        save_file({name: tensor.detach().to(dtype).contiguous() for name, tensor in state.items()}, temporary)
    config = wrapped.peft_config["default"]
    config.inference_mode = True
    config.save_pretrained(str(folder))
    config.inference_mode = False
