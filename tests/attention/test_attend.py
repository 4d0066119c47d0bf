"""The streamed attention function against torch's own, on masks that are written out here position by position."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.utils._python_dispatch import TorchDispatchMode
from transformers.masking_utils import (
    bidirectional_mask_function,
    causal_mask_function,
    sliding_window_bidirectional_mask_function,
    sliding_window_causal_mask_function,
)

from floatlens.attention.blocks import Block, EditHooks, attend
from floatlens.attention.mask import BlockMask, as_block_mask, describe_mask
from floatlens.attention.softmax import QueryClasses, Workspace, softmax_block
from floatlens.core.errors import FloatlensError

WINDOW = 3
PATTERNS: dict[str, tuple[Any, Callable[[int, int], bool]]] = {
    "full": (bidirectional_mask_function, lambda q, k: True),
    "causal": (causal_mask_function, lambda q, k: k <= q),
    "window": (sliding_window_causal_mask_function(WINDOW), lambda q, k: q - WINDOW < k <= q),
    "local": (sliding_window_bidirectional_mask_function(WINDOW), lambda q, k: abs(q - k) <= WINDOW),
}
SIZES = [(1, 1), (3, 2), (1000, 1000)]


def tensors(
    batch: int, heads: int, kv_heads: int, queries: int, keys: int, dim: int = 8, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """In the layout that models hand over: (batch, position, head, dim) transposed, so never contiguous."""
    random = torch.Generator().manual_seed(seed)
    shapes = ((queries, heads), (keys, kv_heads), (keys, kv_heads))
    q, k, v = (torch.randn(batch, n, h, dim, generator=random).transpose(1, 2) for n, h in shapes)
    return q * 2, k, v


def written_out(pattern: str, real: Tensor | None, batch: int, queries: int, keys: int, offset: int) -> Tensor:
    """(batch, 1, query, key), True where seen, one position at a time."""
    seen = torch.zeros(batch, 1, queries, keys, dtype=torch.bool)
    for b in range(batch):
        for q in range(queries):
            for k in range(keys):
                seen[b, 0, q, k] = PATTERNS[pattern][1](q + offset, k) and (real is None or bool(real[b, k]))
    return seen


def described(pattern: str, real: Tensor | None, batch: int, queries: int, keys: int, offset: int) -> BlockMask:
    """As transformers asks for it."""
    return describe_mask(
        batch_size=batch,
        q_length=queries,
        kv_length=keys,
        q_offset=offset,
        kv_offset=0,
        mask_function=PATTERNS[pattern][0],
        attention_mask=real,
        allow_is_causal_skip=True,
        dtype=torch.float32,
        device=torch.device("cpu"),
    )


class Collect:
    """Visits blocks and puts them together again; every (query, head) must come exactly once."""

    def __init__(self, q: Tensor, k: Tensor) -> None:
        self.weights = torch.zeros(*q.shape[:3], k.shape[2])
        self.entropy = torch.full(q.shape[:3], math.nan)
        self.visits = torch.zeros(q.shape[:3], dtype=torch.long)
        self.blocks = 0

    def __call__(self, block: Block) -> None:
        at = (block.batch, block.heads, block.queries)
        self.weights[(*at, slice(0, block.keys))] = block.weights()
        self.visits[at] += 1
        self.blocks += 1
        if block.entropy is not None:
            self.entropy[at] = block.entropy


def exact_weights(q: Tensor, k: Tensor, seen: Tensor, scaling: float) -> Tensor:
    """float64 softmax; rows that see nothing are 0."""
    groups = q.shape[1] // k.shape[1]
    logits = q.double() @ k.double().repeat_interleave(groups, 1).transpose(2, 3) * scaling
    return torch.softmax(logits.masked_fill(~seen, -math.inf), -1).nan_to_num(0.0)


def compare(q: Tensor, k: Tensor, v: Tensor, mask: BlockMask, seen: Tensor, workspace: Workspace) -> Collect:
    """Output against sdpa, weights and entropy against float64, rows that see nothing against 0."""
    scaling = q.shape[-1] ** -0.5
    got = Collect(q, k)
    out = attend(q, k, v, mask, scaling=scaling, workspace=workspace, visit=got, with_entropy=True)
    groups = q.shape[1] // k.shape[1]
    k_all, v_all = (x.repeat_interleave(groups, 1) for x in (k, v))
    expected = scaled_dot_product_attention(q, k_all, v_all, attn_mask=seen.expand(-1, q.shape[1], -1, -1))
    sees = seen.any(-1)[:, 0]
    assert out.shape == (q.shape[0], q.shape[2], q.shape[1], v.shape[-1])
    assert out.isfinite().all()
    assert (out - expected.transpose(1, 2))[sees].abs().max() <= 1e-5
    assert (out[~sees] == 0).all()

    weights = exact_weights(q, k, seen, scaling)
    assert (got.visits == 1).all()
    assert (got.weights - weights).abs().max() <= 1e-6
    assert (got.weights[~seen.expand_as(got.weights)] == 0).all()
    rows = got.weights.double().sum(-1)
    assert (rows - sees[:, None].double()).abs().max() <= 1e-6
    entropy = torch.tensor([-sum(p * math.log(p) for p in row if p > 0) for row in weights.flatten(0, 2).tolist()])
    assert (got.entropy.flatten() - entropy).abs().max() <= 1e-5
    return got


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("side", [None, "left", "right"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_pattern_padding_and_block_shape(
    pattern: str,
    side: str | None,
    size: tuple[int, int],
    kernel: str,
    blocks: Callable[..., Workspace],
    padded: Callable[..., Tensor],
) -> None:
    q, k, v = tensors(3, 4, 2, 11, 11)
    real = None if side is None else padded(11, [0, 4, 1], side)
    seen = written_out(pattern, real, 3, 11, 11, 0)
    compare(q, k, v, described(pattern, real, 3, 11, 11, 0), seen, blocks(*size, kernel))


@pytest.mark.parametrize(("heads", "kv_heads"), [(1, 1), (6, 6), (6, 3), (6, 2), (6, 1), (8, 2)])
@pytest.mark.parametrize("size", [(1, 1), (4, 2), (1000, 1000)], ids=str)
@pytest.mark.parametrize("pattern", ["full", "causal"])
def test_grouped_heads(
    pattern: str, heads: int, kv_heads: int, size: tuple[int, int], blocks: Callable[..., Workspace]
) -> None:
    q, k, v = tensors(2, heads, kv_heads, 9, 9, seed=heads * kv_heads)
    seen = written_out(pattern, None, 2, 9, 9, 0)
    compare(q, k, v, described(pattern, None, 2, 9, 9, 0), seen, blocks(*size))


@pytest.mark.parametrize("new", [1, 4])
@pytest.mark.parametrize("size", [(1, 1), (3, 2), (1000, 1000)], ids=str)
@pytest.mark.parametrize("side", [None, "left"])
@pytest.mark.parametrize("pattern", ["causal", "window"])
def test_queries_after_a_cache(
    pattern: str,
    side: str | None,
    size: tuple[int, int],
    new: int,
    blocks: Callable[..., Workspace],
    padded: Callable[..., Tensor],
) -> None:
    """The last `new` queries of a longer sequence: the same rows as in a pass over all of it."""
    q, k, v = tensors(2, 4, 2, 12, 12)
    real = None if side is None else padded(12, [0, 5], side)
    offset = 12 - new
    seen = written_out(pattern, real, 2, new, 12, offset)
    mask = described(pattern, real, 2, new, 12, offset)
    got = compare(q[:, :, offset:], k, v, mask, seen, blocks(*size))
    whole = Collect(q, k)
    everything = described(pattern, real, 2, 12, 12, 0)
    attend(q, k, v, everything, scaling=8**-0.5, workspace=blocks(*size), visit=whole)
    assert (got.weights - whole.weights[:, :, offset:]).abs().max() <= 1e-6


@pytest.mark.parametrize("shape", [(2, 1), (1, 1), (2, 4), (1, 4)])
@pytest.mark.parametrize("size", [(1, 1), (3, 1), (1000, 1000)], ids=str)
@pytest.mark.parametrize("hidden", ["bool", "-inf", "min"])
def test_a_callers_own_mask(
    shape: tuple[int, int], size: tuple[int, int], hidden: str, blocks: Callable[..., Workspace]
) -> None:
    random = torch.Generator().manual_seed(1)
    q, k, v = tensors(2, 4, 2, 7, 7)
    seen = torch.rand(*shape, 7, 7, generator=random) < 0.6
    seen[..., 0] = True
    bias = torch.zeros(seen.shape)
    if hidden != "bool":
        bias = torch.randn(seen.shape, generator=random)
    given = seen if hidden == "bool" else bias.masked_fill(~seen, float("-inf") if hidden == "-inf" else -3.4e38)
    got = Collect(q, k)
    mask = as_block_mask(given, 7, 7, is_causal=False)
    out = attend(q, k, v, mask, scaling=0.3, workspace=blocks(*size), visit=got)
    k_all, v_all = (x.repeat_interleave(2, 1) for x in (k, v))
    expected_mask = bias.masked_fill(~seen, float("-inf")).expand(2, 4, 7, 7)
    expected = scaled_dot_product_attention(q, k_all, v_all, attn_mask=expected_mask, scale=0.3)
    assert (out - expected.transpose(1, 2)).abs().max() <= 1e-5
    assert (got.weights[~seen.expand_as(got.weights)] == 0).all()


def test_no_mask_at_all_follows_the_module() -> None:
    """What a module that builds no mask relies on: sdpa's is_causal, and nothing hidden from a single new query."""
    q, k, v = tensors(1, 2, 2, 6, 6)
    for causal, pattern in ((True, "causal"), (False, "full")):
        compare(q, k, v, as_block_mask(None, 6, 6, causal), written_out(pattern, None, 1, 6, 6, 0), Workspace())
    seen = written_out("causal", None, 1, 1, 6, 5)
    compare(q[:, :, -1:], k, v, as_block_mask(None, 1, 6, True), seen, Workspace())


