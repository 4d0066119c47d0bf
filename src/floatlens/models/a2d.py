"""Causal models adapted to diffusion (dllm's a2d): Llama, Qwen2 or Qwen3, made bidirectional; logits unshifted.

The checkpoint is the base model's own format under another model_type, so transformers' configuration class reads it.
A plain checkpoint of the base type is taken too, when asked for by `family=`. Sliding windows are refused by name.

Two kinds share the model_type and all fields of config.json: MDLM with full attention, and BD3LM, which is
block-causal. Which one it is must be said by the repository's name, the model card, or the user (`attention=`).
"""

from __future__ import annotations

from pathlib import Path

from floatlens.core.errors import FloatlensError

from .plan import Family, Plan, Published, Verified
from .settings import Settings

__all__ = ["LLAMA", "QWEN2", "QWEN3"]

_BLOCK_SIZE = 32  # of every published BD3LM; no file of theirs says it


def _make(base: str, stem: str) -> Family:
    name = f"a2d-{base}"

    def claims(settings: Settings) -> bool:
        return settings.model_type == name

    def plan(settings: Settings) -> Plan:
        import transformers

        if settings.model_type not in (name, base):
            raise FloatlensError(
                f"{settings.where}: model_type is {settings.model_type!r}; the {name} family reads {name!r} or {base!r}"
            )
        attention = _attention(settings, plain=settings.model_type == base)
        config_class = getattr(transformers, f"{stem}Config")
        settings.only(name, "use_sliding_window", False)
        settings.nothing_else(name, [*config_class().to_dict(), "rope_theta", "rope_scaling", "is_causal"])
        config = config_class.from_dict({**settings, "model_type": base, "is_causal": False})
        odd = sorted(set(getattr(config, "layer_types", None) or ()) - {"full_attention"})
        if odd:
            raise FloatlensError(
                f"{settings.where}: `layer_types` has {odd[0]!r}, which the {name} family does not cover"
            )
        architecture = getattr(transformers, f"{stem}ForCausalLM")
        if attention == "full":
            return Plan(architecture, config)
        blocks = settings.told.block_size or _BLOCK_SIZE
        return Plan(architecture, config, attention="block_causal", block_size=blocks, sampler="bd3lm")

    about = f"{stem} adapted to diffusion (dllm): MDLM, and BD3LM with block-causal attention"
    mdlm = Published(f"dllm's MDLM adaptations of {stem} (dllm-hub/{stem}*-mdlm-*)", verified="class")
    verified: Verified = "class" if base == "qwen2" else "golden"
    bd3lm = Published(
        f"dllm's BD3LM adaptations of {stem} (dllm-hub/{stem}*-bd3lm-*)", verified, "block-causal", "bd3lm"
    )
    return Family(name, kind="mdm", shift=False, about=about, claims=claims, plan=plan, published=(mdlm, bd3lm))


def _attention(settings: Settings, *, plain: bool) -> str:
    """What the user says, else what the checkpoint says; a plain checkpoint of the base is read with full attention."""
    told, named = settings.told, _named_kind(settings)
    if told.attention is not None:
        return told.attention
    if named is None and told.block_size is None and not plain:
        raise FloatlensError(
            f"{settings.where}: it does not say whether its attention is full (MDLM) or block-causal (BD3LM); "
            f'give attention="full", or attention="block_causal" with its block_size= (published: {_BLOCK_SIZE})'
        )
    return "block_causal" if named == "bd3lm" or (named is None and told.block_size is not None) else "full"


def _named_kind(settings: Settings) -> str | None:
    """ "mdlm" or "bd3lm" where the repository's name or the model card says which; None where neither does.

    The name is the folder's, or for a hub cache (models--NAME/snapshots/REVISION) the one two levels up.
    """
    folder = Path(settings.where).parent
    names = [str(settings.get("_name_or_path") or ""), folder.name, folder.parent.parent.name]
    card = folder / "README.md"
    texts = [" ".join(names), card.read_text(encoding="utf-8", errors="replace") if card.is_file() else ""]
    for text in texts:
        kinds = {kind for kind in ("mdlm", "bd3lm") if kind in text.lower()}
        if len(kinds) == 1:
            return kinds.pop()
    return None


LLAMA = _make("llama", "Llama")
QWEN2 = _make("qwen2", "Qwen2")
QWEN3 = _make("qwen3", "Qwen3")
