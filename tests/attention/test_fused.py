"""Fused passes against explicit rows: every family, mask and probe; what they leave to rows; the start-up check."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import floatlens as fl
from floatlens.attention import kernel_choice
from floatlens.attention.backend import Backend
from floatlens.attention.kernel_choice import find_kernel
from floatlens.attention.lse_kernels import CpuFlash, Flex, LseKernel, Scores, off_by
from floatlens.attention.lse_passes import attend_fused
from floatlens.attention.mask import BlockMask
from floatlens.attention.probe import Layer, Layout, PassState
from floatlens.attention.select import Select
from floatlens.core.errors import FloatlensError
from floatlens.edits import AblateHeads
from floatlens.models.base import LanguageModel
from floatlens.models.visibility import Visibility
from floatlens.probes import PROBES as REGISTERED
from floatlens.probes import Entropy, Matrix
from shared.block_models import MORE, QUESTION, TOLD
from shared.capture import capture

LENGTH = 24
PROBES = [
    "received",
    "entropy",
    "flow",
    "answer_rows",
    "rollout",
    "qk",
    "extremes",
    "contribution",
    "contribution_rows",
]
READERS = ("contribution_rollout", "smoothing", "cacheability", "matrix")
"""Probes that are shown every row; their layers go by rows."""


def statistics(model: LanguageModel, ids: Tensor, mask: Tensor | None, backend: Any) -> tuple[dict[str, Any], Tensor]:
    """All step variables, and those of the candidate rows, of one pass."""
    with capture(model, PROBES, steps=1, backend=backend) as recorder:
        logits = model.forward(ids, mask)
    found: dict[str, Any] = {name: store.stack() for name, store in recorder.variables.items()}
    for probe in recorder.probes:
        for layer in range(model.num_layers):
            for name, values in getattr(probe, "_found", {}).get(layer, {}).items():
                found[f"{name} {layer}"] = values.numpy()
            if probe.name == "rollout":
                found[f"rollout {layer}"] = probe._known(layer).numpy()  # type: ignore[attr-defined]
    assert recorder.backend is not None
    assert recorder.backend.to_dict()["used"] == ("rows" if backend == "rows" else "fused")
    return found, logits


def agree(ours: dict[str, Any], rows: dict[str, Any], allowed: float) -> None:
    assert ours.keys() == rows.keys()
    for name, expected in rows.items():
        got = ours[name]
        if expected.dtype.kind != "f":
            assert (got == expected).all(), name
            continue
        assert (np.isnan(got) == np.isnan(expected)).all(), name
        unit = max(1.0, np.abs(np.nan_to_num(expected)).max(initial=0.0))  # norms and products exceed 1
        assert np.nan_to_num(np.abs(got - expected)).max(initial=0.0) <= allowed * unit, name


@pytest.fixture(params=["flash", "flex"])
def kernel(request: pytest.FixtureRequest) -> LseKernel:
    """torch's own kernel, and FlexAttention as it is without a compiler: the functions a GPU would compile."""
    return CpuFlash() if request.param == "flash" else Flex(compiled=False)


@pytest.mark.parametrize("side", [None, "left", "right"])
def test_every_family_and_padding(
    any_name: str,
    side: str | None,
    tiny_model: Callable[[str], LanguageModel],
    draw: Callable[..., Tensor],
    padded: Callable[..., Tensor],
) -> None:
    model = tiny_model(any_name)
    ids = draw(3, LENGTH, mask_id=model.mask_id, masked=6)
    mask = None if side is None else padded(LENGTH, [0, 5, 11], side)
    rows, plain = statistics(model, ids, mask, "rows")
    ours, logits = statistics(model, ids, mask, "fused")
    agree(ours, rows, 1e-5)
    real = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask
    assert (logits - plain)[real].abs().max() <= 1e-5 * max(1.0, float(plain[real].abs().max()))