@pytest.mark.parametrize("cap", [0.5, 2.0, 30.0])
def test_softcap(cap: float, kernel: str, blocks: Callable[..., Workspace]) -> None:
    q, k, v = tensors(2, 4, 2, 9, 9)
    got = Collect(q, k)
    mask = described("causal", None, 2, 9, 9, 0)
    out = attend(q, k, v, mask, scaling=0.7, softcap=cap, workspace=blocks(4, 1, kernel), visit=got)
    k_all, v_all = (x.double().repeat_interleave(2, 1) for x in (k, v))
    logits = cap * torch.tanh(q.double() @ k_all.transpose(2, 3) * 0.7 / cap)
    weights = torch.softmax(logits.masked_fill(~written_out("causal", None, 2, 9, 9, 0), -math.inf), -1)
    assert (got.weights - weights).abs().max() <= 1e-6
    assert (out - (weights @ v_all).transpose(1, 2)).abs().max() <= 1e-5


@pytest.mark.parametrize("size", [200.0, 5000.0])
@pytest.mark.parametrize("with_entropy", [True, False])
def test_large_logits_neither_overflow_nor_lose_rows(size: float, with_entropy: bool, kernel: str) -> None:
    """Products are sums of powers of two, so float32 holds the logits exactly and only the softmax is on lookahead."""
    steps = torch.tensor([-1.0, -0.5, 0.0, 0.5, 1.0]) * size
    k = torch.zeros(1, 1, 5, 2)
    k[0, 0, :, 0] = steps
    q = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [2**-10, 0.0]])[None, None]
    v = torch.eye(5)[None, None]
    got = Collect(q, k)
    mask = BlockMask(4, 5)
    attend(q, k, v, mask, scaling=1.0, workspace=Workspace(kernel=kernel), visit=got, with_entropy=with_entropy)
    seen = torch.ones(1, 1, 4, 5, dtype=torch.bool)
    assert (got.weights - exact_weights(q, k, seen, 1.0)).abs().max() <= 1e-6
    assert got.weights[0, 0, 0, 4] == 1
    assert got.weights[0, 0, 1, 0] == 1


