"""Margin cases: numbers of drift and absorption with means exactly at a limit, between two limits, or clear of both.

Traces cannot be made so that their mean is exactly at a limit, where a rule errs most often. Here the numbers of each
trace are drawn directly, from skewed distributions with a known mean; all parts of a claim but one are clearly met.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np

from floatlens.analysis import Result
from floatlens.analysis.absorption import VIEWS
from floatlens.analysis.drift import QUERIES
from floatlens_lab.claims.cases import Case, Random, Truth
from floatlens_lab.claims.groups import Floats, Simulated, simulated

__all__ = ["margin_cases", "positive", "share", "signed"]

Sampler = Callable[[Random, int], Floats]
"""(generator, n) → (sample)."""
LAYERS = 8


# -- distributions with a known mean ----------------------------------------------------------------------------------


def share(mean: float, weight: float = 1.5) -> Sampler:
    """From 0 to 1, and mostly near the ends: in one trace anchors stay, in another they do not."""
    return lambda random, n: random.beta(weight * mean, weight * (1 - mean), n)


def positive(mean: float, sigma: float = 0.75) -> Sampler:
    """Log-normal."""
    return lambda random, n: mean * random.lognormal(-(sigma**2) / 2, sigma, n)


def signed(mean: float, spread: float, skew: int = 1) -> Sampler:
    """Exponential about its mean, with the tail to the right (1) or to the left (−1); `spread` is its deviation."""
    return lambda random, n: mean + skew * spread * (random.exponential(size=n) - 1)


# -- drift ------------------------------------------------------------------------------------------------------------

_MASS, _SHUFFLED = 0.05, positive(0.02, 0.3)
_ARM = {"first": positive(0.4, 0.4), "quarter_jaccard": share(0.95), "first_strongest": share(0.95)}
_MDM = {"strongest": positive(0.25, 0.4)}
_MOVES = _MDM | {"quarter_jaccard": share(0.1), "floater_jaccard": signed(-0.3, 0.1), "floater_null": share(0.4, 20.0)}
CLEAR: Mapping[str, dict[str, Sampler]] = {
    "arm-fixed": _ARM,
    "mdm-moves (answer rows)": _MOVES,
    "mdm-moves (all rows)": _MOVES,
    "mdm-right": _MDM | {"speed": signed(0.8, 0.4)},
    "mdm-frontier": _MDM | {"frontier_gain": signed(0.5, 0.3, -1)},
    "layers-differ": _MDM | {"depth_jaccard": share(0.1)},
}
"""Numbers of a model for which the claim is true. `floater_jaccard` is added to `floater_null`."""

_SIDES = ((1, "tail to the right"), (-1, "tail to the left"))


def _edges() -> Iterator[tuple[str, str, Truth, dict[str, Sampler]]]:
    """Claim, world, truth and the numbers that differ from those of `CLEAR`."""
    for claim in CLEAR:
        mass = "first" if claim == "arm-fixed" else "strongest"
        yield claim, "clear", "true", {}
        yield claim, "mass at the limit", "neither", {mass: positive(_MASS, 0.5)}
        yield claim, "no anchors: 0.5 % above uniform", "false", {mass: positive(0.005, 0.5)}
    yield "arm-fixed", "quarters at the limit", "neither", {"quarter_jaccard": share(0.5)}
    yield "arm-fixed", "first position at the limit", "neither", {"first_strongest": share(0.5)}
    yield "arm-fixed", "anchors move", "false", {"quarter_jaccard": share(0.2)}
    for claim in ("mdm-moves (answer rows)", "mdm-moves (all rows)"):
        yield claim, "quarters at the limit", "neither", {"quarter_jaccard": share(0.5)}
        yield claim, "quarters where contradiction begins", "neither", {"quarter_jaccard": share(0.9)}
        yield claim, "anchors stay", "false", {"quarter_jaccard": share(0.97)}
        for skew, tail in _SIDES:
            travel = signed(-0.05, 0.1, skew)
            yield claim, f"floaters at the limit, {tail}", "neither", {"floater_jaccard": travel}
    for skew, tail in _SIDES:
        yield "mdm-right", f"speed at the limit, {tail}", "neither", {"speed": signed(0.25, 0.5, skew)}
        yield "mdm-right", f"speed 0, {tail}", "neither", {"speed": signed(0.0, 0.5, skew)}
        yield "mdm-frontier", f"gain at the limit, {tail}", "neither", {"frontier_gain": signed(0.1, 0.3, skew)}
        yield "mdm-frontier", f"gain 0, {tail}", "neither", {"frontier_gain": signed(0.0, 0.3, skew)}
    yield "mdm-right", "to the left", "false", {"speed": signed(-0.5, 0.5)}
    yield "mdm-frontier", "away from the frontier", "false", {"frontier_gain": signed(-0.3, 0.3)}
    yield "layers-differ", "overlap at the limit", "neither", {"depth_jaccard": share(0.5)}
    yield "layers-differ", "overlap where contradiction begins", "neither", {"depth_jaccard": share(0.9)}
    yield "layers-differ", "the same in every layer", "false", {"depth_jaccard": share(0.97)}


def _group(kind: str, values: Mapping[str, Floats], of: str | None = None) -> Simulated:
    """A group of drift, the same for all query groups; with `of` the control of a model."""
    wide = {name: np.stack([x] * len(QUERIES), axis=1) for name, x in values.items()}
    return simulated(wide, kind=kind, control_of=of)


def _anchored(random: Random, n: int, samplers: Mapping[str, Sampler], control: Sampler = _SHUFFLED) -> list[Result]:
    values = {name: sampler(random, n) for name, sampler in samplers.items()}
    if "floater_null" in values:
        values["floater_jaccard"] = values["floater_jaccard"] + np.maximum(values["floater_null"], 0.1)
    mass = "first" if "first" in values else "strongest"
    kind = "arm" if mass == "first" else "mdm"
    groups = (_group(kind, values), _group(kind, {mass: control(random, n)}, kind))
    return [Result("drift", {}, groups)]


def _spread(random: Random, n: int, mean: float, skew: int) -> list[Result]:
    """The entropy of shallow layers exceeds that of deep ones by `mean` on average."""
    deep = 0.7 + 0.05 * random.normal(size=(n, LAYERS))
    deep[:, : LAYERS // 2] += signed(mean, 0.04, skew)(random, n)[:, None]
    return [Result("drift", {}, (_group("mdm", {"entropy_by_layer": deep}),))]


# -- kinds side by side -----------------------------------------------------------------------------------------------


def _dispersed(random: Random, n: int, mean: float, skew: int) -> list[Result]:
    """A diffusion model with `mean` more effective anchors than an autoregressive one, which has 1.2 on average."""
    arm, mdm = 1 + positive(0.2)(random, n), signed(1.2 + mean, 0.8, skew)(random, n)
    groups = tuple(_group(kind, {"effective_anchors": x}) for kind, x in (("mdm", mdm), ("arm", arm)))
    return [Result("drift", {}, groups)]


def _absorbed(random: Random, n: int, mdm: float, arm: float) -> list[Result]:
    """Percent above uniform on the anchors of both kinds; layers differ, and traces in how strong anchors are."""
    groups = []
    for kind, mean, sigma in (("mdm", mdm, 0.5), ("arm", arm, 0.3)):
        layers = positive(mean, sigma)(random, n)[:, None] * random.lognormal(-0.02, 0.2, (n, LAYERS))
        both = np.stack([layers] * len(VIEWS), axis=1)
        groups.append(simulated({"absorbed": both + 2, "excess": both}, kind=kind))
    return [Result("absorption", {}, tuple(groups))]


_THREE: tuple[tuple[str, Truth, float, float], ...] = (
    ("clear", "true", 0.08, 1.5),
    ("at the limit", "neither", 0.02, 0.5),
    ("zero", "neither", 0.0, 0.0),
)
"""World, truth, and the mean difference of entropies and of effective anchors."""


def margin_cases() -> list[Case]:
    """Every claim about anchors at its limits."""
    made = [
        Case(claim, world, truth, partial(_anchored, samplers=CLEAR[claim] | other))
        for claim, world, truth, other in _edges()
    ]
    for claim, clear in CLEAR.items():
        mass = positive(0.15, 0.4)
        name = "first" if claim == "arm-fixed" else "strongest"
        # The null of the comparison with the control. A mean exactly at the 95th percentile of the control is no world
        # of its own: such a model does hold more than its control, and the percentile only keeps a distance.
        other = partial(_anchored, samplers=clear | {name: mass}, control=mass)
        made.append(Case(claim, "as much as its control", "false", other))
    for skew, tail in _SIDES:
        for world, truth, apart, more in _THREE:
            made.append(Case("shallow-spread", f"{world}, {tail}", truth, partial(_spread, mean=apart, skew=skew)))
            made.append(Case("mdm-dispersed", f"{world}, {tail}", truth, partial(_dispersed, mean=more, skew=skew)))
    made.append(Case("shallow-spread", "the other way round", "false", partial(_spread, mean=-0.08, skew=1)))
    made.append(Case("mdm-dispersed", "the other way round", "false", partial(_dispersed, mean=-0.15, skew=1)))
    for claim in ("mdm-absorbs-less (absorbed)", "mdm-absorbs-less (excess)"):
        made.append(Case(claim, "clear", "true", partial(_absorbed, mdm=15.0, arm=40.0)))
        made.append(Case(claim, "equal", "neither", partial(_absorbed, mdm=30.0, arm=30.0)))
        made.append(Case(claim, "the other way round", "false", partial(_absorbed, mdm=40.0, arm=15.0)))
        made.append(Case(claim, "anchors at the mass limit", "neither", partial(_absorbed, mdm=1.0, arm=5.0)))
    return made