@pytest.mark.parametrize("name", ["llada", "dream"])
def test_sharp_attention_is_as_near_to_float64_as_rows_are(
    name: str, tiny_model: Callable[[str], LanguageModel], draw: Callable[..., Tensor]
) -> None:
    """Logits of these two reach ±40: in float32 their entropies are 4e-5 off by rows, so by fused passes too."""
    model = tiny_model(name)
    ids = draw(3, LENGTH, mask_id=model.mask_id, masked=6)
    rows, fused = (statistics(model, ids, None, backend)[0] for backend in ("rows", "fused"))
    module = copy.deepcopy(model.module).double()
    module.set_attn_implementation("eager")
    with torch.no_grad():
        weights = torch.stack(module(ids, output_attentions=True, use_cache=False).attentions, 1)
    for found, true in (("received", weights.mean(3)), ("entropy", torch.special.entr(weights).sum(-1))):
        off = {what: np.abs(one[found][0] - true.numpy()).max() for what, one in (("rows", rows), ("fused", fused))}
        assert off["fused"] <= 2 * off["rows"] + 1e-6, found


@pytest.mark.parametrize("name", ["llama", "mistral", "bert", "modernbert", "a2d-qwen3"])
def test_both_kernels(
    name: str,
    kernel: LseKernel,
    tiny_model: Callable[[str], LanguageModel],
    draw: Callable[..., Tensor],
    padded: Callable[..., Tensor],
) -> None:
    model = tiny_model(name)
    ids, mask = draw(2, LENGTH, mask_id=model.mask_id, masked=6), padded(LENGTH, [0, 5], "left")
    rows, _ = statistics(model, ids, mask, "rows")
    ours, _ = statistics(model, ids, mask, Backend("fused", model.device, kernel))
    agree(ours, rows, 1e-5)


@pytest.mark.parametrize("name", [*TOLD, *MORE])
def test_goldens_of_later_families_decode_alike(name: str, block_model: Callable[[str], LanguageModel]) -> None:
    """Whole traces: block-causal and causal masks, with the caches of each sampler."""
    model = block_model(name)
    rows, ours = (fl.trace(model, **QUESTION, backend=how).data for how in ("rows", "fused"))
    assert ours.attrs["capture"] == {"asked": "fused", "used": "fused", "kernel": "torch flash (cpu)"}
    assert rows.attrs["capture"] == {"asked": "rows", "used": "rows"}
    agree({n: ours[n].values for n in ours.data_vars}, {n: rows[n].values for n in rows.data_vars}, 1e-5)


@pytest.mark.parametrize("use_cache", [True, False])
def test_autoregressive_traces(arm_name: str, use_cache: bool, tiny_model: Callable[[str], LanguageModel]) -> None:
    given: dict[str, Any] = {"prompt_ids": [5, 9, 12, 33, 21, 8, 30], "gen_length": 5, "use_cache": use_cache}
    rows, ours = (fl.trace(tiny_model(arm_name), backend=how, **given).data for how in ("rows", "fused"))
    agree({n: ours[n].values for n in ours.data_vars}, {n: rows[n].values for n in rows.data_vars}, 1e-5)


# -- one layer, against float64 -----------------------------------------------------------------------------------

_PADDED = torch.arange(40) >= torch.tensor([0, 7])[:, None]
_NUMBERS = torch.arange(40).expand(2, -1) // 6
_EXPLICIT = torch.rand(2, 4, 40, 40, generator=torch.Generator().manual_seed(5)) < 0.7
MASKS = {
    "full": BlockMask(40, 40),
    "padded": BlockMask(40, 40, padding=_PADDED),
    "causal": BlockMask(40, 40, causal=True),
    "causal padded": BlockMask(40, 40, causal=True, padding=_PADDED),
    "causal after a cache": BlockMask(13, 40, 27, causal=True),
    "one row after a cache": BlockMask(1, 40, 39, causal=True),
    "full after a cache": BlockMask(13, 40, 27),
    "block-causal": BlockMask.of(Visibility(_NUMBERS)),
    "block-causal padded": BlockMask.of(Visibility(_NUMBERS, 0, _PADDED)),
    "block-causal after a cache": BlockMask.of(Visibility(_NUMBERS, 18)),
    "window": BlockMask(40, 40, rule=lambda b, h, i, j: (i - j).abs() < 9),
    "explicit": BlockMask(40, 40, explicit=_EXPLICIT),
}