@pytest.mark.parametrize("level", [-9000.0, -200.0, 200.0, 9000.0])
def test_a_shared_offset_of_all_logits_changes_nothing(level: float, kernel: str) -> None:
    q, k = torch.ones(1, 1, 1, 1), torch.tensor([0.0, 0.5, 1.0, 2.0]).view(1, 1, 4, 1) + level
    got = Collect(q, k)
    workspace = Workspace(kernel=kernel)
    attend(q, k, torch.ones(1, 1, 4, 1), BlockMask(1, 4), scaling=1.0, workspace=workspace, visit=got)
    expected = torch.softmax(torch.tensor([0.0, 0.5, 1.0, 2.0]), 0)
    assert (got.weights[0, 0, 0] - expected).abs().max() <= 1e-6


def test_entropy_of_rows_known_by_heart(kernel: str) -> None:
    """Uniform over n keys is ln n, one key is 0, two equal ones ln 2."""
    workspace = Workspace(kernel=kernel)
    k = torch.zeros(1, 1, 8, 1)
    k[0, 0, :2] = 100.0
    q = torch.tensor([0.0, 1.0]).view(1, 1, 2, 1)
    got = Collect(q, k)
    attend(q, k, k, BlockMask(2, 8), scaling=1.0, workspace=workspace, visit=got, with_entropy=True)
    assert got.entropy[0, 0].tolist() == pytest.approx([math.log(8), math.log(2)], abs=1e-6)
    causal = Collect(torch.zeros(1, 1, 8, 1), k)
    mask = BlockMask(8, 8, causal=True)
    attend(torch.zeros(1, 1, 8, 1), k, k, mask, scaling=1.0, workspace=workspace, visit=causal, with_entropy=True)
    assert causal.entropy[0, 0].tolist() == pytest.approx([math.log(n) for n in range(1, 9)], abs=1e-6)
    assert causal.entropy[0, 0, 0] >= 0


