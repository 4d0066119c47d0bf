"""Triton sweeps against float64 (`make test-triton`): on a GPU where there is one, else in Triton's interpreter."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from floatlens.attention.backend import Backend
from floatlens.attention.kernel_choice import LARGEST_ERROR
from floatlens.attention.lse_passes import Fused
from floatlens.attention.mask import BlockMask
from floatlens.attention.probe import Layer, Layout, PassState
from floatlens.attention.sweeps import attend_swept, sweeps_off_by
from floatlens.models.base import LanguageModel
from floatlens.models.visibility import Visibility
from floatlens.probes import make_probes
from shared.capture import capture

pytestmark = pytest.mark.triton
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
SMALL = (32, 32, 4)
"""Blocks that the layers here have more than one of, and no whole number of."""


@pytest.fixture(scope="module")
def kernels() -> Iterator[Callable[..., Any]]:
    """`kernels(blocks)`: our kernel."""
    if find_spec("triton") is None:
        pytest.skip("triton is not installed (make test-triton)")
    if DEVICE.type == "cpu" and not INTERPRETED:
        pytest.skip("there is no GPU, and TRITON_INTERPRET=1 was not set (make test-triton)")
    from floatlens.attention.triton_kernels import TritonSweeps
    from shared.triton_interpreter import gpu_numbers, one_preparation

    with pytest.MonkeyPatch.context() as patch:
        if INTERPRETED:
            gpu_numbers(patch)
            one_preparation(patch)
        yield TritonSweeps


# -- one layer, against float64 -----------------------------------------------------------------------------------

KEYS = 41
_REAL = torch.arange(KEYS) >= torch.tensor([0, 9])[:, None]
_NUMBERS = (torch.arange(KEYS) // 6).repeat(2, 1)
_TOGETHER = (torch.arange(KEYS) >= 10) & (torch.arange(KEYS) < torch.tensor([20, 35])[:, None])
_GIVEN = torch.rand(2, 4, KEYS, KEYS, generator=torch.Generator().manual_seed(5)) < 0.7
_I, _J = torch.arange(KEYS)[:, None], torch.arange(KEYS)
_ALL = torch.ones(2, 1, KEYS, KEYS, dtype=torch.bool)
_BLOCKS, _PAST = _J // 6 <= _I // 6, _J <= _I
_PAIRS = _TOGETHER[:, None, :, None] & _TOGETHER[:, None, None, :]
_SEEN = _REAL[:, None, None]
MASKS: dict[str, tuple[BlockMask, Tensor]] = {
    "full": (BlockMask(KEYS, KEYS), _ALL),
    "padded": (BlockMask(KEYS, KEYS, padding=_REAL), _ALL & _SEEN),
    "padded on the right": (BlockMask(KEYS, KEYS, padding=_REAL.flip(1)), _ALL & _SEEN.flip(3)),
    "causal": (BlockMask(KEYS, KEYS, causal=True), _ALL & _PAST),
    "causal padded": (BlockMask(KEYS, KEYS, causal=True, padding=_REAL), _ALL & _PAST & _SEEN),
    "causal after a cache": (BlockMask(13, KEYS, 28, causal=True), (_ALL & _PAST)[:, :, 28:]),
    "one row after a cache": (BlockMask(1, KEYS, 40, causal=True), (_ALL & _PAST)[:, :, 40:]),
    "full after a cache": (BlockMask(13, KEYS, 28), _ALL[:, :, 28:]),
    "block-causal": (BlockMask.of(Visibility(_NUMBERS)), _ALL & _BLOCKS),
    "block-causal padded": (BlockMask.of(Visibility(_NUMBERS, 0, _REAL)), _ALL & _BLOCKS & _SEEN),
    "block-causal after a cache": (BlockMask.of(Visibility(_NUMBERS, 18)), (_ALL & _BLOCKS)[:, :, 18:]),
    "together": (
        BlockMask.of(Visibility(_J.repeat(2, 1), 3, _REAL, _TOGETHER)),
        ((_PAST | _PAIRS) & _SEEN)[:, :, 3:],
    ),
    "window": (BlockMask(KEYS, KEYS, rule=lambda b, h, i, j: (i - j).abs() < 9), _ALL & ((_I - _J).abs() < 9)),
    "explicit": (BlockMask(KEYS, KEYS, explicit=_GIVEN), _GIVEN),
    "explicit for all heads": (BlockMask(KEYS, KEYS, explicit=_GIVEN[:1, :1]), _GIVEN[:1, :1]),
}


def one_layer(
    mask: BlockMask,
    dtype: torch.dtype = torch.float32,
    heads: tuple[int, int] = (4, 2),
    sizes: tuple[int, int] = (8, 8),
    softcap: float | None = None,
    seed: int = 1,
    spread: float = 1.0,
) -> Layer:
    """Heads of queries and of keys; sizes of keys and values. Regions are thirds; the last five queries are masked."""
    make, keys, queries = torch.Generator().manual_seed(seed), mask.kv_length, mask.q_length
    q = spread * torch.randn(2, queries, heads[0], sizes[0], generator=make).transpose(1, 2)  # as a model makes them
    k = torch.randn(2, keys, heads[1], sizes[0], generator=make).transpose(1, 2)
    v = torch.randn(2, keys, heads[1], sizes[1], generator=make).transpose(1, 2)
    region, span = (np.arange(keys) * 3 // keys)[None].repeat(2, 0), slice(keys - queries, keys)
    masked = np.arange(keys)[None, span].repeat(2, 0) >= keys - 5
    ids, layout = np.full((2, queries), 9), Layout(("a", "b", "c"), region)
    real = np.ones((2, keys), dtype=bool) if mask.padding is None else mask.padding.numpy()
    state = PassState(
        0, ids, span.start, masked, region[:, span], region, layout, False, real[:, span], None
    )  # fmt: skip
    return Layer(0, *(x.to(DEVICE, dtype) for x in (q, k, v)), mask, 0.35, state, softcap=softcap)


def asked_of(layer: Layer, values: int = 3) -> dict[str, Any]:
    make, keys = torch.Generator().manual_seed(2), layer.key.shape[2]
    sizes = torch.rand(2, layer.query.shape[1], keys, generator=make).to(DEVICE)
    averaged = torch.rand(2, values, keys, generator=make).to(DEVICE)
    return {"columns": True, "entropy": True, "weights": sizes, "averaged": [averaged[:, :1], averaged[:, 1:]]}


def check(found: Fused, layer: Layer, seen: Tensor, asked: dict[str, Any], allowed: float = 1e-5) -> None:
    """Everything that was found, against rows of weights in float64."""
    heads = layer.query.shape[1]
    q, k, v = (
        x.cpu().double().repeat_interleave(heads // x.shape[1], 1) for x in (layer.query, layer.key, layer.value)
    )
    logits = 0.35 * q @ k.transpose(2, 3)
    if layer.softcap is not None:
        logits = (logits / layer.softcap).tanh() * layer.softcap
    a = logits.masked_fill(~seen, -torch.inf).softmax(-1).nan_to_num(0.0)
    state, sizes = layer.state, asked["weights"].cpu().double()
    shares = a / (a @ sizes[..., None])
    of = [state.real & (state.region_of == n // 2) & (state.masked == bool(n % 2)) for n in state.classes.present]
    members = torch.from_numpy(np.stack(of, 1)).double()[:, None]
    rounding = {torch.float32: allowed, torch.float16: 2**-10, torch.bfloat16: 2**-7}[layer.query.dtype]
    close(found.out, (a @ v).transpose(1, 2), rounding * max(1.0, float(v.abs().max())))
    close(found.entropy, torch.special.entr(a).sum(-1), allowed)
    close(found.columns, members @ a, allowed)
    close(found.weighed, members @ shares.nan_to_num(0.0), allowed)
    for one, values in zip(found.averages or [], asked["averaged"], strict=True):
        close(one, (a @ values.cpu().double().transpose(1, 2)[:, None]).mean(1), allowed)


def close(got: Tensor | None, expected: Tensor, allowed: float) -> None:
    assert got is not None
    assert got.shape == expected.shape
    unit = max(1.0, float(expected.abs().max()))  # column sums exceed 1
    assert float((got.cpu().double() - expected).abs().max()) <= allowed * unit


@pytest.mark.parametrize("name", MASKS)
def test_every_mask(name: str, kernels: Callable[..., Any]) -> None:
    mask, seen = MASKS[name]
    layer = one_layer(mask)
    asked = asked_of(layer)
    check(attend_swept(kernels(SMALL), layer, **asked), layer, seen, asked)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["causal padded", "together"])
def test_half_precision(name: str, dtype: torch.dtype, kernels: Callable[..., Any]) -> None:
    """Products are exact and statistics nearly so, though neither queries nor keys are copied to float32."""
    mask, seen = MASKS[name]
    layer = one_layer(mask, dtype)
    asked = asked_of(layer)
    found = attend_swept(kernels(SMALL), layer, **asked)
    assert found.out.dtype == dtype
    check(found, layer, seen, asked)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_soft_cap_with_entropy(dtype: torch.dtype, kernels: Callable[..., Any]) -> None:
    mask, seen = MASKS["causal padded"]
    layer = one_layer(mask, dtype, softcap=1.7, spread=4.0)
    asked = asked_of(layer)
    check(attend_swept(kernels(SMALL), layer, **asked), layer, seen, asked)


def test_sharp_rows(kernels: Callable[..., Any]) -> None:
    """Logits of ±40: entropies are sums of p · (s − largest), so they lose nothing to the size of a log-sum-exp."""
    mask, seen = MASKS["full"]
    layer = one_layer(mask, torch.bfloat16, spread=14.0)
    asked = asked_of(layer)
    check(attend_swept(kernels(SMALL), layer, **asked), layer, seen, asked, 2e-5)


@pytest.mark.parametrize("seed", range(4))
def test_random_shapes(seed: int, kernels: Callable[..., Any]) -> None:
    """Sizes of heads that are no powers of 2, groups of queries, lengths and blocks drawn at random."""
    draw = np.random.default_rng(seed)
    keys, groups, kv = int(draw.integers(1, 80)), int(draw.integers(1, 4)), int(draw.integers(1, 3))
    queries = int(draw.integers(1, keys + 1))
    size, wide = int(draw.integers(1, 40)), int(draw.integers(1, 40))
    blocks = tuple(int(one) for one in draw.choice([16, 32, 64], 2))
    causal = bool(draw.integers(2))
    real = torch.arange(keys) >= torch.tensor([0, int(draw.integers(keys))])[:, None]
    mask = BlockMask(queries, keys, keys - queries, causal=causal, padding=real)
    seen = real[:, None, None].expand(-1, 1, queries, -1)
    seen = seen & (torch.arange(keys) <= torch.arange(keys - queries, keys)[:, None]) if causal else seen
    layer = one_layer(mask, heads=(groups * kv, kv), sizes=(size, wide), seed=seed)
    asked = asked_of(layer)
    check(attend_swept(kernels((*blocks, 4)), layer, **asked), layer, seen, asked)


@pytest.mark.parametrize("name", ["window", "explicit", "block-causal padded", "together"])
def test_rows_in_parts(name: str, kernels: Callable[..., Any]) -> None:
    """Written-out masks, and means of single heads, take no more memory than they may."""
    mask, seen = MASKS[name]
    layer = one_layer(mask)
    asked, kernel = asked_of(layer), kernels(SMALL)
    parts: list[int] = []
    plain = kernel.rows
    kernel.rows = lambda query, *given, **more: parts.append(query.shape[2]) or plain(query, *given, **more)
    check(attend_swept(kernel, layer, **asked, most_bytes=2400), layer, seen, asked)
    assert sum(parts) == layer.query.shape[2]
    assert len(parts) > 1


def test_more_classes_and_values_than_one_sweep_takes(kernels: Callable[..., Any]) -> None:
    mask, seen = MASKS["causal"]
    layer = one_layer(mask)
    kernel, asked = kernels(SMALL), asked_of(layer, values=5)
    kernel.widest = 2
    assert len(layer.state.classes.present) == 4
    check(attend_swept(kernel, layer, **asked), layer, seen, asked)


def test_a_layer_that_nobody_watches(kernels: Callable[..., Any]) -> None:
    """The output alone; and the same bits every time."""
    mask, _ = MASKS["causal"]
    layer = one_layer(mask, torch.bfloat16)
    asked, kernel = asked_of(layer), kernels()
    first, again = (attend_swept(kernel, layer, **asked) for _ in range(2))
    plain = attend_swept(kernel, layer)
    assert plain.columns is plain.entropy is plain.weighed is None
    assert torch.equal(plain.out, first.out)
    for name in ("out", "columns", "entropy", "weighed"):
        assert torch.equal(getattr(first, name), getattr(again, name)), name


# -- models, and the start-up check -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["llama", "mistral", "a2d-qwen3"])
@pytest.mark.skipif(DEVICE.type != "cpu", reason="the tiny models are on the CPU")
def test_models(
    name: str,
    kernels: Callable[..., Any],
    tiny_model: Callable[[str], LanguageModel],
    draw: Callable[..., Tensor],
    padded: Callable[..., Tensor],
) -> None:
    """Causal, sliding windows, full; all with shared keys, of which there are two heads, and padded on the left."""
    model = tiny_model(name)
    ids, mask = draw(2, 24, mask_id=model.mask_id, masked=6), padded(24, [0, 5], "left")
    found = []
    for how in ("rows", Backend("fused", model.device, kernels(SMALL))):
        probes = make_probes(["received", "entropy", "rollout", "contribution"])
        with capture(model, probes, steps=1, backend=how) as recorder:
            model.forward(ids, mask)
        found.append({one: store.stack() for one, store in recorder.variables.items()})
    assert recorder.backend is not None
    assert recorder.backend.to_dict() == {"asked": "fused", "used": "fused", "kernel": "Triton sweeps"}
    rows, ours = found
    assert rows.keys() == ours.keys()
    for one, expected in rows.items():
        assert np.nanmax(np.abs(ours[one] - expected), initial=0.0) <= 1e-5, one
        assert (np.isnan(ours[one]) == np.isnan(expected)).all(), one


def test_the_start_up_check(kernels: Callable[..., Any]) -> None:
    """What torch once did: log-sum-exps off by ln 2. The column sums are then off by half."""
    kernel = kernels((32, 64, 4))
    assert sweeps_off_by(kernel, DEVICE) <= LARGEST_ERROR / 4

    class Wrong(kernels):  # type: ignore[misc, valid-type]
        def rows(self, *given: Any, **more: Any) -> Any:
            found = super().rows(*given, **more)
            found.total.add_(1.0)
            return found

    assert sweeps_off_by(Wrong((32, 64, 4)), DEVICE) >= math.log(2) - 1e-3


# -- compilers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [128, 256])
@pytest.mark.parametrize("target", ["cuda:80", "cuda:90"])
def test_compiled_for_gpus(target: str, size: int, kernels: Callable[..., Any]) -> None:
    """The default blocks compile, without a GPU, into instructions of tensor cores; at the usual size of a head no
    register is spilled, and shared memory fits where there is little of it (99 KB: consumer GPUs)."""
    script = Path(__file__).parents[1] / "shared" / "triton_compile.py"
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    ran = subprocess.run(
        [sys.executable, str(script), target, str(size)], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    told = [line.split() for line in ran.stdout.splitlines()]
    assert [one[0] for one in told] == ["rows", "columns"]
    for name, shared, spilled, products in told:
        assert int(shared) <= 99 * 1024, name
        assert int(spilled) == 0 or size > 128, name
        assert int(products) > 0, name
