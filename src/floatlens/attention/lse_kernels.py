"""Fused attention kernels that return log-sum-exps, behind one call, and the check that one has to pass to be used.

`CpuFlash` is torch's own kernel for CPUs, `Flex` is FlexAttention for GPUs. Both are told what is added to the score of
each key in float32. A torch release has returned log-sum-exps that were off by ln 2, so no kernel is used before its
results were compared with float64 rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

from floatlens.attention.mask import HIDDEN

__all__ = ["CpuFlash", "Flex", "LseKernel", "Scores", "off_by"]


@dataclass(frozen=True)
class Scores:
    """How scores are made of products: `scale` · q·k, then the soft cap, then what is added to them, in float32.

    `key_bias` is (batch, head, key), `bias` (batch, 1 or head, query, key); `causal` hides keys after the query, both
    counted from 0.
    """

    scale: float
    softcap: float | None = None
    key_bias: Tensor | None = None
    bias: Tensor | None = None
    causal: bool = False
    rounded: bool = False
    """Whether queries and keys hold numbers of half precision; TF32 then leaves their products exact, and is fast."""


class LseKernel(Protocol):
    """query (batch, head, query, dim), key (batch, head, key, dim), value (batch, head, key, any) → mixed values
    (batch, head, query, any) in the dtype of the query, and log-sum-exps (batch, head, query) in float32, base e."""

    @property
    def name(self) -> str: ...

    @property
    def softcap(self) -> bool:
        """Whether it can cap scores."""

    @property
    def half(self) -> bool:
        """Whether it takes half precision; if not, it is given float32."""

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, scores: Scores) -> tuple[Tensor, Tensor]: ...


class CpuFlash:
    """torch's flash kernel for CPUs. A bias of keys is one more head dimension, and all head sizes are made equal."""

    name: ClassVar[str] = "torch flash (cpu)"
    softcap: ClassVar[bool] = False
    half: ClassVar[bool] = False

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, scores: Scores) -> tuple[Tensor, Tensor]:
        assert scores.softcap is None
        wide = max(key.shape[-1] + (scores.key_bias is not None), value.shape[-1])
        q, k, v = (pad(x, (0, wide - x.shape[-1])) for x in (query, key, value))
        if scores.key_bias is not None:
            q[..., key.shape[-1]] = 1.0
            k[..., key.shape[-1]] = scores.key_bias / scores.scale
        run = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        mask = None if scores.bias is None else scores.bias.contiguous()
        mixed, total = run(q, k, v, 0.0, scores.causal, attn_mask=mask, scale=scores.scale)
        return mixed[..., : value.shape[-1]], total


class Flex:
    """FlexAttention, compiled on a GPU; without compilation it is a slow reference that runs anywhere.

    Values go in parts of at most `widest` numbers, since those of a compiled kernel have to fit into shared memory.
    """

    softcap: ClassVar[bool] = True

    def __init__(self, compiled: bool = True, widest: int = 128) -> None:
        from torch.nn.attention import flex_attention as flex

        flex_attention, request = flex.flex_attention, getattr(flex, "AuxRequest", None)
        self._ask: dict[str, Any] = {"return_lse": True} if request is None else {"return_aux": request(lse=True)}
        self.half, self.widest = compiled, widest
        self.name = "FlexAttention" if compiled else "FlexAttention (not compiled)"
        self._run: Any = torch.compile(flex_attention, dynamic=True) if compiled else flex_attention

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, scores: Scores) -> tuple[Tensor, Tensor]:
        q, k, change = query.contiguous(), key.contiguous(), _changed(scores)
        asked = dict(self._ask)
        if self.half and scores.rounded and query.dtype == torch.float32 and torch.version.hip is None:
            asked["kernel_options"] = {"FLOAT32_PRECISION": "'tf32'"}  # float32 proper is an eighth as fast on an A100
        found: list[Tensor] = []
        for part in torch.split(value, self.widest, -1):
            wide = -(-part.shape[-1] // 16) * 16  # the compiled kernel wants at least 16, in steps of it
            padded = pad(part, (0, wide - part.shape[-1])).to(query.dtype)
            mixed, more = self._run(q, k, padded, score_mod=change, scale=scores.scale, **asked)
            found.append(mixed[..., : part.shape[-1]])
        return torch.cat(found, -1), more if isinstance(more, Tensor) else more.lse


def _changed(scores: Scores) -> Callable[..., Tensor]:
    """FlexAttention's function of a score and its place; scores are float32 there, whatever the inputs are."""
    cap, key_bias, bias, causal = scores.softcap, scores.key_bias, scores.bias, scores.causal
    shared = bias is not None and bias.shape[1] == 1
    single = bias is not None and bias.shape[0] == 1

    def change(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        if cap is not None:
            score = torch.tanh(score / cap) * cap
        if key_bias is not None:
            score = score + key_bias[b, h, j]
        if bias is not None:
            score = score + bias[b * 0 if single else b, h * 0 if shared else h, i, j]
        return torch.where(i >= j, score, HIDDEN) if causal else score

    return change


def off_by(kernel: LseKernel, device: torch.device) -> float:
    """The largest error of log-sum-exps and mixed values against rows in float64, with a bias of the keys."""
    make = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 2, 40, size, generator=make).bfloat16().float() for size in (16, 16, 20))
    bias = -3 * torch.rand(1, 2, 40, generator=make)
    logits = 0.25 * (q.double() @ k.double().transpose(2, 3)) + bias.double().unsqueeze(2)
    logits = logits.masked_fill(torch.ones(40, 40).triu(1).bool(), -torch.inf)
    wrong = []
    for rounded in (False, True):
        scores = Scores(0.25, key_bias=bias.to(device), causal=True, rounded=rounded)
        mixed, total = kernel(q.to(device), k.to(device), v.to(device), scores)
        wrong.append((total.cpu() - logits.logsumexp(-1)).abs().max())
        rounding = 4.0 if rounded else 1.0  # weights have 11 bits then
        wrong.append((mixed.cpu() - logits.softmax(-1) @ v.double()).abs().max() / rounding)
    return max(float(one) for one in wrong)