@pytest.mark.parametrize("edited", [False, True])
@pytest.mark.parametrize("size", [(1, 1), (3, 1), (5, 2), (100, 100)], ids=str)
@pytest.mark.parametrize("pattern", ["full", "causal"])
def test_column_sums(
    pattern: str,
    size: tuple[int, int],
    edited: bool,
    kernel: str,
    blocks: Callable[..., Workspace],
    padded: Callable[..., Tensor],
) -> None:
    """Σ of weights over the queries of each class, added up over blocks, against loops; padding counts nowhere."""
    q, k, v = tensors(2, 4, 2, 8, 8)
    real = padded(8, [0, 3], "left")
    of = np.array([[4, 0, 0, 3, 2, 2, 3, 3], [-1, -1, -1, 0, 3, 3, 3, -1]])
    classes = QueryClasses(of, regions=3)
    sums = torch.zeros(2, 4, len(classes.present), 8)

    def add(block: Block) -> None:
        assert block.columns is not None
        sums[block.batch, block.heads, classes.within(block.queries), : block.keys] += block.columns

    mask = described(pattern, real, 2, 8, 8, 0)
    edit = (lambda b, h, i, weights: weights) if edited else None
    workspace = blocks(*size, kernel)
    attend(
        q, k, v, mask, scaling=8**-0.5, workspace=workspace, visit=add, classes=classes, hooks=EditHooks(weights=edit)
    )
    weights = exact_weights(q, k, written_out(pattern, real, 2, 8, 8, 0), 8**-0.5).numpy()
    assert sorted(classes.present) == [0, 2, 3, 4]
    for b in range(2):
        for h in range(4):
            for place, c in enumerate(classes.present):
                expected = np.zeros(8)
                for i in range(8):
                    if of[b, i] == c:
                        expected += weights[b, h, i]
                assert sums[b, h, place].tolist() == pytest.approx(expected.tolist(), abs=1e-6)


def test_both_kernels_agree(blocks: Callable[..., Workspace], padded: Callable[..., Tensor]) -> None:
    """On rows of every kind at once: long tails that underflow, equal logits, a single key, none."""
    pytest.importorskip("numba")
    q, k, v = tensors(3, 4, 2, 40, 40, seed=5)
    q = q * torch.tensor([0.0, 1.0, 30.0, 200.0]).view(1, 4, 1, 1)
    mask = described("causal", padded(40, [0, 7, 39], "left"), 3, 40, 40, 0)
    found = []
    for kernel in ("torch", "numba"):
        got = Collect(q, k)
        attend(q, k, v, mask, scaling=0.35, workspace=blocks(16, 3, kernel), visit=got, with_entropy=True)
        found.append(got)
    assert (found[0].weights - found[1].weights).abs().max() <= 1e-6
    assert (found[0].entropy - found[1].entropy).abs().max() <= 1e-5
    assert ((found[0].weights == 0) | (found[1].weights > 0) | (found[0].weights < 1e-35)).all()


