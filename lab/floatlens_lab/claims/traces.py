"""Trace cases: claims about where anchors are, judged on studies that are drawn from pools of synthetic traces.

For each world a pool of traces is made and analysed once. A study is n questions drawn from the pool with replacement,
so the pool is the population and its questions are independent. The control with shuffled weights has n questions, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from floatlens.analysis import Result, analyse
from floatlens.claims import CLAIMS
from floatlens_lab.claims.cases import Case, Draw, Random, Truth
from floatlens_lab.claims.groups import Floats, Simulated, simulated
from floatlens_lab.claims.worlds import WORLDS, make_trace

__all__ = ["TRUTHS", "Truths", "trace_cases"]

AGAINST_STEPS = 32
"""Steps of the autoregressive model in a comparison, whatever the number of steps of the diffusion model."""


@dataclass(frozen=True)
class Truths:
    """The worlds in which a claim is true, false or neither. Worlds that are not named do not bear on it. `against` is
    the world of the autoregressive model where a claim compares kinds."""

    claim: str
    kind: str
    true: tuple[str, ...] = ()
    false: tuple[str, ...] = ()
    neither: tuple[str, ...] = ()
    against: str | None = None

    def worlds(self) -> Iterator[tuple[str, Truth]]:
        sides: tuple[tuple[Truth, tuple[str, ...]], ...] = (
            ("true", self.true),
            ("false", self.false),
            ("neither", self.neither),
        )
        for truth, names in sides:
            yield from ((name, truth) for name in names)


_STILL = ("sink", "held", "noise", "shuffled")
_WITHOUT_ORDER = ("flicker", "jump")
TRUTHS = (
    # "held" is fixed over steps, but at other words in each layer. A sink beside floaters ("dream") is left out: its
    # strongest anchor is fixed, the others are not.
    Truths("arm-fixed", "arm", ("sink",), ("held", "llada", "left", *_WITHOUT_ORDER, "noise", "shuffled")),
    # Anchors that jump to another place in every step do move; keys that come and go ("flicker") show neither that
    # anchors move nor that they stay.
    Truths("mdm-moves (answer rows)", "mdm", ("llada", "dream", "answer", "left", "jump"), _STILL, ("flicker",)),
    # In the mean over all rows the held anchors of the prompt rows prevail in "answer".
    Truths("mdm-moves (all rows)", "mdm", ("llada", "dream", "left", "jump"), ("answer", *_STILL), ("flicker",)),
    # Without order the expected speed is 0, where contradiction begins; but the mean of a pool is not exactly 0, and a
    # study of 100 questions finds its sign. Such worlds are false here, and effects of exactly 0 are in `margins`.
    Truths("mdm-right", "mdm", ("llada", "dream", "answer"), ("left", *_WITHOUT_ORDER, *_STILL)),
    Truths("mdm-frontier", "mdm", ("llada", "dream", "answer"), ("left", *_WITHOUT_ORDER, *_STILL)),
    # Anchors without order are at other places in each layer by chance alone, so those worlds do not bear on this.
    Truths("layers-differ", "mdm", ("llada", "dream", "answer", "left", "held"), ("sink", "noise", "shuffled")),
    # All layers are alike in "dream" and in the still worlds.
    Truths("shallow-spread", "mdm", ("llada", "left"), ("deep-spread", "dream", *_STILL)),
    # A sink of the same mass is no world with equal absorption: under a causal mask the first position also receives
    # more of the background. Equal means are in `margins`. Two models without anchors show nothing.
    Truths("mdm-absorbs-less (absorbed)", "mdm", ("llada", "dream", "noise"), against="sink"),
    Truths("mdm-absorbs-less (absorbed)", "mdm", (), ("sink", "dream"), against="weak-sink"),
    Truths("mdm-absorbs-less (absorbed)", "mdm", (), (), ("noise",), against="noise"),
    Truths("mdm-absorbs-less (absorbed)", "mdm", (), (), ("shuffled",), against="shuffled"),
    Truths("mdm-absorbs-less (excess)", "mdm", ("llada", "dream", "noise"), against="sink"),
    Truths("mdm-absorbs-less (excess)", "mdm", (), ("sink", "dream"), against="weak-sink"),
    Truths("mdm-absorbs-less (excess)", "mdm", (), (), ("noise",), against="noise"),
    Truths("mdm-absorbs-less (excess)", "mdm", (), (), ("shuffled",), against="shuffled"),
    # One anchor on both sides is a difference of 0; noise has no anchor at all, fewer than a sink.
    Truths("mdm-dispersed", "mdm", ("llada", "dream", "held"), ("noise", "shuffled"), ("sink",), against="sink"),
    Truths("mdm-dispersed", "mdm", (), ("sink",), (), against="held"),
)
"""Claims about where anchors are, and what is so in each world."""


def trace_cases(steps: int, pool: int) -> list[Case]:
    """Every claim about anchors in every world, for runs of so many steps; traces are made when they are needed."""
    made = []
    for truths in TRUTHS:
        for world, truth in truths.worlds():
            name = f"{world} against {truths.against}" if truths.against else world
            made.append(Case(truths.claim, name, truth, _draw(truths, world, steps, pool), steps, effort=0.25))
    return made


def _draw(truths: Truths, world: str, steps: int, pool: int) -> Draw:
    def draw(random: Random, n: int) -> list[Result]:
        (needed,) = CLAIMS[truths.claim].needs
        result = _pooled(truths, world, steps, pool)[needed]
        return [
            replace(
                result, groups=tuple(group.drawn(n, random) for group in result.groups if isinstance(group, Simulated))
            )
        ]

    return draw


def _pooled(truths: Truths, world: str, steps: int, pool: int) -> dict[str, Result]:
    """What the claim needs, of the world, its control and, for a comparison, the world of the other kind."""
    found = [_analysed(world, truths.kind, steps, pool)]
    if truths.against:
        found.append(_analysed(truths.against, "arm", AGAINST_STEPS, pool))
    return {
        name: replace(found[0][name], groups=tuple(group for one in found for group in one[name].groups))
        for name in found[0]
    }


@cache
def _analysed(world: str, kind: str, steps: int, pool: int) -> dict[str, Result]:
    """Both analyses of a world, with its control; the traces of the control are the same for every world."""
    ref = f"{world} as {kind}, {steps} steps"
    shuffled = _shuffled(kind, steps, pool)
    made = {}
    for analysis, result in _traced(world, kind, steps, pool, ref).items():
        own, other = _arrays(result), _arrays(shuffled[analysis])
        control = simulated(other, kind=kind, control_of=ref)
        made[analysis] = replace(result, groups=(simulated(own, kind=kind, model=ref), control))
    return made


def _arrays(result: Result) -> dict[str, Floats]:
    """Every variable of the only group."""
    (group,) = result.groups
    return {str(name): group.values(str(name)) for name in group.samples.data_vars}


@cache
def _shuffled(kind: str, steps: int, pool: int) -> dict[str, Result]:
    return _traced("shuffled", kind, steps, pool, f"control of {kind}, {steps} steps")


def _traced(world: str, kind: str, steps: int, pool: int, ref: str) -> dict[str, Result]:
    traces = (make_trace(WORLDS[world], kind=kind, steps=steps, sample=i, ref=ref) for i in range(pool))
    return analyse(traces, list(dict.fromkeys(name for truths in TRUTHS for name in CLAIMS[truths.claim].needs)))
