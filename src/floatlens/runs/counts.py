"""How much a plan comes to, how much of it is done, and how long the rest will take.

The time is told from the items on record, else by a rule: 2 × weights × tokens for a pass, at a third of the speed of
one matrix product measured here and now, plus a fixed cost per layer. The rule is meant to tell minutes from days and
is accurate to within about a factor of three.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING

import torch

from floatlens.records.condition import Condition, Edited, Patched, Stressed
from floatlens.runs.items import all_items

if TYPE_CHECKING:
    from floatlens.records.record import Record, What
    from floatlens.runs.folder import RunFolder
    from floatlens.runs.items import PlannedData
    from floatlens.runs.models import PlannedModel
    from floatlens.runs.plan import Plan

__all__ = ["Count", "Counts", "Forecast", "Row", "count", "forecast", "group_of"]

_CHARACTERS = 4.0
_TEMPLATE = 60
_EFFICIENCY = 0.33
_PER_LAYER = 0.4e-3
"""Seconds that a layer takes in a pass, however small it is, for a whole batch."""
_TRACED, _EDITED = 2.5, 3.0
"""Cost relative to decoding: of capture with its file, and of an edit, which decodes the first step twice."""
_START = 6.0
"""Seconds in which a worker loads its libraries, and about as many for each small model."""


@dataclass
class Count:
    """Items, and those of them that are done."""

    total: int = 0
    done: int = 0


@dataclass
class Row:
    """One line of the plan: a data set, what is done with it, how often for each model, and under which conditions."""

    data: str
    what: str
    traced: bool
    by_model: dict[str, Count] = field(default_factory=dict)
    conditions: dict[Condition, None] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return sum(one.total for one in self.by_model.values())

    @property
    def left(self) -> int:
        return sum(one.total - one.done for one in self.by_model.values())

    @property
    def edited(self) -> bool:
        return any(isinstance(one, Edited) for one in self.conditions)

    @property
    def patched(self) -> Patched | None:
        """How its questions are patched; None where it is another line."""
        return next((one for one in self.conditions if isinstance(one, Patched)), None)


@dataclass(frozen=True)
class Counts:
    """The whole plan."""

    rows: tuple[Row, ...]

    @property
    def total(self) -> int:
        return sum(row.total for row in self.rows)

    @property
    def left(self) -> int:
        return sum(row.left for row in self.rows)

    @property
    def done(self) -> int:
        return self.total - self.left


def group_of(what: What, condition: Condition) -> str:
    """The line of the plan that an item belongs to: "trace", patching, a stress test, or an edit with its control."""
    if what == "trace":
        return "trace"
    if isinstance(condition, Stressed):
        return condition.test
    return condition.edited.label if isinstance(condition, Edited) else condition.label


def count(plan: Plan, run: RunFolder | None = None) -> Counts:
    """Every item of the plan, counted; without a folder nothing is done."""
    rows: dict[tuple[str, str], Row] = {}
    for model in plan.models:
        for part in plan.data:
            for item in all_items(model, part):
                what = group_of(item.what, item.condition)
                row = rows.setdefault((item.data, what), Row(item.data, what, item.what == "trace"))
                row.conditions[item.condition] = None
                one = row.by_model.setdefault(model.ref, Count())
                one.total += 1
                one.done += run is not None and run.done(item.id)
    order = [part.data.name for part in plan.data]
    return Counts(tuple(sorted(rows.values(), key=lambda row: order.index(row.data))))


def _seconds_of(records: Iterable[Record]) -> dict[tuple[str, str], list[float]]:
    """Seconds of each item on record, by model and line of the plan."""
    found: dict[tuple[str, str], list[float]] = {}
    for record in records:
        if record.status == "done" and record.seconds is not None:
            found.setdefault((record.model, group_of(record.what, record.condition)), []).append(record.seconds)
    return found


# -- time ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Forecast:
    """Seconds of a run with so many workers; `basis` says where they come from. None: nothing is known."""

    seconds: float | None
    basis: str


def forecast(
    plan: Plan, counts: Counts, records: Iterable[Record], workers: int, threads: int, *, elsewhere: bool = False
) -> Forecast:
    """The time that is left. `elsewhere`: the work is done on other machines, about which the rule knows nothing."""
    known = {key: (sum(each) / len(each), len(each)) for key, each in _seconds_of(records).items()}
    measured = sum(n for _, n in known.values())
    if elsewhere and not known:
        return Forecast(None, "no estimate: the workers are on other machines, and nothing is on record yet")
    total, guessed = 0.0, 0
    parts = {part.data.name: part for part in plan.data}
    for row, model, left in _open(plan, counts):
        seen = known.get((model.ref, row.what)) or known.get((model.original, row.what))
        if seen is not None:
            total += left * seen[0]
            continue
        guessed += left
        total += left * _by_rule(model, parts[row.data], row, threads, plan.study.machine.batch)
    if not total:
        return Forecast(0.0, "nothing is left")
    if not guessed:
        return Forecast(total / workers + _START, f"from the {measured} items on record")
    start = _START + 2.0 * len(plan.models)
    some = f" and {measured} items on record" if measured else ""
    return Forecast(total / workers + start, f"by a rule of thumb{some}; accurate to within about 3 ×")


def _open(plan: Plan, counts: Counts) -> Iterator[tuple[Row, PlannedModel, int]]:
    for row in counts.rows:
        for model in plan.models:
            one = row.by_model.get(model.ref)
            if one is not None and one.total > one.done:
                yield row, model, one.total - one.done


def _by_rule(model: PlannedModel, part: PlannedData, row: Row, threads: int, batch: int) -> float:
    facts, settings = model.facts, model.ask.decoding.settings
    width = facts.width or 1024
    weights = facts.layers * 14 * width**2 + 2 * facts.vocabulary * width
    prompt, one_pass = _tokens(part, row)
    written = int(settings.get("gen_length", 32))
    if row.patched is not None:  # both prompts, then every layer with its control
        passes = 2 + facts.layers * (1 + row.patched.draws) * len(row.patched.what)
        tokens = passes * (prompt + (0 if facts.kind == "arm" else written))
    elif one_pass:
        passes, tokens = 1, prompt
    elif facts.kind == "arm":
        passes, tokens = 1 + written, prompt + written
    else:
        passes = int(settings.get("steps") or written)
        tokens = passes * (prompt + written)
        if facts.block_size is not None and settings.get("use_cache"):  # a pass over the block alone, and one to store
            tokens = prompt + written + passes * facts.block_size
    together = 1 if row.traced or row.patched else batch
    work = 2.0 * weights * tokens / (_EFFICIENCY * _speed(threads)) + passes * facts.layers * _PER_LAYER / together
    return work * (_TRACED if row.traced else _EDITED if row.edited else 1.0)


def _tokens(part: PlannedData, row: Row) -> tuple[int, bool]:
    """Tokens of a prompt, from the characters of the first questions; and whether it takes a single pass."""
    own = part.conditions if part.patch is None else (*part.conditions, part.patch)
    planned = {one.condition: one for one in (part.trace_conditions if row.traced else own)}
    one = planned[list(row.conditions)[-1]]
    lengths = []
    for example in islice((e for e in part.data.examples() if one.fits(e)), 3):
        made = one.make(example)
        shown = len(made.question) + len(made.passage or "")
        lengths.append(shown + sum(len(d.title) + len(d.text) for d in made.documents))
    tokens = _TEMPLATE + int(sum(lengths) / max(len(lengths), 1) / _CHARACTERS)
    return tokens, one.appended is not None


@cache
def _speed(threads: int) -> float:
    """Multiplications and additions a second in one matrix product, on the device that models would be loaded to."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    size, dtype = (4096, torch.bfloat16) if device == "cuda" else (512, torch.float32)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        one = torch.ones(size, size, device=device, dtype=dtype)
        seconds = min(_timed(one) for _ in range(4))
    finally:
        torch.set_num_threads(before)
    return 2.0 * float(size) ** 3 / seconds


def _timed(one: torch.Tensor) -> float:
    began = time.perf_counter()
    (one @ one).sum().item()
    return max(time.perf_counter() - began, 1e-6)
