"""Traces to write and read: one of a diffusion model with everything on, one autoregressive, one with mean heads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from floatlens.traces import Trace


@pytest.fixture(autouse=True, scope="session")
def _one_thread_after_numba(_one_thread: None) -> None:
    """Loading numba's thread pool sets torch's number of threads anew (see tests/capture/test_session.py)."""
    import torch

    from floatlens.attention.softmax import Workspace

    Workspace()
    torch.set_num_threads(1)


KINDS = ("mdm", "arm", "mean", "few")


@pytest.fixture(scope="session")
def make_trace(tiny_model: Callable[[str], Any]) -> Callable[[str], Trace]:
    from floatlens import Select, trace
    from floatlens.probes import QK, Matrix

    made: dict[str, Trace] = {}
    cheap = ["received", "entropy", "flow", "answer_rows", "extremes"]

    def make(kind: str) -> Trace:
        everything = [*cheap, QK(heatmaps=Select(layers=[0, 2], steps=1)), Matrix(Select(heads=[1], steps=[0, 2]))]
        prompt = [5, 9, 12, 33, 21]
        if kind not in made:
            made[kind] = {
                "mdm": lambda: trace(tiny_model("dream"), prompt_ids=prompt, probes=everything, gen_length=4, steps=4),
                "arm": lambda: trace(tiny_model("qwen2"), prompt_ids=prompt, probes=everything, gen_length=4),
                "mean": lambda: trace(tiny_model("llada"), prompt_ids=prompt, gen_length=4, steps=4, heads="mean"),
                "few": lambda: trace(
                    tiny_model("llada"), prompt_ids=prompt, probes=["entropy"], select=Select(steps=[1]), gen_length=4
                ),
            }[kind]()
        return Trace(made[kind].data.copy(deep=True))

    return make


@pytest.fixture(params=KINDS)
def some_trace(request: pytest.FixtureRequest, make_trace: Callable[[str], Trace]) -> Trace:
    return make_trace(request.param)


@pytest.fixture(scope="session")
def assert_same() -> Callable[[Any, Any], None]:
    """Equal in every variable, coordinate, type, dimension and attribute, NaN equal to NaN."""

    def check(a: Any, b: Any) -> None:
        assert set(a.variables) == set(b.variables)
        assert dict(a.sizes) == dict(b.sizes)
        assert a.attrs == b.attrs
        for name in a.variables:
            one, two = a[name], b[name]
            assert one.dims == two.dims, name
            assert one.dtype == two.dtype or {one.dtype.kind, two.dtype.kind} == {"U"}, name
            assert one.attrs == two.attrs, name
            assert np.array_equal(one.values, two.values, equal_nan=one.dtype.kind == "f"), name

    return check
