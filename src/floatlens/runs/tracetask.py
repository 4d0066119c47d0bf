"""A trace as a task: whoever performs it gives the file's bytes back, and the process that writes puts them in place.

A worker may be on another machine, so it never writes into the run itself. Running out of memory halves the blocks that
attention is worked out in, and the record says so.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from floatlens.attention.memory_budget import MemoryBudget, retry_with_smaller_blocks
from floatlens.attention.select import Select
from floatlens.core.errors import FloatlensError, FloatlensWarning
from floatlens.core.files import write_atomically
from floatlens.runs.asking import Subject
from floatlens.runs.records import StudyRecord
from floatlens.runs.tracing import described
from floatlens.traces.config import CaptureConfig
from floatlens.traces.store import SUFFIX
from floatlens.traces.tracing import trace

if TYPE_CHECKING:
    from floatlens.attention.softmax import Workspace
    from floatlens.data import Example
    from floatlens.data.examples import Target
    from floatlens.models import LanguageModel
    from floatlens.runs.workers import Holder
    from floatlens.traces import Trace

__all__ = ["Forced", "TraceItem", "TraceTask", "TraceWay", "Traced", "place"]


@dataclass(frozen=True)
class TraceWay:
    """A way to put a question that is traced; `make` and `fits` as those of a `Condition`."""

    name: str
    make: Callable[[Example], Example]
    fits: Callable[[Example], bool] = lambda example: True


@dataclass(frozen=True)
class TraceItem:
    """One question to one model, traced. `file` is where it will be, relative to the run."""

    name: str
    index: int
    data: str
    condition: str
    file: str
    example: Example


@dataclass(frozen=True)
class Traced:
    """What came of it: the record, and the content of its file where there is one."""

    record: StudyRecord
    content: bytes | None = None


@dataclass(frozen=True)
class Forced:
    """How a text is forced: where it comes from (None: a passage is its own), settings that leave its length open."""

    target: Target | None
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class TraceTask:
    """What a worker gets."""

    subject: Subject
    capture: CaptureConfig
    item: TraceItem
    forced: Forced | None = None

    def perform(self, holder: Holder) -> Traced:
        model = holder.get(self.subject.model)
        began = time.perf_counter()
        said: list[str] = []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", FloatlensWarning)
            try:
                found = self._trace(model, holder.room, said)
            except FloatlensError as error:
                return self.failed(str(error))
        said += [str(one.message) for one in caught if issubclass(one.category, FloatlensWarning)]
        content = _packed(found)
        record = self._record("done", warnings=tuple(said), file=self.item.file, **described(found))
        seconds = round(time.perf_counter() - began, 3)
        return Traced(record.model_copy(update={"seconds": seconds}), content)

    def failed(self, error: str) -> Traced:
        return Traced(self._record("failed", error=error))

    def _record(self, status: str, **more: Any) -> StudyRecord:
        item = self.item
        return StudyRecord.model_validate(
            {
                "what": "trace",
                "item": item.name,
                "index": item.index,
                "id": item.example.id,
                "status": status,
                "model": self.subject.ref,
                "data": item.data,
                "condition": item.condition,
                "question": item.example.question or None,
                **more,
            }
        )

    def _trace(self, model: LanguageModel, room: MemoryBudget, said: list[str]) -> Trace:
        """The trace, in blocks that fit; `said` gets a line each time that they had to become smaller."""
        advice = "try traces.heads: mean, fewer layers or probes, fewer documents"
        attempt = partial(self._attempt, model)
        return retry_with_smaller_blocks(room, attempt, said, f"out of memory on {model.device}; {advice}")

    def _attempt(self, model: LanguageModel, workspace: Workspace) -> Trace:
        config, example, forced = self.subject.config, self.item.example, self.forced
        return trace(
            model,
            **example.to_trace(None if forced is None else forced.target),
            probes=self.capture.probes,
            select=Select(layers=self.capture.layers),
            heads=self.capture.heads,
            template=config.prompt.template,
            chat=config.prompt.chat,
            sampler=config.decoding.sampler,
            workspace=workspace,
            data=self.item.data,
            **(config.decoding.settings if forced is None else forced.settings),
        )


def _packed(found: Trace) -> bytes:
    with tempfile.TemporaryDirectory(prefix="floatlens-") as folder:
        return found.save(Path(folder) / f"trace{SUFFIX}").read_bytes()


def place(traced: Traced, run: Path) -> None:
    """Put the file of a trace where its record says: written beside, then renamed."""
    if traced.content is None or traced.record.file is None:
        return
    target = run / traced.record.file
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, traced.content)
