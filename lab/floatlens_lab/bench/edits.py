"""What an edit costs on top of capture: the same decode with it and without it, in one process, taking turns.

Both models are those of the capture benchmark, masked diffusion and autoregressive with a cache. Edits are measured at
what is asked of them in docs/edits.md, not at their cheapest: on every layer and head unless they choose some.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from floatlens.attention.edit import Edit
from floatlens.core.errors import FloatlensError
from floatlens.edits import (
    AblateHeads,
    DropAnchors,
    DropRandom,
    FreezeLayers,
    PinAnchors,
    SinkToken,
    SwapAnchors,
)
from floatlens.models.base import Kind
from floatlens.traces.tracing import DEFAULT_PROBES
from floatlens_lab.bench.subject import LAYERS, captured, make_model, make_prompt

__all__ = ["EDITS", "EditPlan", "EditsMeasured", "run_edits"]

_ABLATED = [(layer, head) for layer in range(LAYERS) for head in (1, 5)]
_FROZEN = range(LAYERS // 2)


def _structural(ids: list[int]) -> list[bool]:
    """Every fourth token of the vocabulary; ids are random, so about a quarter of the keys are structural."""
    return [i % 4 == 0 for i in ids]


EDITS: dict[str, Callable[[], Edit]] = {
    "drop_anchors k=1": lambda: DropAnchors(1),
    "drop_anchors k=5": lambda: DropAnchors(5),
    "drop_anchors k=10": lambda: DropAnchors(10),
    "drop control k=5": lambda: DropRandom(5),
    "pin_anchors to=step0": lambda: PinAnchors("step0"),
    "pin_anchors to=bos": lambda: PinAnchors("bos"),
    "swap_anchors like=step0": lambda: SwapAnchors("step0"),
    "sink_token token": lambda: SinkToken(1),
    "sink_token logit=2": lambda: SinkToken(logit=2.0),
    "ablate_heads zero": lambda: AblateHeads(_ABLATED),
    "ablate_heads mean": lambda: AblateHeads(_ABLATED, mode="mean"),
    "ablate_heads uniform": lambda: AblateHeads(_ABLATED, mode="uniform"),
    "freeze_layers": lambda: FreezeLayers(_FROZEN, _structural),
}
"""Each is made again for every decode, so no state is carried over."""


@dataclass(frozen=True)
class EditPlan:
    """What to measure. Steps shrink with length, so all of it takes minutes; see `passes`."""

    lengths: tuple[int, ...] = (512, 1024, 2048)
    rounds: int = 2
    threads: int | None = None
    kinds: tuple[Kind, ...] = ("mdm", "arm")
    names: tuple[str, ...] = tuple(EDITS)
    most_passes: int = 32
    clock: Callable[[], float] = time.perf_counter

    def __post_init__(self) -> None:
        if self.rounds < 1 or any(length < 64 for length in self.lengths):
            raise FloatlensError("bench: lengths start at 64 and rounds at 1")

    def passes(self, kind: Kind, length: int) -> int:
        """Diffusion passes are all of one size: a few will do, 4 at 512. Tokens are cheap after the prompt: 32."""
        return min(self.most_passes, max(2, (2048 if kind == "mdm" else 16384) // length))


@dataclass
class EditsMeasured:
    """One model at one length: seconds of each variant in each round, in its first pass and in all later ones.

    The capture without an edit is the variant `captured`.
    """

    kind: Kind
    length: int
    passes: int
    first: dict[str, list[float]] = field(default_factory=dict)
    later: dict[str, list[float]] = field(default_factory=dict)

    def seconds(self, variant: str) -> list[float]:
        """What a ratio is taken of: the whole decode, but of a diffusion model without its first pass.

        Edits that go by the step before leave that pass alone; it is one of many, and here it would be one of few.
        """
        first, later = self.first[variant], self.later[variant]
        return later if self.kind == "mdm" else [a + b for a, b in zip(first, later, strict=True)]

    def ratio(self, variant: str) -> tuple[float, float, float]:
        """Median, smallest and largest over rounds of edited ÷ captured, of the same round."""
        pairs = [a / b for a, b in zip(self.seconds(variant), self.seconds("captured"), strict=True)]
        return statistics.median(pairs), min(pairs), max(pairs)

    def per_token(self, variant: str) -> float:
        """The same ratio without the first pass: what a token costs once the prompt is in the cache. The median."""
        return statistics.median(a / b for a, b in zip(self.later[variant], self.later["captured"], strict=True))


def run_edits(plan: EditPlan, say: Callable[[str], None] = lambda _: None) -> list[EditsMeasured]:
    """Measure every model and length of the plan; `say` gets a line of progress now and then."""
    if plan.threads is not None:
        torch.set_num_threads(plan.threads)
    return [_measure(plan, kind, length, say) for kind in plan.kinds for length in plan.lengths]


def _measure(plan: EditPlan, kind: Kind, length: int, say: Callable[[str], None]) -> EditsMeasured:
    model, prompt = make_model(length, kind), make_prompt(length)
    found = EditsMeasured(kind, length, plan.passes(kind, length))
    makers: dict[str, Callable[[], Edit] | None] = {"captured": None, **{name: EDITS[name] for name in plan.names}}
    small = make_prompt(64)
    for make in makers.values():  # two passes each over a short prompt, so first calls are not measured
        captured(model, small, 2, [make()] if make else [], DEFAULT_PROBES)
    found.first, found.later = {name: [] for name in makers}, {name: [] for name in makers}
    for number in range(plan.rounds):
        for name, make in makers.items():
            edits = [make()] if make else []
            _, took = captured(model, prompt, found.passes, edits, DEFAULT_PROBES, plan.clock)
            found.first[name].append(took[0])
            found.later[name].append(sum(took[1:]))
        worst = max(plan.names, key=lambda name: found.ratio(name)[0], default="captured")
        say(
            f"{kind}, T = {length}: round {number + 1} of {plan.rounds}, the slowest is {worst}: "
            f"{found.ratio(worst)[0]:.2f} × captured"
        )
    return found
