"""What a worker is given: questions to answer or to trace, or one to patch.

A worker may be on another machine, so it writes nothing into the run folder: it gives back records, and the content of
trace files, which the process that writes puts in place.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from floatlens.attention.memory_budget import MemoryBudget, retry_with_smaller_blocks
from floatlens.attention.select import Select
from floatlens.core.errors import FloatlensError, FloatlensWarning
from floatlens.evaluation.answers import Answer, Asked, ask
from floatlens.evaluation.counterfactuals import prompt_pair
from floatlens.evaluation.metrics import gives_former
from floatlens.evaluation.patching import PATCHED, PatchedPair, patch_pair
from floatlens.records.condition import Patched
from floatlens.records.record import PatchEffects, Record, Snapshot, What
from floatlens.runs.models import PlannedModel
from floatlens.traces.batches import ready_from, trace_ready
from floatlens.traces.store import SUFFIX
from floatlens.traces.tracing import Capture, Ready, trace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from floatlens.attention.softmax import Workspace
    from floatlens.data import Example
    from floatlens.data.examples import Target
    from floatlens.models import LanguageModel
    from floatlens.records.condition import Condition, PatchedKeys
    from floatlens.runs.items import Item
    from floatlens.runs.workers import Holder
    from floatlens.traces import Trace

__all__ = ["AnswerTask", "PatchTask", "Question", "RefusedTask", "TraceBatch", "TraceTask", "Traced", "described"]


@dataclass(frozen=True)
class Question:
    """An item as a worker needs it: what it is, and how it is put."""

    id: str
    data: str
    condition: Condition
    index: int
    asked: Asked
    measured: bool = False

    @staticmethod
    def of(item: Item, asked: Asked) -> Question:
        return Question(item.id, item.data, item.condition, item.index, asked, item.measured)

    def record(self, what: What, model: PlannedModel, **outcome: Any) -> Record:
        """What became of it with a model."""
        mine = {"data": self.data, "condition": self.condition, "id": self.asked.example.id, "index": self.index}
        return Record.model_validate(
            {"what": what, "model": model.ref, "course": model.facts.course, **mine, **outcome}
        )


@dataclass(frozen=True)
class AnswerTask:
    """A batch of questions to one model; gives their records."""

    model: PlannedModel
    questions: tuple[Question, ...]

    def perform(self, holder: Holder) -> list[Record]:
        model = holder.get(self.model.config)
        answers = ask(model, [one.asked for one in self.questions], self.model.ask, holder.budget)
        pairs = zip(self.questions, answers, strict=True)
        return [self._measured(model, holder.budget, one, self._record(one, answer)) for one, answer in pairs]

    def halves(self) -> list[AnswerTask]:
        """Two tasks instead of one; nothing for a single question."""
        middle = len(self.questions) // 2
        parts = (self.questions[:middle], self.questions[middle:])
        return [AnswerTask(self.model, part) for part in parts] if middle else []

    def failed(self, error: str) -> list[Record]:
        return [self._record(one, Answer("failed", error=error)) for one in self.questions]

    def _measured(self, model: LanguageModel, budget: MemoryBudget, question: Question, record: Record) -> Record:
        """The record with what a trace of the same question shows; the answer is kept where that fails."""
        if not question.measured or record.status == "failed":
            return record
        from floatlens.runs.measurement import measure

        try:
            found = measure(model, question.asked, self.model.ask, budget)
        except FloatlensError as error:
            return record.model_copy(update={"warnings": (*record.warnings, f"not measured: {error}")})
        more = {"measured": found.values, "moved": found.moved, "warnings": (*record.warnings, *found.said)}
        return record.model_copy(update=more)

    def _record(self, question: Question, answer: Answer) -> Record:
        example = question.asked.example
        found = example.meta.get("retrieval", {}).get("found") if example.documents else None
        retrieved = None if found is None else tuple((str(one["id"]), float(one["score"])) for one in found)
        outcome = asdict(answer) | {"retrieved": retrieved, "snapshot": self._snapshot(example, answer.prediction)}
        return question.record("answer", self.model, **(outcome.pop("scores") or {}), **outcome)

    def _snapshot(self, example: Example, prediction: str | None) -> Snapshot | None:
        """What the answer rests on, for a question about a changing collection."""
        if "snapshot" not in example.meta:
            return None
        one = Snapshot.model_validate(example.meta["snapshot"])
        if prediction is None:
            return one
        how: dict[str, Any] = {"kind": example.answer_kind, "first_line": self.model.ask.first_line}
        stale, used = (gives_former(prediction, former, one.current, **how) for former in (one.earlier, one.withdrawn))
        return one.model_copy(update={"stale": stale, "used_withdrawn": used})


@dataclass(frozen=True)
class RefusedTask:
    """A task that is known to be impossible before a worker sees it."""

    task: AnswerTask
    why: str

    def perform(self, holder: Holder) -> list[Record]:
        return self.failed(self.why)

    def failed(self, error: str) -> list[Record]:
        return self.task.failed(error)


# -- activation patching ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PatchTask:
    """One question to patch, with `answer` in place of its own in the counterfactual prompt; gives its record."""

    model: PlannedModel
    question: Question
    answer: str

    def perform(self, holder: Holder) -> list[Record]:
        model = holder.get(self.model.config)
        began = time.perf_counter()
        said: list[str] = []
        failure = f"out of memory on {model.device}; show fewer documents or write less"
        try:
            found = retry_with_smaller_blocks(holder.budget, partial(self._attempt, model), said, failure)
        except FloatlensError as error:
            return self.failed(str(error))
        seconds = round(time.perf_counter() - began, 3)
        return [self._record("done", patched=found, warnings=tuple(said), seconds=seconds)]

    def failed(self, error: str) -> list[Record]:
        return [self._record("failed", error=error)]

    def _record(self, status: str, **more: Any) -> Record:
        return self.question.record("patch", self.model, status=status, **more)

    def _attempt(self, model: LanguageModel, workspace: Workspace) -> PatchEffects:
        ask, how = self.model.ask, self.question.condition
        assert isinstance(how, Patched)
        pair = prompt_pair(model.tokenizer, self.question.asked.example, self.answer, ask.prompt)
        settings: dict[str, Any] = {"sampler": ask.decoding.sampler, **ask.decoding.settings}
        return _effects(patch_pair(model, pair, how, self.question.index, workspace=workspace, **settings), self.answer)


def _effects(found: PatchedPair, answer: str) -> PatchEffects:
    """As it is recorded; nothing is kept of an effect that is not defined."""

    def by_layer(values: NDArray[np.float64]) -> dict[PatchedKeys, tuple[float, ...]]:
        return {name: tuple(row.round(6).tolist()) for name, row in zip(PATCHED, values, strict=True)}

    effect = {what: by_layer(found.effect(what)) for what in found.difference} if found.defined else None
    return PatchEffects(
        answer=answer,
        tokens=found.tokens,
        original=round(found.original, 6),
        counterfactual=round(found.counterfactual, 6),
        layers=found.layers,
        effect=effect,
        mass=by_layer(found.mass),
        keys=by_layer(found.keys),
    )


# -- traces -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Traced:
    """The outcome of a trace: its record, and the content of its file if it has one."""

    record: Record
    content: bytes | None = None


@dataclass(frozen=True)
class TraceTask:
    """One question to trace. `forced`: its text is forced, from `target` (None: a passage is its own)."""

    model: PlannedModel
    question: Question
    file: str
    forced: bool = False
    target: Target | None = None

    @property
    def example(self) -> Example:
        return self.question.asked.example

    def perform(self, holder: Holder) -> Traced:
        model = holder.get(self.model.config, self.model.shuffled)
        began = time.perf_counter()
        said: list[str] = []
        try:
            with _heard(said):
                found = self._trace(model, holder.budget, said)
        except FloatlensError as error:
            return self.failed(str(error))
        return self.traced(found, said, time.perf_counter() - began)

    def traced(self, found: Trace, said: Sequence[str], seconds: float) -> Traced:
        """The outcome of a trace that succeeded."""
        more = {"warnings": tuple(said), "file": self.file, "seconds": round(seconds, 3)}
        return Traced(self._record("done", **more, **described(found)), _packed(found))

    def failed(self, error: str) -> Traced:
        return Traced(self._record("failed", error=error))

    def _record(self, status: str, **more: Any) -> Record:
        asked = self.example.question or None
        return self.question.record("trace", self.model, status=status, question=asked, **more)

    def _trace(self, model: LanguageModel, budget: MemoryBudget, said: list[str]) -> Trace:
        """The trace, in blocks that fit into memory; `said` gets a line each time that they are halved."""

        def attempt(workspace: Workspace) -> Trace:
            return trace(self.model.named(model), **self.decoded(), **self.recorded(workspace))

        return retry_with_smaller_blocks(budget, attempt, said, _too_large(model))

    def decoded(self) -> dict[str, Any]:
        """The arguments of `trace` that say what is decoded."""
        ask = self.model.ask
        return {
            **self.example.to_trace(self.target),
            "template": ask.prompt.template,
            "chat": ask.prompt.chat,
            "sampler": ask.decoding.sampler,
            **(self.model.forced if self.forced else ask.decoding.settings),
        }

    def recorded(self, workspace: Workspace) -> dict[str, Any]:
        """Those that say what is recorded, and how; alike for all questions of a model and a data set."""
        capture = self.model.capture
        return {
            "probes": capture.probes,
            "select": Select(layers=capture.layers),
            "heads": capture.heads,
            "backend": capture.backend,
            "workspace": workspace,
            "data_set": self.question.data,
        }


@dataclass(frozen=True)
class TraceBatch:
    """Questions of one model and data set that are traced together; each has the outcome that it would have alone, up
    to rounding."""

    tasks: tuple[TraceTask, ...]

    def perform(self, holder: Holder) -> list[Traced]:
        first = self.tasks[0]
        model = holder.get(first.model.config, first.model.shuffled)
        named, began = first.model.named(model), time.perf_counter()
        outcome: dict[int, Traced] = {}
        ready: dict[int, Ready] = {}
        said: list[list[str]] = [[] for _ in self.tasks]
        for number, task in enumerate(self.tasks):
            try:
                with _heard(said[number]):
                    ready[number] = ready_from(named, task.decoded())
            except FloatlensError as error:
                outcome[number] = task.failed(str(error))

        def attempt(workspace: Workspace) -> list[Trace]:
            return trace_ready(named, list(ready.values()), Capture(**first.recorded(workspace)), len(ready))

        shared: list[str] = []
        with _heard(shared):  # an error here divides the batch
            traces = retry_with_smaller_blocks(holder.budget, attempt, shared, _too_large(model))
        seconds = (time.perf_counter() - began) / len(self.tasks)
        for number, found in zip(ready, traces, strict=True):
            outcome[number] = self.tasks[number].traced(found, [*said[number], *shared], seconds)
        return [outcome[number] for number in range(len(self.tasks))]

    def halves(self) -> list[TraceBatch]:
        """Two batches instead of one; nothing for a single question."""
        middle = len(self.tasks) // 2
        return [TraceBatch(part) for part in (self.tasks[:middle], self.tasks[middle:])] if middle else []

    def failed(self, error: str) -> list[Traced]:
        return [task.failed(error) for task in self.tasks]


@contextmanager
def _heard(said: list[str]) -> Iterator[None]:
    """Warnings of floatlens inside the block become lines."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FloatlensWarning)
        try:
            yield
        finally:
            said += [str(one.message) for one in caught if issubclass(one.category, FloatlensWarning)]


def _too_large(model: LanguageModel) -> str:
    return f"out of memory on {model.device}; try heads: mean, fewer layers or probes, or fewer documents"


def _packed(found: Trace) -> bytes:
    with tempfile.TemporaryDirectory(prefix="floatlens-") as folder:
        return found.save(Path(folder) / f"trace{SUFFIX}").read_bytes()


def described(found: Trace) -> dict[str, Any]:
    """What a record says of a trace."""
    decoding, prompt = found.data.attrs["decoding"], found.data.attrs["prompt"]
    return {
        "answer": found.answer,
        "gold": prompt["gold"],
        "evidence_kind": prompt["evidence_kind"],
        "dropped_documents": prompt["dropped_documents"],
        "steps": int(found.data.sizes["step"]),
        "forward_passes": decoding["forward_passes"],
        **({"forced": True, "log_likelihood": found.log_likelihood} if found.forced else {}),
    }