@pytest.mark.parametrize("threads", [2, 3, 16])
def test_rows_shared_out_among_threads(threads: int, kernel: str, padded: Callable[..., Tensor]) -> None:
    """Fewer heads than threads: the rows of a head are cut into parts, whose column sums are put together again."""
    q, k, v = tensors(1, 1, 1, 11, 11)
    seen = written_out("causal", None, 1, 11, 11, 0)
    of = np.array([[0, 0, 1, 1, 1, 1, 0, 2, 2, 2, 2]])
    classes, columns = QueryClasses(of, regions=2), torch.zeros(1, 1, 3, 11)

    def add(block: Block) -> None:
        assert block.columns is not None
        columns[:, :, classes.within(block.queries), : block.keys] += block.columns

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        workspace = Workspace(kernel=kernel)
        compare(q, k, v, described("causal", None, 1, 11, 11, 0), seen, workspace)
        mask = described("causal", None, 1, 11, 11, 0)
        attend(q, k, v, mask, scaling=8**-0.5, workspace=workspace, visit=add, classes=classes)
    finally:
        torch.set_num_threads(before)
    weights = exact_weights(q, k, seen, 8**-0.5)[0, 0].numpy()
    for place, c in enumerate(classes.present):
        assert np.abs(columns[0, 0, place].numpy() - weights[of[0] == c].sum(0)).max() <= 1e-6


def test_rows_that_nobody_needs_are_still_seen(kernel: str, blocks: Callable[..., Workspace]) -> None:
    """`needed` spares the product with the values only: the probes see every row, needed outputs do not change."""
    q, k, v = tensors(1, 4, 2, 9, 9)
    mask, needed = BlockMask(9, 9), np.array([False] * 6 + [True, False, True])
    whole, some = Collect(q, k), Collect(q, k)
    full = attend(q, k, v, mask, scaling=0.5, workspace=blocks(2, 1, kernel), visit=whole)
    cut = attend(q, k, v, mask, scaling=0.5, workspace=blocks(2, 1, kernel), visit=some, needed=needed)
    assert torch.equal(full[:, needed], cut[:, needed])
    assert torch.equal(whole.weights, some.weights)
    assert (some.visits == 1).all()
    assert (cut[:, :6] == 0).all()


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_broken_states_do_not_pass_for_numbers(bad: float, kernel: str) -> None:
    """A model that overflowed must show it: NaN stays NaN (or becomes infinite), it is not softened away."""
    q, k, v = tensors(1, 2, 2, 6, 6)
    q = q.contiguous()
    q[0, 0, 3, 0] = bad
    out = attend(q, k, v, BlockMask(6, 6), scaling=0.5, workspace=Workspace(kernel=kernel))
    assert not out[0, 3, 0].isfinite().all()
    assert out[0, :3].isfinite().all()
    assert out[0, :, 1].isfinite().all()


def test_weights_of_chosen_rows(blocks: Callable[..., Workspace]) -> None:
    q, k, v = tensors(1, 2, 2, 6, 6)
    rows = torch.tensor([0, 2])

    def check(block: Block) -> None:
        if block.queries.stop - block.queries.start > 2:
            assert torch.equal(block.weights(rows), block.weights()[:, :, [0, 2]])

    attend(q, k, v, BlockMask(6, 6), scaling=1.0, workspace=blocks(4, 1), visit=check)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype: torch.dtype) -> None:
    q, k, v = (x.to(dtype) for x in tensors(1, 4, 2, 9, 9))
    mask = described("causal", None, 1, 9, 9, 0)
    out = attend(q, k, v, mask, scaling=0.5, workspace=Workspace())
    single = attend(q.float(), k.float(), v.float(), mask, scaling=0.5, workspace=Workspace())
    assert out.dtype == dtype
    assert torch.equal(out, single.to(dtype))


class NoDouble(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, tuple | list) else (out,):
            assert not isinstance(tensor, Tensor) or tensor.dtype != torch.float64, f"{func} made float64"
        return out


def test_no_float64_on_the_way(padded: Callable[..., Tensor], kernel: str) -> None:
    """float64 is slow on GPUs and absent on some."""
    q, k, v = tensors(2, 4, 2, 9, 9)
    classes = QueryClasses(np.arange(18).reshape(2, 9) % 4, regions=2)

    def use(block: Block) -> None:
        block.weights()

    for pattern in PATTERNS:
        mask = described(pattern, padded(9, [0, 2], "left"), 2, 9, 9, 0)
        workspace = Workspace(kernel=kernel)
        with NoDouble():
            attend(q, k, v, mask, scaling=0.5, workspace=workspace, visit=use, with_entropy=True, classes=classes)


