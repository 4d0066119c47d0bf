"""Triton's CPU interpreter, with the bfloat16 of GPUs: it multiplies the bits of such numbers as if they were integers,
and cuts them off where GPUs round to the nearest. It also prepares the language anew for every call of a function
inside a kernel, which takes most of its time; here once per launch. Written for triton 3.9 (see the Makefile)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

__all__ = ["gpu_numbers", "one_preparation"]


def gpu_numbers(patch: pytest.MonkeyPatch) -> None:
    """Make the interpreter treat bfloat16 as tensor cores do: rounded to nearest even, and summed in float32."""
    import triton.language as tl
    from triton.runtime import interpreter

    handle: Any = interpreter.TensorHandle
    builder = interpreter.InterpreterBuilder
    product, plain = builder.create_dot, interpreter._convert_float

    def widened(one: Any) -> Any:
        if one.dtype.scalar != tl.bfloat16:
            return one
        return handle((one.data.astype(np.uint32) << 16).view(np.float32), tl.float32)

    def convert(data: Any, source: Any, target: Any, rounding: Any) -> Any:
        if source == tl.float32 and target == tl.bfloat16:
            numbers = torch.from_numpy(np.ascontiguousarray(data)).bfloat16()
            return numbers.view(torch.int16).numpy().view(np.uint16)
        return plain(data, source, target, rounding)

    def create_dot(self: Any, a: Any, b: Any, d: Any, precision: Any, imprecise: Any) -> Any:
        return product(self, widened(a), widened(b), d, precision, imprecise)

    patch.setattr(interpreter, "_convert_float", convert)
    patch.setattr(builder, "create_dot", create_dot)


def one_preparation(patch: pytest.MonkeyPatch) -> None:
    """Prepare the language once per launch and function."""
    from triton.runtime import interpreter

    prepare, launch, ready = interpreter._patch_lang, interpreter.GridExecutor.__call__, set[Any]()

    def once(function: Any) -> Any:
        if function not in ready:
            ready.add(function)
            return prepare(function)
        return None

    def launched(self: Any, *args: Any, **more: Any) -> Any:
        ready.clear()
        return launch(self, *args, **more)

    patch.setattr(interpreter, "_patch_lang", once)
    patch.setattr(interpreter.GridExecutor, "__call__", launched)
