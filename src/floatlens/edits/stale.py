"""`Stale`: keys and values of earlier steps are used again, as from a cache (methods §16).

Every pass still computes all rows, so nothing is faster here: the edit shows what a server would read, and counts what
it would save. Queries, masks and tokens are those of the current step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from floatlens.attention.edit import Edit
from floatlens.attention.probe import Layer, Shape
from floatlens.attention.run_tracker import DecodingRun, PassPosition
from floatlens.attention.select import Select
from floatlens.attention.setting import ControlKind, Setting, read_number, read_whole, read_word
from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.edits.cache_savings import CacheSavings, costs_of
from floatlens.edits.refresh_rules import Elastic, ElasticRandom, Intervals, RefreshRule
from floatlens.edits.row_edit import position_of
from floatlens.edits.rules import check_seed
from floatlens.edits.schedule import intervals_of, read_schedule, written
from floatlens.models.base import LanguageModel
from floatlens.models.facts import Facts

__all__ = ["Stale", "StaleTokens"]

StaleTokens = Literal["known", "prompt", "all"]
_WAYS = ("refresh", "schedule", "least", "rule")
_THRESHOLD, _WINDOW = 0.9, 16
"""Of the rule "elastic", as published."""


@dataclass(frozen=True)
class _Held:
    """What a layer's cache holds: (batch, kv head, key, dim)."""

    key: Tensor
    value: Tensor