def seen_by(mask: BlockMask) -> Tensor:
    """(2, 1 or 4, query, key), worked out from the description itself."""
    i, j = torch.arange(mask.q_length)[:, None] + mask.q_offset, torch.arange(40)
    seen = torch.ones(2, 1, mask.q_length, 40, dtype=torch.bool)
    if mask.causal:
        seen = seen & (j <= i)
    if mask.blocks is not None:
        seen = seen & (j // 6 <= i // 6)
    if mask.rule is not None:
        seen = seen & ((i - j).abs() < 9)
    if mask.explicit is not None:
        seen = seen & _EXPLICIT
    return seen if mask.padding is None else seen & _PADDED[:, None, None]


def one_layer(mask: BlockMask, dtype: torch.dtype = torch.float32) -> Layer:
    """Two key/value heads for four query heads; the last five queries are masked, the first eight keys the question."""
    make = torch.Generator().manual_seed(1)
    q = torch.randn(2, 4, mask.q_length, 8, generator=make).to(dtype)
    k, v = (torch.randn(2, 2, 40, 8, generator=make).to(dtype) for _ in range(2))
    region = np.where(np.arange(40) < 8, 0, 1)[None].repeat(2, 0)
    span, ids = slice(40 - mask.q_length, 40), np.full((2, mask.q_length), 9)
    masked = np.arange(40)[None, span].repeat(2, 0) >= 35
    real = np.ones((2, 40), dtype=bool) if mask.padding is None else mask.padding.numpy()
    state = PassState(
        0, ids, span.start, masked, region[:, span], region, Layout(("question", "answer"), region), False,
        real[:, span], None,
    )  # fmt: skip
    return Layer(0, q, k, v, mask, 0.35, state)


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("most_bytes", [1, 64 << 20], ids=["one row and head at a time", "at once"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_every_mask(name: str, most_bytes: int, dtype: torch.dtype, kernel: LseKernel) -> None:
    mask = MASKS[name]
    layer = one_layer(mask, dtype)
    values = torch.rand(2, 3, 40, generator=torch.Generator().manual_seed(2))
    sizes = torch.rand(2, 4, 40, generator=torch.Generator().manual_seed(3))
    given: dict[str, Any] = {"columns": True, "entropy": True, "weights": sizes, "averaged": [values]}
    found = attend_fused(kernel, layer, **given, most_bytes=most_bytes)
    q, k, v = (x.double().repeat_interleave(4 // x.shape[1], 1) for x in (layer.query, layer.key, layer.value))
    logits = (0.35 * q @ k.transpose(2, 3)).masked_fill(~seen_by(mask), -torch.inf)
    weights = logits.softmax(-1).nan_to_num(0.0)
    assert found.columns is not None
    assert found.entropy is not None
    assert found.averages is not None
    assert found.weighed is not None
    rounding = 1e-5 if dtype == torch.float32 else 2**-8 * float(v.abs().max())  # of the output alone
    assert (found.out - (weights @ v).transpose(1, 2)).abs().max() <= rounding
    assert (found.entropy - torch.special.entr(weights).sum(-1)).abs().max() <= 1e-5
    assert (found.averages[0] - weights.mean(1) @ values.double().transpose(1, 2)).abs().max() <= 1e-5
    state, shares = layer.state, weights * sizes.double()[:, :, None]
    shares = (shares / shares.sum(-1, keepdim=True)).nan_to_num(0.0)
    for at, number in enumerate(state.classes.present.tolist()):
        of = state.real & (state.region_of == number // 2) & (state.masked == bool(number % 2))
        expected = (weights * torch.from_numpy(of)[:, None, :, None]).sum(2)
        assert (found.columns[:, :, at] - expected).abs().max() <= 1e-5
        shared = (shares * torch.from_numpy(of)[:, None, :, None]).sum(2)
        assert (found.weighed[:, :, at] * sizes - shared).abs().max() <= 1e-5


class _Halves(CpuFlash):
    """A kernel as on GPUs: takes bfloat16, computes in float32, rounds what it mixes; here by float32 copies."""

    half = True

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, scores: Scores) -> tuple[Tensor, Tensor]:
        self.given = [*getattr(self, "given", []), query.dtype]
        mixed, total = super().__call__(query.float(), key.float(), value.float(), scores)
        return mixed.to(query.dtype), total


def test_half_precision_kernels_give_statistics_in_float32() -> None:
    """The output is that of the model's precision; L and −L stay in float32, where bfloat16 would round 5 to 1/64."""
    kernel, layer = _Halves(), one_layer(MASKS["padded"], torch.bfloat16)
    sizes = torch.rand(2, 4, 40, generator=torch.Generator().manual_seed(3))
    found = attend_fused(kernel, layer, columns=True, entropy=True, weights=sizes)
    assert kernel.given == [torch.bfloat16, torch.float32, torch.float32]
    exact = attend_fused(CpuFlash(), layer, columns=True, entropy=True, weights=sizes)
    for name in ("columns", "entropy", "weighed"):
        assert (getattr(found, name) - getattr(exact, name)).abs().max() <= 1e-5, name
    assert found.out.dtype == exact.out.dtype == torch.bfloat16
    assert (found.out.float() - exact.out.float()).abs().max() <= 2**-7 * float(layer.value.abs().max())
    assert torch.equal(attend_fused(kernel, layer).out, found.out)  # a layer that no probe watches
    assert len(kernel.given) == 4


def test_wide_values_go_in_parts() -> None:
    layer, whole = one_layer(MASKS["causal"]), Flex(compiled=False)
    parts = Flex(compiled=False, widest=16)
    ours, theirs = (attend_fused(one, layer, columns=True, entropy=True) for one in (parts, whole))
    for name in ("out", "columns", "entropy"):
        assert (getattr(ours, name) - getattr(theirs, name)).abs().max() <= 1e-6


def test_soft_cap() -> None:
    layer = replace(one_layer(MASKS["causal padded"]), softcap=0.8)
    found = attend_fused(Flex(compiled=False), layer, columns=True)
    q, k = layer.query.double(), layer.key.double().repeat_interleave(2, 1)
    logits = (0.35 * q @ k.transpose(2, 3) / 0.8).tanh() * 0.8
    weights = logits.masked_fill(~seen_by(layer.mask), -torch.inf).softmax(-1).nan_to_num(0.0)
    assert found.columns is not None
    real = torch.from_numpy(layer.state.real)[:, None, :, None]
    assert (found.columns.sum(2) - (weights * real).sum(2)).abs().max() <= 1e-5


# -- what goes by rows --------------------------------------------------------------------------------------------


def test_what_cannot_be_fused_goes_by_rows_layer_by_layer(
    tiny_model: Callable[[str], LanguageModel], draw: Callable[..., Tensor]
) -> None:
    model = tiny_model("llada")
    probes: list[Any] = [*PROBES, Matrix(Select(layers=1, steps=0))]
    given: dict[str, Any] = {"prompt_ids": [5, 9, 12, 33], "gen_length": 4, "steps": 2, "probes": probes}
    ours = fl.trace(model, backend="fused", **given).data
    told = ours.attrs["capture"]
    assert told["used"] == "fused and rows"
    assert told["rows"] == {'probe "matrix" reads weights': [1]}
    rows = fl.trace(model, backend="rows", **given).data
    agree({n: ours[n].values for n in ours.data_vars}, {n: rows[n].values for n in rows.data_vars}, 1e-5)


@pytest.mark.parametrize("probe", list(REGISTERED))
@pytest.mark.parametrize("name", ["illada", "nemotron-ar", "lfm2-encoder"])
def test_every_probe(
    name: str, probe: str, block_model: Callable[[str], LanguageModel], tiny_model: Callable[[str], LanguageModel]
) -> None:
    """A diffusion model, an autoregressive one, and one where some layers have no attention."""
    hybrid = name == "lfm2-encoder"
    model = tiny_model(name) if hybrid else block_model(name)
    asked: dict[str, Any] = {"prompt_ids": [*range(20, 32)]} if hybrid else QUESTION
    given: dict[str, Any] = {**asked, "gen_length": 4, "probes": [probe]}
    ours, rows = (fl.trace(model, backend=how, **given).data for how in ("fused", "rows"))
    told = {"asked": "fused", "used": "fused", "kernel": "torch flash (cpu)"}
    if probe in READERS:
        why = {f'probe "{probe}" reads weights': list(model.attention_layers)}
        told |= {"used": "rows", "rows": why}  # type: ignore[dict-item]
    assert ours.attrs["capture"] == told
    assert set(ours.data_vars) & {one.name for one in REGISTERED[probe].variables}
    agree({n: ours[n].values for n in ours.data_vars}, {n: rows[n].values for n in rows.data_vars}, 1e-5)


@pytest.mark.parametrize("probe", READERS)
def test_layers_beside_those_that_are_read_are_fused(probe: str, block_model: Callable[[str], LanguageModel]) -> None:
    given: dict[str, Any] = {**QUESTION, "gen_length": 4, "probes": [probe], "select": Select(layers=[0])}
    ours, rows = (fl.trace(block_model("illada"), backend=how, **given).data for how in ("fused", "rows"))
    assert ours.attrs["capture"]["used"] == "fused and rows"
    assert ours.attrs["capture"]["rows"] == {f'probe "{probe}" reads weights': [0]}
    agree({n: ours[n].values for n in ours.data_vars}, {n: rows[n].values for n in rows.data_vars}, 1e-5)


def test_edited_layers_go_by_rows(tiny_model: Callable[[str], LanguageModel]) -> None:
    model = tiny_model("a2d-llama")
    given: dict[str, Any] = {
        "prompt_ids": [5, 9, 12, 33],
        "gen_length": 4,
        "steps": 2,
        "edits": [AblateHeads([(1, 0)])],
    }
    ours, rows = (fl.trace(model, backend=how, **given).data for how in ("fused", "rows"))
    assert ours.attrs["capture"]["rows"] == {"edits": [1]}
    agree({n: ours[n].values for n in ours.data_vars}, {n: rows[n].values for n in rows.data_vars}, 1e-5)


@pytest.mark.parametrize(
    ("change", "probes", "kernel_", "why"),
    [
        ({"softcap": 2.0}, [], CpuFlash(), "soft cap, which torch flash (cpu) does not have"),
        ({"softcap": 2.0}, [Entropy()], Flex(compiled=False), "entropy under a soft cap"),
        ({"mask": BlockMask(40, 40, explicit=torch.zeros(2, 1, 40, 40))}, [], CpuFlash(), "a mask of numbers"),
    ],
)
def test_reasons(change: dict[str, Any], probes: list[Any], kernel_: LseKernel, why: str) -> None:
    backend = Backend("fused", torch.device("cpu"), kernel_)
    assert not backend.takes(replace(one_layer(MASKS["full"]), **change), probes, False)
    assert backend.rows == {why: {0}}
    assert backend.to_dict()["used"] == "rows"
    assert backend.takes(one_layer(MASKS["full"]), probes, False)


# -- the choice ---------------------------------------------------------------------------------------------------


class _OffByLn2(CpuFlash):
    name = "a torch release"

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, scores: Scores) -> tuple[Tensor, Tensor]:
        mixed, total = super().__call__(query, key, value, scores)
        return mixed, total + math.log(2)


def test_a_kernel_off_by_ln_2_is_refused(
    monkeypatch: pytest.MonkeyPatch, tiny_model: Callable[[str], LanguageModel]
) -> None:
    assert off_by(CpuFlash(), torch.device("cpu")) < 1e-5
    assert off_by(_OffByLn2(), torch.device("cpu")) == pytest.approx(math.log(2), abs=1e-5)
    find_kernel.cache_clear()
    monkeypatch.setattr(kernel_choice, "_MAKERS", {"cpu": {"flash": _OffByLn2}})
    try:
        with pytest.raises(FloatlensError, match=r"a torch release returned statistics off by 0\.69"):
            fl.trace(tiny_model("llama"), prompt_ids=[5, 9], gen_length=1, backend="fused")
    finally:
        find_kernel.cache_clear()


def _missing() -> LseKernel:
    raise ModuleNotFoundError("triton is not installed")


@pytest.mark.parametrize("left", ["flex", None])
def test_a_refused_kernel_leaves_its_place_to_the_next(
    left: str | None, monkeypatch: pytest.MonkeyPatch, tiny_model: Callable[[str], LanguageModel]
) -> None:
    """As on a GPU: Triton, then FlexAttention, then rows; the trace says why."""
    second = CpuFlash if left == "flex" else _OffByLn2
    find_kernel.cache_clear()
    monkeypatch.setattr(kernel_choice, "_MAKERS", {"cpu": {"triton": _missing, "flex": second}})
    no_triton = "Triton sweeps failed its start-up check (triton is not installed)"
    try:
        kernel, why = find_kernel("cpu")
        if left is None:
            assert kernel is None
            assert why == f"{no_triton}; a torch release returned statistics off by 0.69; upgrade or downgrade torch"
            return
        told = fl.trace(tiny_model("llama"), prompt_ids=[5, 9], gen_length=1, backend="fused").data.attrs["capture"]
        assert told == {"asked": "fused", "used": "fused", "kernel": "torch flash (cpu)", "refused": no_triton}
        assert find_kernel("cpu", "triton") == (None, no_triton)
        with pytest.raises(FloatlensError, match='kernel "flash" is not one of cpu; give triton or flex'):
            find_kernel("cpu", "flash")
    finally:
        find_kernel.cache_clear()


def test_auto_is_rows_on_a_cpu(tiny_model: Callable[[str], LanguageModel]) -> None:
    data = fl.trace(tiny_model("llama"), prompt_ids=[5, 9], gen_length=1).data
    assert data.attrs["capture"] == {"asked": "auto", "used": "rows"}


def test_auto_is_fused_for_half_precision_where_there_is_a_kernel() -> None:
    backend = Backend("auto", torch.device("cpu"), CpuFlash())
    assert backend.takes(one_layer(MASKS["full"], torch.bfloat16), [], False)
    assert not backend.takes(one_layer(MASKS["full"]), [], False)
    assert backend.to_dict() == {
        "asked": "auto",
        "used": "fused and rows",
        "kernel": "torch flash (cpu)",
        "rows": {"rows are cheaper in float32": [0]},
    }


class _Options(Flex):
    """FlexAttention as if it were compiled, with the options it is given."""

    def __init__(self) -> None:
        super().__init__(compiled=False)
        self.half, self.seen, plain = True, [], self._run

        def run(*args: Any, **more: Any) -> Any:
            self.seen.append((args[0].dtype, more.pop("kernel_options", {}).get("FLOAT32_PRECISION")))
            mixed, aux = plain(*(one.float() for one in args), **more)
            return mixed.to(args[0].dtype), aux

        self._run = run


def test_statistics_of_half_precision_use_tf32_on_gpus() -> None:
    """Products of numbers with 8 or 11 bits fit; those of float32 models do not."""
    kernel = _Options()
    attend_fused(kernel, one_layer(MASKS["full"], torch.bfloat16), columns=True)
    assert kernel.seen == [(torch.bfloat16, None), (torch.float32, "'tf32'"), (torch.float32, "'tf32'")]
    kernel = _Options()
    attend_fused(kernel, one_layer(MASKS["full"]), columns=True)
    assert kernel.seen == [(torch.float32, None)] * 2


def test_unknown_backends_and_devices_are_refused() -> None:
    with pytest.raises(FloatlensError, match='backend="flash"; give "auto", "rows" or "fused"'):
        Backend("flash", torch.device("cpu"))
    with pytest.raises(FloatlensError, match="no fused kernel for meta"):
        Backend("fused", torch.device("meta"))
    left = Backend("auto", torch.device("meta"))
    assert left.to_dict() == {"asked": "auto", "used": "rows", "refused": "there is no fused kernel for meta"}
