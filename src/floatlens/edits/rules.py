"""Choices of keys while attention is computed: anchor rules per head (methods §1), and random keys of controls."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from floatlens.attention.run_tracker import PassPosition
from floatlens.attention.setting import Setting, read_whole, read_word
from floatlens.core.errors import FloatlensError, did_you_mean

__all__ = ["ANCHOR_SETTINGS", "AnchorRule", "check_seed", "indices", "largest", "random_scores"]

_DEFAULTS = {"topk": 5.0, "top1": 1.0, "zscore": 3.0}
ANCHOR_SETTINGS = (
    Setting("k", read_whole, 1, instead="rule", about="the k keys of each head that receive most"),
    Setting("rule", read_word, about="another anchor rule: top1, topk(5) or zscore(3)"),
)
_ROUNDING = 1e-6
_WRITTEN = re.compile(r"(?P<name>[a-z0-9]+)\s*(?:\(\s*(?:(?:ε|eps|k)\s*=)?\s*(?P<value>\d+(?:\.\d+)?)\s*\))?")


@dataclass(frozen=True)
class AnchorRule:
    """`topk(k)`, `top1` or `zscore(ε)`; `str(rule)` is its name in analyses."""

    name: str
    value: float

    @classmethod
    def read(cls, who: str, k: int | None, rule: str | None) -> AnchorRule:
        """From the settings of an edit: a number of keys, the name of a rule, or neither (the largest key)."""
        if rule is None:
            k = 1 if k is None else k
            if isinstance(k, bool) or not isinstance(k, int) or k < 1:
                raise FloatlensError(f"{who}(k={k!r}): k is a number of keys; give a whole number from 1")
            return cls("topk", float(k))
        if k is not None:
            raise FloatlensError(f'{who}: k={k} and rule="{rule}" both say which keys are anchors; give one of them')
        found = _WRITTEN.fullmatch(rule.strip())
        if found is None or found["name"] not in _DEFAULTS:
            name = found["name"] if found else rule
            raise FloatlensError(f'{who}: no anchor rule "{rule}" for edits{did_you_mean(name, _DEFAULTS)}')
        value = _DEFAULTS[found["name"]] if found["value"] is None else float(found["value"])
        whole = found["name"] != "zscore"
        if value <= 0 or (whole and value % 1) or (found["name"] == "top1" and found["value"] is not None):
            raise FloatlensError(f'{who}: rule="{rule}"; give topk(k) with a whole k, top1, or zscore(ε) with ε > 0')
        return cls(found["name"], value)

    def __str__(self) -> str:
        return {"top1": "top1", "topk": f"topk(k={self.value:g})"}.get(self.name, f"zscore(ε={self.value:g})")

    @property
    def most(self) -> int | None:
        """The largest number of anchors per head, if the rule fixes one."""
        return None if self.name == "zscore" else int(self.value)

    def find(self, who: object, received: Tensor, choosable: Tensor) -> Tensor:
        """(batch, head, key) bool: the anchors among the choosable (batch, key), from what keys receive."""
        there = choosable[:, None, :]
        if self.name == "zscore":
            value = received.double().masked_fill(~there, 0.0)
            count = there.sum(-1, keepdim=True).clamp(min=1)
            mean = value.sum(-1, keepdim=True) / count
            spread = ((value - mean).masked_fill(~there, 0.0).square().sum(-1, keepdim=True) / count).sqrt()
            return (value > mean + self.value * spread) & (spread > _ROUNDING * mean) & there
        fewest = min((n for n in choosable.sum(-1).tolist() if n), default=0)
        if fewest and self.value >= fewest:
            raise FloatlensError(f"{who}: k={self.value:g} of {fewest} keys would leave none; give a smaller k")
        return largest(torch.where(there, received, -torch.inf), int(self.value)) & there


def largest(value: Tensor, count: Tensor | int) -> Tensor:
    """(…, key) bool: the `count` (…) largest of each row; of equals the earlier."""
    wanted = torch.as_tensor(count, device=value.device)
    if not value.numel():
        return torch.zeros_like(value, dtype=torch.bool)
    least, most = (count, count) if isinstance(count, int) else (int(n) for n in wanted.aminmax())
    if least == most and 0 < most < value.shape[-1]:
        top, at = value.topk(most + 1, dim=-1)
        if bool((top[..., -2] > top[..., -1]).all()):  # no tie at the boundary: the usual case, and fast
            return torch.zeros_like(value, dtype=torch.bool).scatter_(-1, at[..., :-1], True)
    if most <= 0:
        return torch.zeros_like(value, dtype=torch.bool)
    wanted = wanted.expand(value.shape[:-1]).unsqueeze(-1)
    top = value.topk(min(most, value.shape[-1]), dim=-1).values
    last = top.gather(-1, (wanted - 1).clamp(0, top.shape[-1] - 1))  # the smallest value that is still chosen
    above, level = value > last, value == last
    left = wanted - above.sum(-1, keepdim=True)
    return (above | (level & (level.cumsum(-1) <= left))) & (wanted > 0)


def indices(keys: Tensor, most: int | None = None) -> tuple[Tensor, Tensor]:
    """The indices (batch, head, n) of the chosen keys (batch, head, key), and 1 or 0 for chosen or padding.

    n is the largest number of chosen keys of any head, or `most` if given.
    """
    n = most if most is not None else int(keys.sum(-1).max()) if keys.numel() else 0
    chosen, at = keys.float().topk(n, dim=-1)
    return at, chosen


def check_seed(who: object, seed: int) -> int:
    """The seed, if it is a valid one."""
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise FloatlensError(f"{type(who).__name__}(seed={seed!r}): give a whole number from 0")
    return seed


def random_scores(position: PassPosition, seed: int, heads: int, *key: int) -> Tensor:
    """(batch, head, key) numbers in [0, 1), -1 on padding, by which controls choose keys.

    A number belongs to a token's index among the real tokens of its sample and depends on the seed, the sample's prompt
    and `key`. So choices are the same for a sample alone or in any batch, padded or not, cached or not.
    """
    drawn = np.full((len(position.real), heads, position.real.shape[1]), -1.0)
    for sample, (there, mark) in enumerate(zip(position.real, position.run.fingerprints, strict=True)):
        random = np.random.default_rng([seed, mark, *key])
        drawn[sample][:, there] = random.random((int(there.sum()), heads)).T  # token-major order
    return torch.from_numpy(drawn)
