"""The model that is timed, and the four ways of decoding it that are compared; all of them write the same tokens.

Weights are random: only shapes matter here. `plain` and `eager` are written the way the published samplers work (all
logits, a softmax over all of them, at every step), so the comparison is with what people run today.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from floatlens.attention.edit import Edit
from floatlens.attention.session import capture
from floatlens.decoding import decode, decode_steps, plan
from floatlens.models.base import Kind, LanguageModel
from floatlens.probes import DEFAULT_PROBES, make_probes
from floatlens.traces.tracing import layout_of

__all__ = ["LAYERS", "PROBES", "VARIANTS", "captured", "make_model", "make_prompt"]

GENERATED = 32
PROBES = DEFAULT_PROBES
"""What a trace records unless told otherwise."""
LAYERS = 8
_WIDTH, _HEADS, _VOCABULARY = 512, 8, 4096
_MASK = _VOCABULARY - 1


def make_model(length: int, kind: Kind = "mdm") -> LanguageModel:
    """8 layers, 8 heads, width 512, vocabulary 4096, an MLP of three times the width as in LLaDA-8B."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(  # type: ignore[call-arg]  # is_causal is read by transformers, and not declared
        hidden_size=_WIDTH,
        intermediate_size=3 * _WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=_HEADS,
        num_key_value_heads=_HEADS,
        vocab_size=_VOCABULARY,
        max_position_embeddings=length,
        tie_word_embeddings=False,
        is_causal=kind == "arm",
    )
    module = LlamaForCausalLM(config)  # type: ignore[no-untyped-call]
    if kind == "arm":
        return LanguageModel(module, "causal", "arm", "bench:llama", shift=True, max_length=length)
    return LanguageModel(module, "llada", "mdm", "bench:llama", shift=False, mask_id=_MASK, max_length=length)


def make_prompt(length: int) -> Tensor:
    """(prompt,) ids that leave room for what is generated."""
    generator = torch.Generator().manual_seed(length)
    return torch.randint(0, _MASK, (length - GENERATED,), generator=generator)


@torch.inference_mode()
def plain(model: LanguageModel, prompt: Tensor, steps: int) -> Tensor:
    """sdpa; every position's logits at every step."""
    return _published(model, prompt, steps, lambda ids: model.module(ids, use_cache=False).logits)


@torch.inference_mode()
def eager(model: LanguageModel, prompt: Tensor, steps: int) -> Tensor:
    """Attention matrices of all layers, reduced to received attention per head after each pass."""
    received = []

    def look(ids: Tensor) -> Tensor:
        out = model.module(ids, use_cache=False, output_attentions=True)
        received.append(torch.stack([a.mean(2) for a in out.attentions]))
        logits: Tensor = out.logits
        return logits

    model.module.set_attn_implementation("eager")
    try:
        return _published(model, prompt, steps, look)
    finally:
        model.module.set_attn_implementation("sdpa")


def lean(model: LanguageModel, prompt: Tensor, steps: int) -> Tensor:
    """floatlens's decoder without capture: what capture's memory is measured against."""
    return decode(model, prompt, sampler="llada", gen_length=GENERATED, steps=steps).sequence


def ours(model: LanguageModel, prompt: Tensor, steps: int) -> Tensor:
    """floatlens's decoder with all default probes, of every step, layer and head."""
    return captured(model, prompt, steps)[0]


def captured(
    model: LanguageModel,
    prompt: Tensor,
    steps: int,
    edits: Sequence[Edit] = (),
    probes: Sequence[str] = PROBES,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[Tensor, list[float]]:
    """Decode under capture, and under edits: all ids, and what each step took; the first with what precedes it.

    A masked-diffusion model fills its masks in that many steps, an autoregressive one writes that many tokens.
    """
    settings: dict[str, Any] = {"sampler": "ar", "gen_length": steps}
    if model.kind == "mdm":
        settings = {"sampler": "llada", "gen_length": GENERATED, "steps": steps}
    last, took = clock(), []
    canvas = plan(model, prompt, **settings)
    layout = layout_of(_regions(len(prompt)), canvas)
    with capture(model, make_probes(probes), edits=edits, layout=layout, steps=steps, length=canvas.length) as recorder:
        for step in decode_steps(model, prompt, **settings):
            recorder.commit(step)
            canvas.ids[step.sample, step.position] = step.token
            took.append(clock() - last)
            last = clock()
    return canvas.ids, took


VARIANTS: dict[str, Callable[[LanguageModel, Tensor, int], Tensor]] = {
    "plain": plain,
    "lean": lean,
    "ours": ours,
    "eager": eager,
}


def _published(model: LanguageModel, prompt: Tensor, steps: int, logits_of: Callable[[Tensor], Tensor]) -> Tensor:
    """Low-confidence remasking over one block, with logits and probabilities of the whole sequence."""
    ids = torch.cat([prompt, torch.full((GENERATED,), _MASK)])[None]
    for step in range(steps):
        logits = logits_of(ids)
        masked = ids == _MASK
        best = logits.argmax(-1)
        confidence = torch.softmax(logits, -1).gather(-1, best[..., None])[..., 0]
        confidence = torch.where(masked, confidence, -torch.inf)
        count = GENERATED // steps + (step < GENERATED % steps)
        chosen = confidence[0].topk(count).indices
        ids[0, chosen] = best[0, chosen]
    return ids


def _regions(prompt: int) -> list[tuple[str, int]]:
    """A RAG-like prompt: a question and ten documents, so region flow has several regions."""
    share = (prompt - 1) // 11
    documents = [(f"doc{i}", share) for i in range(1, 11)]
    return [("bos", 1), *documents, ("question", prompt - 1 - 10 * share)]
