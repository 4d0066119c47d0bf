"""Compiles the sweeps for a GPU that need not be there: `python triton_compile.py cuda:80 128`, by the size of a head.

It prints a line for each kernel: its name, bytes of shared memory, bytes spilled by each thread, and how many tensor
core instructions it has. TRITON_INTERPRET must not be set.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from floatlens.attention import triton_kernels

CLASSES = 16
FLAGS = ("has_value", "has_entropy", "has_weights", "has_averages", "has_columns")


def compiled(kernel: Any, own: str, target: GPUTarget, size: int) -> Any:
    """Everything is asked of the kernel, in bfloat16, with pointers and strides as aligned as those of a model."""
    block, walked, warps = triton_kernels._blocks(size, torch.bfloat16)
    other = {"block_q": "block_k", "block_k": "block_q"}[own]
    constants: dict[str, Any] = {"size": size, "wide": size, "v_size": size, "v_wide": size}
    constants |= {"n_wide": CLASSES, "has_near": False, "has_given": False, "capped": False, "exact": False}
    constants |= dict.fromkeys(FLAGS, True) | {own: block, other: walked}
    names: list[str] = kernel.arg_names
    constants = {name: value for name, value in constants.items() if name in names}
    types = {name: "constexpr" if name in constants else _type(name) for name in names}
    aligned = [at for at, name in enumerate(names) if types[name][0] == "*" or _is_stride(name)]
    source = ASTSource(
        kernel,
        types,
        {(names.index(name),): value for name, value in constants.items()},
        {(at,): [["tt.divisibility", 16]] for at in aligned},
    )
    return triton.compile(source, target=target, options={"num_warps": warps, "num_stages": 2})


def _type(name: str) -> str:
    if name in ("q", "k", "v", "out"):
        return "*bf16"
    if name in ("number_q", "number_k", "stop", "first"):
        return "*i32"
    if name in ("near_q", "near_k", "given"):
        return "*u8"
    if name in ("slope", "ceiling"):
        return "fp32"
    return "i32" if name in ("queries", "keys", "n", "groups") or _is_stride(name) else "*fp32"


def _is_stride(name: str) -> bool:
    return name.endswith(("_batch", "_head", "_row"))


def spilled(cubin: bytes) -> int:
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        told = subprocess.run([tool, "--dump-resource-usage", file.name], capture_output=True, text=True, check=True)
    return sum(int(found) for found in re.findall(r"(?:STACK|LOCAL):(\d+)", told.stdout))


if __name__ == "__main__":
    system, _, number = sys.argv[1].partition(":")
    for kernel, own in ((triton_kernels._rows, "block_q"), (triton_kernels._columns, "block_k")):
        made = compiled(kernel, own, GPUTarget(system, int(number), 32), int(sys.argv[2]))
        products = len(re.findall(r"\bmma\.sync|\bwgmma\.mma", made.asm["ptx"]))
        name = kernel.__name__[1:]
        sys.stdout.write(f"{name} {made.metadata.shared} {spilled(made.asm['cubin'])} {products}\n")
