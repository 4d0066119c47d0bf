"""Anchor rules (methods §1, §12a): which keys are anchors, by a named rule. No rule falls back silently.

    robust(ε=3.5) ln(received ÷ uniform) > median + ε · robust standard deviation (1.4826 · MAD), over the keys present;
                  received ÷ uniform above 1 and at least twice its median; and at least 1 % of the attention.
                  Or received at least 10 % of the attention above uniform
    zscore(ε=3)   received > mean + ε · standard deviation, over the keys present
    rulli(ε=3)    column sum > mean of the other columns' sums + ε
    gu(ε=0.3)     mean over the queries that see the key > ε; per head
    topk(k=5)     the k largest
    top1          the largest

`robust` is the default. It compares with uniform attention under the same mask, so a causal mask alone makes no
anchors. It takes logarithms because the noise of a softmax is multiplicative, and median and MAD because a dominant
sink inflates a mean and a standard deviation until weaker anchors no longer stand out. Attention of a few rows can be
so uneven that no key is ε deviations above the median; one that holds a tenth of it is an anchor all the same.

An empty set stays empty, unless the rule ends in "or top1", which is then part of its name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from floatlens.analysis.kernels import Bools, Floats
from floatlens.core.errors import FloatlensError, did_you_mean

__all__ = ["DEFAULT_RULE", "Columns", "Rule", "as_rule", "find_anchors"]

DEFAULT_RULE = "robust"
"""The rule of every analysis but absorption, which follows the strongest key."""
_DEFAULTS = {"robust": 3.5, "zscore": 3.0, "rulli": 3.0, "gu": 0.3, "topk": 5.0, "top1": 1.0}
_WORDS = {
    "robust": "tokens whose attention, relative to uniform attention under the same mask, is more than {} robust "
    "standard deviations above the median token (on a log scale), at least twice the median, above 1, and at least 1 % "
    "of all attention; or that receive a tenth of all attention more than under uniform attention",
    "zscore": "tokens that receive more than the mean + {} standard deviations over the tokens present",
    "rulli": "tokens whose attention, summed over queries, is more than the mean of the others + {}",
    "gu": "tokens that receive more than {} on average from the queries that see them, in some head",
    "topk": "the {} tokens that receive most",
    "top1": "the token that receives most",
}
_TAKES = dict.fromkeys(_DEFAULTS, "a number above 0") | {
    "gu": "a number between 0 and 1",
    "topk": "a whole number from 1",
    "top1": "no number",
}
_LEAST_RATIO = 2.0  # of received ÷ uniform to its median: below that, steady attention would have anchors by rounding
_LEAST_SHARE = 0.01  # a late key under a causal mask is seen by a few queries: a high ratio of almost nothing
_PLENTY = 0.1  # received − uniform of a key that is an anchor however uneven the attention on the others is
_TO_DEVIATION = 1.4826  # from the median absolute deviation to the standard deviation of a normal distribution
_FLOOR = 1e-3  # received ÷ uniform of a key that receives nothing, whose logarithm would be infinite
_ROUNDING = 1e-6  # traces hold float32; columns that differ by less are equal
_WRITTEN = re.compile(r"(?P<name>[a-z0-9]+)\s*(?:\(\s*(?:(?:ε|eps|k)\s*=)?\s*(?P<value>[^()=\s]+)\s*\))?")


@dataclass(frozen=True)
class Rule:
    """A rule with its number. `str(rule)` is the name that figures and tables carry."""

    name: str
    value: float
    or_top1: bool = False

    @property
    def words(self) -> str:
        """The rule in words: `as_rule("top1").words`."""
        return _WORDS[self.name].format(f"{self.value:g}") + (", or else the one that receives most" * self.or_top1)

    @property
    def unit(self) -> Literal["layer", "head"]:
        """What it is applied to by default: the head mean of a layer, or each head."""
        return "head" if self.name == "gu" else "layer"

    def __str__(self) -> str:
        number = {"top1": "", "topk": f"(k={self.value:g})"}.get(self.name, f"(ε={self.value:g})")
        return f"{self.name}{number}{' or top1' if self.or_top1 else ''}"


@dataclass(frozen=True)
class Columns:
    """What rules take; arrays of one shape (…, key), `asking` without the last axis. `value` is received attention as
    it is reported (a share, or a mean over the queries that see the key), `share` the share, `null` the share under
    uniform attention, `present` which keys hold anything, `seen` how many queries see each, `asking` how many queries
    there are."""

    value: Floats
    share: Floats
    null: Floats
    present: Bools
    seen: Floats
    asking: Floats


def as_rule(rule: str | Rule, *, or_top1: bool = False) -> Rule:
    """A rule from its name, `"robust"`, `"zscore(2.5)"` or `"topk(k=3) or top1"`."""
    if isinstance(rule, Rule):
        return replace(rule, or_top1=rule.or_top1 or or_top1)
    text = rule.strip().removesuffix(" or top1")
    fallback = text != rule.strip()
    found = _WRITTEN.fullmatch(text.strip())
    if found is None or found["name"] not in _DEFAULTS:
        name = found["name"] if found else text
        raise FloatlensError(
            f'no anchor rule "{rule}"{did_you_mean(name, _DEFAULTS)}; give robust(3.5), zscore(3), '
            f"rulli(3), gu(0.3), topk(5) or top1"
        )
    return Rule(found["name"], _number(rule, found["name"], found["value"]), or_top1 or fallback)


def _number(rule: str, name: str, value: str | None) -> float:
    if value is None:
        return _DEFAULTS[name]
    try:
        number = float(value)
    except ValueError:
        raise FloatlensError(f'anchor rule "{rule}": "{value}" is not a number') from None
    if name == "top1" or not number > 0 or (name == "topk" and number % 1) or (name == "gu" and number >= 1):
        raise FloatlensError(f'anchor rule "{rule}": {name} takes {_TAKES[name]}')
    return number


def find_anchors(rule: Rule, columns: Columns) -> Bools:
    """(…, key): the anchors. Where nothing was measured there are none."""
    value = np.where(columns.present, columns.value, np.nan)
    defined = ~np.isnan(value)
    with np.errstate(invalid="ignore", divide="ignore"):
        if rule.name == "robust":
            found = _stands_out(columns, rule.value)
        elif rule.name == "zscore":
            count = np.maximum(defined.sum(axis=-1, keepdims=True), 1)
            mean = np.nansum(value, axis=-1, keepdims=True) / count
            spread = np.sqrt(np.nansum((value - mean) ** 2, axis=-1, keepdims=True) / count)
            found = (value > mean + rule.value * spread) & (spread > _ROUNDING * mean)
        elif rule.name == "rulli":
            sums = np.where(columns.present, columns.share, np.nan) * columns.asking[..., None]
            others = np.maximum(defined.sum(axis=-1, keepdims=True) - 1, 1)
            found = sums > (np.nansum(sums, axis=-1, keepdims=True) - sums) / others + rule.value
        elif rule.name == "gu":
            found = columns.share * columns.asking[..., None] / columns.seen > rule.value
        else:
            found = _largest(value, int(rule.value))
    found = found & defined
    if rule.or_top1:
        found = np.where(found.any(axis=-1, keepdims=True), found, _largest(value, 1) & defined)
    return np.asarray(found)


def _stands_out(columns: Columns, deviations: float) -> Bools:
    """The keys that the rule `robust` finds. A key that no query sees has no ratio, and does not count."""
    ratio = np.where(columns.present & (columns.null > 0), columns.share / columns.null, np.nan)
    x = np.log(np.maximum(ratio, _FLOOR))
    middle = _median(x)
    above = x - middle
    spread = _TO_DEVIATION * _median(np.abs(above))
    enough = (columns.share >= _LEAST_SHARE) & (ratio > 1) & (above >= np.log(_LEAST_RATIO))
    return np.asarray(enough & ((above > deviations * spread) | (columns.share - columns.null >= _PLENTY)))


def _median(x: Floats) -> Floats:
    """(…, 1): the median of the defined values of each row; NaN without any. Faster than `np.nanmedian`."""
    count = np.maximum((~np.isnan(x)).sum(axis=-1, keepdims=True), 1)
    ordered = np.sort(x, axis=-1)  # NaN last
    low, high = (np.take_along_axis(ordered, place, axis=-1) for place in ((count - 1) // 2, count // 2))
    return np.asarray((low + high) / 2)


def _largest(value: Floats, count: int) -> Bools:
    """The `count` largest of each row; of equals the earlier."""
    order = np.argsort(np.where(np.isnan(value), np.inf, -value), axis=-1, kind="stable")
    found = np.zeros(value.shape, dtype=bool)
    np.put_along_axis(found, order[..., :count], True, axis=-1)
    return found
