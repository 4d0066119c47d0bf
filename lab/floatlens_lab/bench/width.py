"""Capture at the real width: layers of published sizes with random weights, without and with capture, side by side.

A model of 7–8B does not fit here, and its layers are all alike: a few are timed, and the whole is those times its
number of layers, plus the head. Timing is reported, never asserted.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from floatlens.attention.backend import Backend
from floatlens.attention.kernel_choice import find_kernel
from floatlens.attention.probe import Layout
from floatlens.attention.session import capture
from floatlens.core.errors import FloatlensError
from floatlens.models.base import Kind, LanguageModel
from floatlens.probes import make_probes
from floatlens_lab.bench.report import save_as
from floatlens_lab.bench.subject import PROBES

__all__ = ["SUBJECTS", "Rehearsed", "Width", "as_markdown", "make_wide", "rehearse", "save"]

VARIANTS = ("plain", "eager", "rows", "fused")
_ROWS = 32
"""Positions whose logits a step needs."""


@dataclass(frozen=True)
class Width:
    """The published size of a model."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    head: int
    mlp: int
    vocabulary: int
    kind: Kind = "mdm"
    family: str = "llada"
    """Whose format its checkpoints have."""


SUBJECTS = {
    "llada-8b": Width(32, 4096, 32, 32, 128, 12288, 126464),
    "dream-7b": Width(28, 3584, 28, 4, 128, 18944, 152064, family="dream"),
    "llama-8b": Width(32, 4096, 32, 8, 128, 14336, 128256, "arm", "causal"),
    "nemotron-3b": Width(26, 3072, 32, 8, 128, 9216, 131072, family="nemotron-diffusion"),
}


@dataclass
class Rehearsed:
    """One length: seconds of a pass over the layers that were built, by variant and round, and of the head."""

    length: int
    built: int
    seconds: dict[str, list[float]] = field(default_factory=dict)
    head: float = 0.0

    def layer(self, variant: str) -> float:
        """Seconds of one layer, median over rounds."""
        return statistics.median(self.seconds[variant]) / self.built

    def whole(self, variant: str, layers: int) -> float:
        """Seconds of a pass of the whole model."""
        return layers * self.layer(variant) + self.head


def rehearse(
    subject: str,
    lengths: Sequence[int] = (256, 1024),
    rounds: int = 3,
    layers: int = 2,
    device: str = "cpu",
    kernels: Sequence[str] = (),
    say: Callable[[str], None] = lambda _: None,
) -> list[Rehearsed]:
    """Time every length. In float32 on a CPU and in bfloat16 elsewhere; variants take turns. `kernels` ("triton",
    "flex", "flash") are timed each by its name; without any, the one that a trace would use is, as "fused"."""
    if subject not in SUBJECTS:
        raise FloatlensError(f'bench: subject "{subject}"; give one of {", ".join(SUBJECTS)}')
    size, place = SUBJECTS[subject], torch.device(device)
    ways = _ways(place, kernels)
    results, head = [], _head_seconds(size, place)
    model = make_wide(size, layers, max(lengths), place)
    for length in lengths:
        found = Rehearsed(length, layers, {name: [] for name in ways}, head)
        make = torch.Generator().manual_seed(length)
        ids = torch.randint(0, 1000, (1, length), generator=make).to(place)
        for number in range(-1, rounds):  # the first is not counted: pools and compilers start in it
            for name, how in ways.items():
                took = _timed(partial(_pass, model, ids, how), place)
                if number >= 0:
                    found.seconds[name].append(took)
        say(f"T = {length}: a layer takes " + ", ".join(f"{n} {found.layer(n) * 1e3:.0f} ms" for n in ways))
        results.append(found)
    return results


def _ways(device: torch.device, kernels: Sequence[str]) -> dict[str, str | Backend]:
    """The variants by name; a kernel that cannot be used is refused here, before anything is built."""
    found: dict[str, str | Backend] = {name: name for name in VARIANTS if name != "fused"}
    if not kernels:
        return {**found, "fused": Backend("fused", device)}
    for name in kernels:
        kernel, why = find_kernel(device.type, name)
        if kernel is None:
            raise FloatlensError(f"bench: --kernel {name}: {why}")
        found[name] = Backend("fused", device, kernel)
    return found


