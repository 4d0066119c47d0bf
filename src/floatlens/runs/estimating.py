"""How long a study will take, roughly: from what its folder has on record, else by a rule of thumb, and which it was.

The rule: 2 × weights × tokens for a pass, at a third of the speed of one matrix product measured here and now, plus
what every layer costs whatever its size. It is meant to tell minutes from days, and can be off by a factor of three.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING

import torch

from floatlens.runs.asking import Subject
from floatlens.runs.counting import Counts, Row, group_of

if TYPE_CHECKING:
    from floatlens.runs.plan import Part, Plan
    from floatlens.runs.records import StudyRecord

__all__ = ["Forecast", "forecast"]

_CHARACTERS = 4.0
_TEMPLATE = 60
_EFFICIENCY = 0.33
_PER_LAYER = 0.4e-3
"""Seconds that a layer takes in a pass however small it is, for a whole batch."""
_FACTORS = {"trace": 2.5, "edit": 3.0}
"""Capture costs, and its file; an edit decodes without capture and with it, and the first step once more."""
_START = 6.0
"""Seconds in which a worker loads its libraries; and about as many for each model of a CPU's size."""


@dataclass(frozen=True)
class Forecast:
    """Seconds of a run with so many workers; `basis` says where they come from. None: nothing is known."""

    seconds: float | None
    basis: str


def forecast(
    plan: Plan, counts: Counts, records: Iterable[StudyRecord], workers: int, threads: int, *, elsewhere: bool = False
) -> Forecast:
    """The time that is left. `elsewhere`: the work is done on other machines, about which a rule would know nothing."""
    known = _known(records)
    measured = sum(n for _, n in known.values())
    if elsewhere and not known:
        return Forecast(None, "no estimate: the workers are on other machines, and nothing is on record yet")
    total, guessed = 0.0, 0
    parts = {part.data.name: part for part in plan.parts}
    for row, subject, left in _open(plan, counts):
        seen = known.get((subject.ref, row.what))
        if seen is not None:
            total += left * seen[0]
            continue
        guessed += left
        total += left * _by_rule(subject, parts[row.data], row, threads, plan.study.machine.batch)
    if not total:
        return Forecast(0.0, "nothing is left")
    if not guessed:
        return Forecast(total / workers + _START, f"from the {measured} items on record")
    start = _START + 2.0 * len(plan.subjects)
    some = f" and {measured} items on record" if measured else ""
    return Forecast(total / workers + start, f"by a rule of thumb{some}; can be off by 3 ×")


def _open(plan: Plan, counts: Counts) -> Iterator[tuple[Row, Subject, int]]:
    for row in counts.rows:
        for subject in plan.subjects:
            one = row.by_model.get(subject.ref)
            if one is not None and one.total > one.done:
                yield row, subject, one.total - one.done


def _known(records: Iterable[StudyRecord]) -> dict[tuple[str, str], tuple[float, int]]:
    """Mean seconds of an item and how many there were, by model and line of the plan."""
    found: dict[tuple[str, str], list[float]] = {}
    for record in records:
        if record.status == "done" and record.seconds is not None:
            what = group_of(record.condition)
            found.setdefault((record.model, what), []).append(record.seconds)
    return {key: (sum(each) / len(each), len(each)) for key, each in found.items()}


def _by_rule(subject: Subject, part: Part, row: Row, threads: int, batch: int) -> float:
    facts, settings = subject.facts, subject.config.decoding.settings
    width = facts.width or 1024
    weights = facts.layers * 14 * width**2 + 2 * facts.vocabulary * width
    prompt = _tokens(part, row, subject)
    written = int(settings.get("gen_length", 32))
    if row.what == "masks":
        passes, tokens = 1, prompt
    elif facts.kind == "arm":
        passes, tokens = 1 + written, prompt + written
    else:
        passes = int(settings.get("steps") or written)
        tokens = passes * (prompt + written)
    together = 1 if row.what == "trace" else batch
    work = 2.0 * weights * tokens / (_EFFICIENCY * _speed(threads)) + passes * facts.layers * _PER_LAYER / together
    kind = "trace" if row.what == "trace" else "edit" if " " in row.what else ""
    return work * _FACTORS.get(kind, 1.0)


def _tokens(part: Part, row: Row, subject: Subject) -> int:
    """Tokens of a prompt, from the characters of the first few questions."""
    ways = {way.name: way for way in part.ways} if row.what == "trace" else {}
    conditions = {one.name: one for one in part.asked(part.data, subject)}
    lengths = []
    for name in list(row.names)[-1:]:
        way = ways.get(name) or conditions.get(name) or conditions.get("rag")
        for example in islice((e for e in part.data.examples() if way is None or way.fits(e)), 3):
            made = example if way is None else way.make(example)
            shown = len(made.question) + len(made.passage or "")
            lengths.append(shown + sum(len(d.title) + len(d.text) for d in made.documents))
    return _TEMPLATE + int(sum(lengths) / max(len(lengths), 1) / _CHARACTERS)


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
