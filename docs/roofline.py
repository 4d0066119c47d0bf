"""Calculates what capture should cost on a GPU: operations and bytes of a pass, of rows, and of fused passes.

    .venv/bin/python docs/roofline.py            # prints the table of docs/cluster.md; a second

Nothing is measured. Each part takes the longer of its operations and its bytes, at the shares of the data sheets below.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

__all__ = ["GPUS", "LLADA", "Gpu", "Model", "seconds", "table"]

LENGTHS = (512, 1024, 2048, 4096, 8192)
EFFICIENCY, EFFICIENCY_FLEX = 0.4, 0.3
"""Shares of the data sheet that matrix products, and passes of FlexAttention, reach."""
_CLASSES = 16
"""Columns of a values matrix that holds the classes of queries, or the regions of keys; kernels want 16 at least."""
_TOUCHES = 13
"""How often rows read or write a logit: product, maximum, shift (2), exp2 (2), sum, entropy (4), columns, values."""


@dataclass(frozen=True)
class Gpu:
    """Data sheet, dense: bfloat16, TF32 and float32 in operations per second, memory in bytes per second."""

    name: str
    half: float
    tf32: float
    single: float
    memory: float


GPUS = (Gpu("A100", 312e12, 156e12, 19.5e12, 2.0e12), Gpu("H100", 989e12, 495e12, 67e12, 3.35e12))


@dataclass(frozen=True)
class Model:
    """Width, heads (all with keys of their own), layers and MLP."""

    layers: int
    width: int
    heads: int
    mlp: int

    @property
    def head(self) -> int:
        return self.width // self.heads

    @property
    def body(self) -> int:
        """Parameters without embeddings."""
        return self.layers * (4 * self.width**2 + 3 * self.width * self.mlp)


LLADA = Model(32, 4096, 32, 12288)


def seconds(gpu: Gpu, model: Model, length: int) -> dict[str, float]:
    """Seconds of a pass in bfloat16 and, on top of it, of capture by each way."""
    pairs = model.layers * model.heads * length**2
    plain = max(2 * model.body * length / (EFFICIENCY * gpu.half), 2 * model.body / gpu.memory)
    attention = 4 * model.head * pairs / (EFFICIENCY_FLEX * gpu.half)
    products = (4 * model.head + 2 * _CLASSES) * pairs / (EFFICIENCY * gpu.single)
    rows = max(products, 4 * _TOUCHES * pairs / gpu.memory)
    # a row pass with keys and regions as values in two parts, and a pass with the roles swapped
    fused = (3 * 2 * model.head + 2 * model.head + 4 * _CLASSES) * pairs
    return {
        "plain": plain + attention,
        "rows": rows - attention,  # they take the place of the model's own attention
        "fused": fused / (EFFICIENCY_FLEX * gpu.single),
        "fused, TF32": fused / (EFFICIENCY_FLEX * gpu.tf32),
        "operations plain": 2 * model.body * length + 4 * model.head * pairs,
        "operations fused": fused,
        "bytes rows": 4.0 * _TOUCHES * pairs,
    }


def table() -> str:
    """The table, as Markdown."""
    lines = [
        "| T | pass, TFLOP | fused, TFLOP | rows, GB | | plain, ms | rows, × | fused float32, × | fused TF32, × |",
        "|---:|---:|---:|---:|---|---:|---:|---:|---:|",
    ]
    for length in LENGTHS:
        for gpu in GPUS:
            found = seconds(gpu, LLADA, length)
            tera, giga = (found[f"operations {name}"] / 1e12 for name in ("plain", "fused")), found["bytes rows"] / 1e9
            shown = (*(f"{one:.1f}" for one in tera), f"{giga:.0f}")
            ratios = (f"{1 + found[name] / found['plain']:.2f}" for name in ("rows", "fused", "fused, TF32"))
            cells = (f"{length}", *shown, gpu.name, f"{found['plain'] * 1e3:.0f}", *ratios)
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(table() + "\n")