def make_wide(size: Width, layers: int, length: int, device: torch.device) -> LanguageModel:
    """A model of some layers at that width, with random weights and a vocabulary of 1024."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(  # type: ignore[call-arg]  # is_causal is read by transformers, and not declared
        hidden_size=size.width,
        intermediate_size=size.mlp,
        num_hidden_layers=layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.kv_heads,
        head_dim=size.head,
        vocab_size=1024,  # the head is timed by itself
        max_position_embeddings=length,
        is_causal=size.kind == "arm",
    )
    with torch.device(device):
        module = LlamaForCausalLM(config)  # type: ignore[no-untyped-call]
    if device.type != "cpu":
        module.bfloat16()
    if size.kind == "arm":
        return LanguageModel(module, "causal", "arm", "bench:width", shift=True, max_length=length)
    return LanguageModel(module, "llada", "mdm", "bench:width", shift=False, mask_id=1023, max_length=length)


@torch.inference_mode()
def _pass(model: LanguageModel, ids: Tensor, how: str | Backend) -> None:
    rows = torch.arange(1)
    if how == "rows" or isinstance(how, Backend):
        layout = _layout(ids.shape[1])
        with capture(model, make_probes(PROBES), layout=layout, steps=1, length=ids.shape[1], backend=how):
            model.forward(ids, logits_at=rows)
        return
    model.module.set_attn_implementation("sdpa" if how == "plain" else "eager")
    try:
        out = model.module.model(ids, use_cache=False, output_attentions=how == "eager")
        if how == "eager":
            torch.stack([one.mean(2) for one in out.attentions]).cpu()
    finally:
        model.module.set_attn_implementation("sdpa")


def _layout(length: int) -> Layout:
    """A question and ten documents of the same length, and the answer."""
    regions = (*(f"doc{i}" for i in range(1, 11)), "question", "answer")
    return Layout(regions, (np.arange(length) * len(regions) // length)[None])


@torch.inference_mode()
def _head_seconds(size: Width, device: torch.device) -> float:
    """Of the logits of a step's rows: the published vocabulary."""
    dtype = torch.float32 if device.type == "cpu" else torch.bfloat16
    weight = torch.full((size.vocabulary, size.width), 0.01, dtype=dtype, device=device)
    states = torch.ones(_ROWS, size.width, dtype=dtype, device=device)
    return min(_timed(lambda: states @ weight.T, device) for _ in range(3))


def _timed(call: Callable[[], object], device: torch.device) -> float:
    begin = time.perf_counter()
    call()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - begin


def as_markdown(subject: str, results: Sequence[Rehearsed]) -> str:
    """Ratios to plain of a layer and of the whole, with the arithmetic."""
    size, last = SUBJECTS[subject], results[-1]
    captured = [name for name in last.seconds if name not in ("plain", "eager")]
    names = ["layer, plain", "eager", *captured, *(f"whole, {name}" for name in captured)]
    lines = [f"| {subject} | T | " + " | ".join(names) + " |", "|---|" + "---:|" * (len(names) + 1)]
    for one in results:
        base, whole = one.layer("plain"), one.whole("plain", size.layers)
        layer = (f"{one.layer(name) / base:.2f} ×" for name in ("eager", *captured))
        ratios = (f"{one.whole(name, size.layers) / whole:.2f} ×" for name in captured)
        lines.append(f"| | {one.length} | " + " | ".join((f"{base * 1e3:.0f} ms", *layer, *ratios)) + " |")
    lines += [
        "",
        f"Whole at T = {last.length}: {size.layers} layers × {last.layer('plain') * 1e3:.0f} ms + head "
        f"{last.head * 1e3:.0f} ms = {last.whole('plain', size.layers):.2f} s plain; with rows {size.layers} × "
        f"{last.layer('rows') * 1e3:.0f} ms + {last.head * 1e3:.0f} ms = {last.whole('rows', size.layers):.2f} s. "
        f"{last.built} layers were built; head: {_ROWS} rows × {size.vocabulary} words.",
    ]
    return "\n".join(lines) + "\n"


def save(subject: str, results: list[Rehearsed], folder: str | Path, command: str) -> tuple[Path, Path]:
    """Write `width-NAME.md` and `width-NAME.json` into a folder; returns both paths."""
    text = f"# Capture at the width of {subject}\n\n`{command}`\n\n{as_markdown(subject, results)}"
    return save_as(text, results, folder, f"width-{subject}")