class Stale(Edit):
    """`Stale(refresh=4)`: keys and values are computed in every fourth step and kept for the three after it.

    Instead of `refresh`, give `schedule`, intervals by layer (`{0: 8, 1: 8, 2: 2}`, or "0-1/8+2/2"), or
    `rule="elastic"`, which refreshes where attention has drifted, with its `threshold` and `window`; see
    `refresh_rules.Elastic`. By name, `least` takes the schedule from traces of the same model.

    `tokens` names the positions whose keys and values may be kept: "known" (what was no mask in the step that computed
    them), "prompt", or "all"; by default "known", with the rule "elastic" "all". `select=Select(layers=…)` limits the
    edit to layers. For diffusion models without a key/value cache; the keys of an autoregressive model never change.

    Example: `with fl.edit(model, fl.edits.Stale(refresh=2)): fl.decode(model, ids, gen_length=16)`
    """

    title = "Stale keys and values"
    about = "keys and values of earlier steps are used again"
    settings = (
        Setting(
            "refresh", read_whole, 2, instead=("schedule", "least", "rule"), about="steps from one refresh to the next"
        ),
        Setting("schedule", read_schedule, about="the same by layer, such as 0-3/8+4-7/2"),
        Setting("least", read_number, about="schedule from traces: keys keep at least this cosine"),
        Setting("rule", read_word, about="elastic: refresh where attention has drifted"),
        Setting("threshold", read_number, about="of rule elastic: refresh below this cosine, 0.9"),
        Setting("window", read_whole, about="of rule elastic: masks computed in every step, 16"),
        Setting("tokens", read_word, about="kept positions: known, prompt or all"),
    )
    controls: tuple[ControlKind, ...] = ("count",)
    earliest_step = 1

    def __init__(
        self,
        refresh: int | None = None,
        *,
        schedule: Mapping[int, int] | str | None = None,
        least: float | None = None,
        rule: str | None = None,
        threshold: float | None = None,
        window: int | None = None,
        tokens: StaleTokens | None = None,
        select: Select | None = None,
        seed: int | None = None,
    ) -> None:
        given = {"refresh": refresh, "schedule": schedule, "least": least, "rule": rule}
        given = {name: value for name, value in given.items() if value is not None}
        _check(given, threshold, window, tokens)
        self.refresh = 2 if not given else refresh
        self.schedule = None if schedule is None else _intervals(schedule)
        self.least, self.rule = least, rule
        self.threshold = None if rule is None else _THRESHOLD if threshold is None else float(threshold)
        self.window = None if rule is None else _WINDOW if window is None else window
        self.tokens: StaleTokens = ("known" if rule is None else "all") if tokens is None else tokens
        self.needs = frozenset() if least is None else frozenset({"refresh schedule"})
        self.select = select if select is not None else Select()
        self.seed = None if seed is None else check_seed(self, seed)
        self._rule: RefreshRule = Intervals({})
        self._held: dict[int, _Held] = {}
        self._run: DecodingRun | None = None
        self._pass: PassPosition | None = None
        self._savings = CacheSavings()
        self._within = self.select
        self._steps = 0

    def __repr__(self) -> str:
        given = {name: getattr(self, name) for name in (*_WAYS, "threshold", "window", "tokens", "seed")}
        given |= {"schedule": None if self.schedule is None else written(self.schedule)}
        given |= {f"select.{name}": value for name, value in vars(self.select).items()}
        return f"Stale({', '.join(f'{name}={value!r}' for name, value in given.items() if value is not None)})"

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        made = super().from_settings(settings)
        if made.refresh is not None and made.select.layers is None:
            made.controls = ()  # random layers would be the same: all
        return made

    @property
    def active(self) -> bool:
        if self.schedule is not None:
            return max(self.schedule.values()) > 1
        return self.refresh != 1

    def control(self, seed: int = 0, kind: ControlKind = "count") -> Stale:
        """The same intervals in random layers, as many of each; with the rule "elastic", as many refreshes in later
        steps and random layers."""
        if self.seed is not None:
            raise FloatlensError("this Stale is itself a control")
        return Stale(
            self.refresh,
            schedule=self.schedule,
            least=self.least,
            rule=self.rule,
            threshold=self.threshold,
            window=self.window,
            tokens=self.tokens,
            select=self.select,
            seed=seed,
        )

    def check(self, facts: Facts) -> None:
        super().check(facts)
        if self.schedule is not None:
            Select(layers=list(self.schedule)).layer_ids(facts.layers)
        if self.least is not None and facts.kind == "arm":
            raise FloatlensError(
                f"{facts.ref} is autoregressive, so its key/value cache is exact and needs no refresh; "
                "give diffusion models"
            )

    def prepare(self, model: LanguageModel, shape: Shape) -> None:
        super().prepare(model, shape)
        if self.least is not None:
            raise FloatlensError(
                f"{self!r}: no traces say how the keys of {model.ref} turn; give schedule=…, "
                "such as that of floatlens cache"
            )
        if self.schedule is not None:
            Select(layers=list(self.schedule)).layer_ids(shape.layers)
        self._rule = self._chosen(shape.layers)
        self._savings = CacheSavings(shape.layers, costs_of(model))
        self._steps = shape.steps
        self._held.clear()
        self._run = self._pass = None

    def _chosen(self, layers: int) -> RefreshRule:
        """The rule for a model with so many layers; controls draw theirs."""
        chosen = self._within.layer_ids(layers)  # controls draw anew, and the same, when they are used again
        if self.rule is not None:
            assert self.threshold is not None
            assert self.window is not None
            if self.seed is None:
                return Elastic(self.threshold, self.window, chosen)
            return ElasticRandom(self.threshold, self.window, chosen, self.seed)
        steps = self.schedule or dict.fromkeys(range(layers), self.refresh or 1)
        steps = {layer: n for layer, n in steps.items() if layer in chosen and n > 1}
        if self.seed is not None:
            order = np.random.default_rng([self.seed, len(steps)]).permutation(layers)
            steps = {int(layer): n for layer, n in zip(order, steps.values(), strict=False)}
            self.select = replace(self.select, layers=sorted(steps))
        return Intervals(steps)

    @property
    def intervals(self) -> dict[int, int]:
        """Steps from one refresh to the next by layer, once the edit is in use; nothing with the rule "elastic"."""
        return dict(self._rule.steps) if isinstance(self._rule, Intervals) else {}

    def refreshes(self) -> str | None:
        return written(self.intervals) if self.intervals else None

    def numbers(self) -> dict[str, float]:
        """ "saved": the share of a pass's multiplications that a server would not do, mean over all steps; "refreshed":
        the share of layers that are computed as a whole, over the steps after the first; see `ElasticRandom`."""
        return self._savings.numbers() | self._rule.numbers()

    def saved_shares(self) -> list[float]:
        return self._savings.of_samples()

    def saved_passes(self) -> list[float]:
        return self._savings.passes_of_samples()

    def takes_part(self, layer: Layer, max_steps: int) -> bool:
        return True  # a step that is not edited may still be the one whose keys are kept

    def begin_layer(self, layer: Layer) -> None:
        position = position_of(layer)
        if layer.state.offset or layer.state.keep:
            raise FloatlensError(f"{self!r}: it stands for a cache, so decode without one: use_cache=False")
        if position.run is not self._run:
            self._run = position.run
            self._held.clear()
            self._rule.start()
            self._savings.start()
        if position is not self._pass:
            self._pass = position
            masked = layer.state.masked
            writing = np.asarray(masked.any(1) | layer.state.causal)
            self._savings.begin(position.real, self._rule.needed(masked), writing)
        due = layer.index not in self._held or not self.select.has_step(position.step, self._steps)
        fresh = self._rule.fresh(layer, self._keepable(layer), due)
        self._savings.take(layer.index, fresh)
        self._rule.watch(layer, self._read(layer, fresh))

    def _read(self, layer: Layer, fresh: NDArray[np.bool_]) -> Tensor | None:
        """Put what the cache holds into the positions that are not computed, and keep what the layer now has; gives the
        keys of the pass before."""
        held = self._held.get(layer.index)
        if held is not None:
            known = held.key.shape[2]
            stale = torch.from_numpy(~fresh[:, None, :known, None]).to(layer.key.device)
            layer.key[:, :, :known] = torch.where(stale, held.key, layer.key[:, :, :known])
            layer.value[:, :, :known] = torch.where(stale, held.value, layer.value[:, :, :known])
        self._held[layer.index] = _Held(layer.key.clone(), layer.value.clone())
        return None if held is None else held.key

    def _keepable(self, layer: Layer) -> NDArray[np.bool_]:
        """(batch, key): the positions that may be kept."""
        position = position_of(layer)
        if position.run.written is None or self.tokens == "all":
            return position.real.copy()
        if self.tokens == "known":
            return position.real & ~layer.state.masked
        written = np.ones_like(position.real)
        width = min(written.shape[1], position.run.written.shape[1])
        written[:, :width] = position.run.written[:, :width]
        return position.real & ~written


