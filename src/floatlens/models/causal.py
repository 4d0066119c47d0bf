"""Any autoregressive model of transformers, through AutoModelForCausalLM; also a GGUF file.

It takes what transformers itself knows to be a causal language model, and refuses what only looks like one: diffusion
models, encoders, encoder-decoders, and decoders whose configuration switches causality off.
"""

from __future__ import annotations

from pathlib import Path

from floatlens.core.errors import FloatlensError

from .masked_lm import ENCODERS
from .plan import Family, Plan, Published
from .settings import Settings

__all__ = ["FAMILY", "check_gguf", "refuse_encoder_decoder"]

_DIFFUSION = {
    "llada": "llada",
    "lladamoe": "llada",
    "Dream": "dream",
    "illada": "illada",
    "llada2_moe": "llada2",
    "nemotron_labs_diffusion": "nemotron-diffusion",
    "sdar": "sdar",
    "Fast_dLLM_Qwen": "fast-dllm-v2",
    "a2d-llama": "a2d-llama",
    "a2d-qwen2": "a2d-qwen2",
    "a2d-qwen3": "a2d-qwen3",
}


def _claims(settings: Settings) -> bool:
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return settings.model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES


def _plan(settings: Settings) -> Plan:
    from transformers import AutoConfig, AutoModelForCausalLM

    _refuse_lookalikes(settings)
    folder = Path(settings.where).parent
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    return Plan(AutoModelForCausalLM, config, surplus=(r"(^|\.)rotary_emb\.inv_freq$", r"\.attn\.(masked_)?bias$"))


def _refuse_lookalikes(settings: Settings) -> None:
    kind, where = settings.model_type, settings.where
    if kind in _DIFFUSION:
        raise FloatlensError(
            f"{where}: {kind!r} is a masked diffusion model; leave family= out or give {_DIFFUSION[kind]!r}"
        )
    if kind in ENCODERS and not settings.get("is_decoder"):
        raise FloatlensError(f"{where}: {kind!r} is a bidirectional encoder; leave family= out or give 'masked-lm'")
    refuse_encoder_decoder(settings)
    if not _claims(settings):
        raise FloatlensError(f"{where}: transformers has no causal language model for model_type {kind!r}")
    for flag, causal in (("is_causal", True), ("use_bidirectional_attention", False)):
        if settings.get(flag) not in (None, causal):
            raise FloatlensError(
                f"{where}: `{flag}` is {str(not causal).lower()}, so this is not a causal model; "
                "if it is a diffusion model of a known base, give its family=, such as 'a2d-llama'"
            )


def refuse_encoder_decoder(settings: Settings) -> None:
    """transformers would load the decoder of some of them alone, which is not the model."""
    if settings.get("is_encoder_decoder"):
        raise FloatlensError(
            f"{settings.where}: {settings.model_type!r} is an encoder-decoder; "
            "floatlens measures one stack of self-attention and takes none"
        )


def check_gguf(ref: str, path: Path, chosen: Family | None, revision: str | None) -> None:
    """Refuse what cannot be a GGUF file, or cannot be read here, before transformers spends seconds on it."""
    from transformers.utils.import_utils import is_accelerate_available, is_gguf_available

    if chosen is not None and chosen is not FAMILY:
        raise FloatlensError(f"{ref}: a GGUF file is loaded as family 'causal', not {chosen.name!r}")
    if revision is not None:
        raise FloatlensError(f"{ref}: revision= is for hub repositories, not for a file")
    if not path.is_file():
        raise FloatlensError(f"{path}: no such file")
    if not (is_gguf_available() and is_accelerate_available()):
        raise FloatlensError(f"{path}: reading GGUF needs gguf and accelerate; run: pip install 'floatlens[gguf]'")
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise FloatlensError(f"{path}: not a GGUF file (it does not begin with 'GGUF')")


FAMILY = Family(
    name="causal",
    kind="arm",
    shift=True,
    about="any AutoModelForCausalLM (Llama, Qwen, GPT-2, ...) and .gguf files",
    claims=_claims,
    plan=_plan,
    published=(Published("AutoModelForCausalLM (Llama, Qwen, GPT-2, …) and .gguf files", verified="class"),),
)
