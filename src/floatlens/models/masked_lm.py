"""Masked language models (BERT and relatives) used as unshifted diffusion models, through AutoModelForMaskedLM.

The table says where each prediction head begins and whether positions start past the padding index. A type that is not
in it is refused: where its head begins and how it counts positions would be a guess.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from floatlens.core.errors import FloatlensError, did_you_mean

from .plan import Family, Plan, Published
from .settings import Settings

__all__ = ["ENCODERS", "FAMILY"]

_NAME = "masked-lm"


@dataclass(frozen=True)
class _Encoder:
    """`head`: the first module of the prediction head. `padded`: positions count from padding_idx + 1."""

    head: str
    padded: bool = False


ENCODERS = {
    "albert": _Encoder("predictions"),
    "bert": _Encoder("cls"),
    "camembert": _Encoder("lm_head", padded=True),
    "distilbert": _Encoder("vocab_transform"),
    "electra": _Encoder("generator_predictions"),
    "eurobert": _Encoder("lm_head"),
    "modernbert": _Encoder("head"),
    "roberta": _Encoder("lm_head", padded=True),
    "xlm-roberta": _Encoder("lm_head", padded=True),
}

_SURPLUS = (
    r"(^|\.)pooler\.",
    r"^cls\.seq_relationship\.",
    r"^sop_classifier\.",
    r"^predictions\.sop_classifier\.",
    r"^discriminator_predictions\.",
    r"\.position_ids$",
)
"""What pretraining leaves in published checkpoints beside the masked-language head."""


def _claims(settings: Settings) -> bool:
    return settings.model_type in ENCODERS and not settings.get("is_decoder")


def _plan(settings: Settings) -> Plan:
    from transformers import AutoConfig, AutoModelForMaskedLM

    kind = settings.model_type
    if kind not in ENCODERS:
        raise FloatlensError(
            f"{settings.where}: the masked-lm family does not know model_type {kind!r}{did_you_mean(kind, ENCODERS)}"
        )
    settings.only(_NAME, "is_decoder", False)
    settings.only(_NAME, "position_embedding_type", "absolute")  # transformers 5 would ignore the others in silence
    encoder = ENCODERS[kind]
    config = AutoConfig.from_pretrained(Path(settings.where).parent, trust_remote_code=False, local_files_only=True)
    offset = 0
    if encoder.padded:
        if config.pad_token_id is None:
            raise FloatlensError(f"{settings.where}: `pad_token_id` is missing, and {kind} counts positions from it")
        offset = config.pad_token_id + 1
    return Plan(AutoModelForMaskedLM, config, surplus=_SURPLUS, head=encoder.head, position_offset=offset)


FAMILY = Family(
    name=_NAME,
    kind="mdm",
    shift=False,
    about=", ".join(sorted(ENCODERS)),
    claims=_claims,
    plan=_plan,
    published=(Published(f"AutoModelForMaskedLM: {', '.join(sorted(ENCODERS))}", verified="class"),),
)
