"""Causal models adapted to diffusion (dllm's a2d): Llama, Qwen2 or Qwen3, made bidirectional; logits unshifted.

The checkpoint is the base model's own format under another model_type, so transformers' configuration class reads it.
A plain checkpoint of the base type is taken too, when asked for by `family=`. Sliding windows are refused by name.
"""

from __future__ import annotations

from floatlens.core.errors import FloatlensError

from .plan import Family, Plan
from .settings import Settings

__all__ = ["LLAMA", "QWEN2", "QWEN3"]


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
        config_class = getattr(transformers, f"{stem}Config")
        settings.only(name, "use_sliding_window", False)
        settings.nothing_else(name, [*config_class().to_dict(), "rope_theta", "rope_scaling", "is_causal"])
        config = config_class.from_dict({**settings, "model_type": base, "is_causal": False})
        odd = sorted(set(getattr(config, "layer_types", None) or ()) - {"full_attention"})
        if odd:
            raise FloatlensError(
                f"{settings.where}: `layer_types` has {odd[0]!r}, which the {name} family does not cover"
            )
        return Plan(getattr(transformers, f"{stem}ForCausalLM"), config)

    about = f"{stem} adapted to diffusion (dllm)"
    return Family(name=name, kind="mdm", shift=False, about=about, claims=claims, plan=plan)


LLAMA = _make("llama", "Llama")
QWEN2 = _make("qwen2", "Qwen2")
QWEN3 = _make("qwen3", "Qwen3")
