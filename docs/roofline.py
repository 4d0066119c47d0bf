"""Calculates what capture should cost on a GPU: operations and bytes of a pass, of rows, and of each fused kernel.

    .venv/bin/python docs/roofline.py            # prints the table of docs/cluster.md; a second
    .venv/bin/python docs/roofline.py cpu        # what it says of this CPU, beside what bench measured

Nothing is measured for GPUs. Each part takes the longer of its operations and its bytes, at the shares of the data
sheets below; Triton sweeps the sum of their products and of the instructions between them, as if nothing overlapped.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

__all__ = ["GPUS", "LLADA", "Gpu", "Model", "break_even", "cpu", "seconds", "table"]

MEASURED = Path(__file__).parents[1] / "benchmarks" / "width-llada-8b.json"
"""What `floatlens bench --subject llada-8b` has written."""
LENGTHS = (512, 1024, 2048, 4096, 8192)
EFFICIENCY, EFFICIENCY_FLEX = 0.4, 0.3
"""Shares of the data sheet that matrix products reach, and passes of FlexAttention and of our Triton kernels."""
_CLASSES = 16
"""Columns of a values matrix that holds the classes of queries, or the regions of keys; kernels want 16 at least."""
_TOUCHES = 13
"""How often rows read or write a logit: product, maximum, shift (2), exp2 (2), sum, entropy (4), columns, values."""
_STEPS = 15 + 12
"""Instructions outside of tensor cores for each weight in the two Triton sweeps, exp2 counted as 4. Rows: scale,
compare, select, maximum, subtract, exp2, two sums, split into two of bfloat16 (4). Columns: no maximum and no sums."""


@dataclass(frozen=True)
class Gpu:
    """Data sheet, dense: bfloat16, TF32 and float32 in operations per second, memory in bytes per second."""

    name: str
    half: float
    tf32: float
    single: float
    memory: float
    shares: tuple[float, float] = (EFFICIENCY, EFFICIENCY_FLEX)


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
    share, share_flex = gpu.shares
    plain = max(2 * model.body * length / (share * gpu.half), 2 * model.body / gpu.memory)
    attention = 4 * model.head * pairs / (share_flex * gpu.half)
    products = (4 * model.head + 2 * _CLASSES) * pairs / (share * gpu.single)
    rows = max(products, 4 * _TOUCHES * pairs / gpu.memory)
    # two sweeps that take the place of the model's own attention; regions and classes are summed in parts of bfloat16
    products, steps = (2 * model.head + (3 + 2) * 2 * _CLASSES) * pairs, 2 * _STEPS * pairs
    traffic = model.layers * model.heads * length * (12 * model.head + 12 + 8 * _CLASSES)
    swept = products / (share_flex * gpu.half) + steps / (share_flex * gpu.single)
    # a row pass with keys and regions as values in two parts, and a pass with the roles swapped
    fused = (3 * 2 * model.head + 2 * model.head + 4 * _CLASSES) * pairs
    return {
        "plain": plain + attention,
        "rows": rows - attention,  # they take the place of the model's own attention
        "fused": fused / (share_flex * gpu.single),
        "fused, TF32": fused / (share_flex * gpu.tf32),
        "Triton": max(swept, traffic / gpu.memory),
        "operations plain": 2 * model.body * length + 4 * model.head * pairs,
        "operations fused": fused,
        "operations Triton": products,
        "bytes Triton": float(traffic),
        "bytes rows": 4.0 * _TOUCHES * pairs,
    }


def break_even(gpu: Gpu, model: Model) -> float:
    """The share of the data sheet at which Triton sweeps take as long as FlexAttention in TF32 at its 30 %."""
    found = seconds(gpu, model, 4096)
    attention = 4 * model.head * model.layers * model.heads * 4096**2 / (EFFICIENCY_FLEX * gpu.half)
    return EFFICIENCY_FLEX * (found["Triton"] + attention) / (found["fused, TF32"] + attention)


def table() -> str:
    """The table, as Markdown."""
    counted = ("T", "pass, TFLOP", "Flex, TFLOP", "Triton, TFLOP", "rows, GB", "Triton, GB")
    timed = ("plain, ms", "rows, ×", "Flex float32, ×", "Flex TF32, ×", "Triton, ×")
    head = " | ".join((*counted, "", *timed)).replace("|  |", "| |")
    lines = [f"| {head} |", "|" + "---:|" * len(counted) + "---|" + "---:|" * len(timed)]
    for length in LENGTHS:
        for gpu in GPUS:
            found = seconds(gpu, LLADA, length)
            tera = (f"{found[f'operations {name}'] / 1e12:.1f}" for name in ("plain", "fused", "Triton"))
            giga = (f"{found[f'bytes {name}'] / 1e9:.0f}" for name in ("rows", "Triton"))
            ways = ("rows", "fused", "fused, TF32", "Triton")
            ratios = (f"{1 + found[name] / found['plain']:.2f}" for name in ways)
            cells = (f"{length}", *tera, *giga, gpu.name, f"{found['plain'] * 1e3:.0f}", *ratios)
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def cpu(measured: Path = MEASURED) -> str:
    """The same arithmetic for the CPU it runs on, beside what `floatlens bench --subject llada-8b` has measured there.

    In place of a data sheet: the rate of a large matrix product in float32 and that of copying memory, measured now.
    """
    from floatlens_lab.bench.width import Rehearsed

    here = Gpu("this CPU", *[_product_rate()] * 3, _copy_rate(), (1.0, 1.0))
    one = replace(LLADA, layers=1)
    lines = [
        f"Products {here.single / 1e9:.0f} GFLOP/s, copies {here.memory / 1e9:.0f} GB/s.",
        "",
        "| T | layer, ms | predicted, ms | rows, × | predicted, × | fused, × | predicted, × |",
        "|" + "---:|" * 7,
    ]
    for found in (Rehearsed(**one_length) for one_length in json.loads(measured.read_text(encoding="utf-8"))):
        said = seconds(here, one, found.length)
        took = {name: found.layer(name) for name in ("plain", "rows", "fused")}
        cells = [f"{found.length}", f"{took['plain'] * 1e3:.0f}", f"{said['plain'] * 1e3:.0f}"]
        for name in ("rows", "fused"):
            cells += [f"{took[name] / took['plain']:.2f}", f"{1 + said[name] / said['plain']:.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _product_rate(size: int = 4096) -> float:
    """Operations per second of a product of two matrices in float32, the best of five."""
    import torch

    a, b = torch.randn(2, size, size).unbind(0)
    return 2 * size**3 / min(_timed(lambda: a @ b) for _ in range(5))


def _copy_rate(size: int = 1 << 28) -> float:
    """Bytes per second that are read and written when a block of a GB is copied, the best of five."""
    import torch

    a = torch.ones(size)
    b = torch.empty_like(a)
    return 8 * size / min(_timed(lambda: b.copy_(a)) for _ in range(5))


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


if __name__ == "__main__":
    if sys.argv[1:] == ["cpu"]:
        sys.stdout.write(cpu() + "\n")
        sys.exit()
    shares = ", ".join(f"{gpu.name} {break_even(gpu, LLADA):.0%}" for gpu in GPUS)
    sys.stdout.write(f"{table()}\n\nTriton takes as long as Flex in TF32 at this share of the data sheet: {shares}\n")