def test_inputs_are_left_alone_and_values_may_be_wider_than_keys(blocks: Callable[..., Workspace]) -> None:
    q, k, _ = tensors(2, 4, 2, 9, 9)
    v = torch.randn(2, 2, 9, 5, generator=torch.Generator().manual_seed(4))
    before = [x.clone() for x in (q, k, v)]
    out = attend(q, k, v, described("causal", None, 2, 9, 9, 0), scaling=0.5, workspace=blocks(2, 1))
    k_all, v_all = (x.repeat_interleave(2, 1) for x in (k, v))
    expected = scaled_dot_product_attention(q, k_all, v_all, is_causal=True, scale=0.5)
    assert (out - expected.transpose(1, 2)).abs().max() <= 1e-5
    assert all(torch.equal(a, b) for a, b in zip(before, (q, k, v), strict=True))


def test_a_workspace_serves_shapes_one_after_another(kernel: str) -> None:
    """Buffers are reused between layers and passes; nothing of a larger call may show in a smaller one."""
    workspace = Workspace(kernel=kernel)
    for queries, keys in ((12, 12), (3, 7), (12, 12), (1, 13), (5, 5)):
        q, k, v = tensors(2, 4, 2, queries, keys, seed=queries)
        seen = torch.ones(2, 1, queries, keys, dtype=torch.bool)
        compare(q, k, v, BlockMask(queries, keys), seen, workspace)


@pytest.mark.parametrize("block_bytes", [1, 4096, 1 << 16, 1 << 30])
@pytest.mark.parametrize("rows", [1, 7, 128, 100_000])
def test_the_workspace_keeps_to_its_budget(block_bytes: int, rows: int) -> None:
    """A block takes twice the budget at most, unless the smallest one (16 rows of one key/value head) is larger."""
    workspace = Workspace(block_bytes, rows)
    for queries, keys, groups in ((1, 1, 1), (40, 40, 1), (600, 600, 4), (1, 5000, 8), (5000, 5000, 1)):
        height, units = workspace.shape(queries, keys, groups)
        assert 1 <= height <= queries
        assert units >= 1
        smallest = 4 * min(queries, 16) * groups * keys
        assert 4 * height * units * groups * keys <= max(2 * block_bytes, smallest)


@pytest.mark.parametrize("seed", range(20))
def test_random_shapes(seed: int, kernel: str, blocks: Callable[..., Workspace], padded: Callable[..., Tensor]) -> None:
    random = np.random.default_rng(seed)
    batch, kv_heads, groups = (int(random.integers(1, 4)) for _ in range(3))
    queries = int(random.integers(1, 14))
    offset = int(random.integers(0, 6))
    pattern = str(random.choice(["causal", "window"])) if offset else str(random.choice(list(PATTERNS)))
    keys = queries + offset
    real = None
    if random.random() < 0.5:
        missing = [int(n) for n in random.integers(0, keys, batch)]
        real = padded(keys, missing, str(random.choice(["left", "right"])))
    q, k, v = tensors(batch, kv_heads * groups, kv_heads, queries, keys, dim=int(random.integers(1, 10)), seed=seed)
    seen = written_out(pattern, real, batch, queries, keys, offset)
    workspace = blocks(int(random.integers(1, 15)), int(random.integers(1, 10)), kernel)
    compare(q, k, v, described(pattern, real, batch, queries, keys, offset), seen, workspace)


def test_a_kernel_that_does_not_exist() -> None:
    with pytest.raises(FloatlensError, match=r'kernel "cuda".*numba, torch or auto'):
        Workspace(kernel="cuda")


def test_the_kernel_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOATLENS_KERNEL", "torch")
    assert Workspace().fused is None
    monkeypatch.setenv("FLOATLENS_KERNEL", "fast")
    with pytest.raises(FloatlensError, match="FLOATLENS_KERNEL"):
        Workspace()


@pytest.mark.parametrize("keys", [1, 63, 64, 65, 200])
def test_the_largest_logit_of_a_row_is_found_at_every_place(keys: int) -> None:
    """The numba kernel looks at 64 numbers at a time, and at the rest of a row one by one."""
    pytest.importorskip("numba")
    logits = torch.linspace(-3, -1, keys).repeat(keys, 1)
    logits[range(keys), range(keys)] = torch.linspace(1, 2, keys)
    exp, inverse, _, _, top = softmax_block(
        logits.clone()[None, None], None, slice(0, 1), slice(0, keys), False, Workspace(kernel="numba")
    )
    assert torch.equal(top[0, 0], torch.linspace(1, 2, keys))
    torch.testing.assert_close((exp * inverse[..., None])[0, 0], logits.softmax(-1))