def _check(given: Mapping[str, Any], threshold: Any, window: Any, tokens: Any) -> None:
    """Refuse settings that do not fit; `given` are those that say when keys are computed again."""
    if len(given) > 1:
        raise FloatlensError(f"Stale: {' and '.join(given)} all say when keys are computed again; give one of them")
    refresh, least, rule = (given.get(name) for name in ("refresh", "least", "rule"))
    if refresh is not None and not _whole(refresh):
        raise FloatlensError(f"Stale(refresh={refresh!r}): give a number of steps, a whole number from 1")
    if least is not None and not 0 < least <= 1:
        raise FloatlensError(f"Stale(least={least!r}): give a cosine above 0, at most 1")
    if rule is not None and rule != "elastic":
        raise FloatlensError(f'Stale(rule="{rule}"){did_you_mean(str(rule), ["elastic"])}')
    for name, value in (("threshold", threshold), ("window", window)):
        if value is not None and rule is None:
            raise FloatlensError(f"Stale({name}={value!r}): this is a setting of rule=elastic; give that too")
    if threshold is not None and not 0 < threshold <= 1:
        raise FloatlensError(f"Stale(threshold={threshold!r}): give a cosine above 0, at most 1")
    if window is not None and not _whole(window):
        raise FloatlensError(f"Stale(window={window!r}): give a number of masks, a whole number from 1")
    if tokens is not None and tokens not in get_args(StaleTokens):
        raise FloatlensError(f'Stale(tokens="{tokens}"){did_you_mean(str(tokens), get_args(StaleTokens))}')


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _intervals(schedule: Mapping[int, int] | str) -> dict[int, int]:
    if isinstance(schedule, str):
        try:
            return intervals_of(schedule)
        except FloatlensError as error:
            raise FloatlensError(f"Stale: schedule {error}") from None
    if not schedule or not all(_whole(steps) and _whole(layer + 1) for layer, steps in schedule.items()):
        raise FloatlensError(f"Stale(schedule={schedule!r}): give whole numbers of steps from 1, by layer")
    return dict(schedule)
