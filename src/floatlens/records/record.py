"""A record: what became of one item of a run. What the item was is structured; nothing is read out of its name."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from floatlens.models.course import Course
from floatlens.prompts import EvidenceKind
from floatlens.records.condition import Condition, PatchedKeys, PatchedStates

__all__ = ["PatchEffects", "Record", "Snapshot", "What", "item_of"]

What = Literal["answer", "trace", "patch"]


def item_of(what: What, model: str, data: str, condition: Condition, id: str) -> str:
    """The identity of an item within a run: a digest of what it is.

    Example: `item_of("answer", "scale:llada", "scale:rag", RAG, "rag-0")`
    """
    parts = [what, model, data, condition.model_dump(mode="json"), id]
    return hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode()).hexdigest()[:20]


class PatchEffects(BaseModel):
    """What activation patching did to one question. Lists are by layer, those of the control means over its draws."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    answer: str
    """Takes the place of the question's own answer in the counterfactual prompt."""
    tokens: tuple[int, int]
    """First token of the answers that the model gives to both prompts."""
    original: float
    """Logit of the first of these tokens minus that of the second."""
    counterfactual: float
    """The same for the counterfactual prompt."""
    layers: tuple[int, ...]
    effect: dict[PatchedStates, dict[PatchedKeys, tuple[float, ...]]] | None = None
    """Share of the way from the original to the counterfactual difference; None: both answers begin alike."""
    mass: dict[PatchedKeys, tuple[float, ...]]
    """Attention that the patched keys receive."""
    keys: dict[PatchedKeys, tuple[float, ...]]
    """Their number."""


class Snapshot(BaseModel):
    """A question at a snapshot of a changing collection, and what its answer rests on.

    `earlier` are answers that documents stated before and none states now, `withdrawn` those of them that only
    withdrawn documents stated.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    date: str
    current: tuple[str, ...]
    earlier: tuple[str, ...]
    withdrawn: tuple[str, ...]
    changes: tuple[str, ...] | None = None
    """What happened to its documents since the snapshot before: added, corrected, withdrawn; None at the first."""
    gold: int
    """Documents that state a current answer."""
    gold_found: int
    """Those of them that were retrieved."""
    stale: bool | None = None
    """Whether the model gave an earlier answer and no current one; None: there is no earlier answer."""
    used_withdrawn: bool | None = None
    """Whether it gave an answer of withdrawn documents and no current one; None: there is no such answer."""


class Record(BaseModel):
    """One item of a run: a question put to a model under a condition, and its answer, its trace, the effects of
    patching, or its failure.

    Fields that do not apply are None.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    what: What
    model: str
    course: Course | None = None
    """Where the model is in its training, for a snapshot of a course."""
    data: str
    condition: Condition
    id: str
    index: int
    """Place of the question in its data, counted from 0."""
    status: Literal["done", "failed"]
    seconds: float | None = None
    """Wall-clock time; for an answer, the question's share of its batch."""
    warnings: tuple[str, ...] = ()
    error: str | None = None
    dropped_documents: int | None = None

    prediction: str | None = None
    accuracy: float | None = None
    f1: float | None = None
    exact_match: float | None = None
    parts: float | None = None
    """Share of the parts of the answer that are named, for a question whose answer has parts."""
    misled: float | None = None
    """1 if the prediction states a wrong answer that the data names, else 0."""
    prompt: str | None = None
    """Digest of the prompt's token ids: equal in two runs that asked the same."""
    prompt_tokens: int | None = None
    decided_at: tuple[int, ...] | None = None
    """The step in which each token of the answer was decided, in reading order, without the end of the text."""
    earliest_step: int | None = None
    """Under an edit: the first step in which it can change anything."""
    moved_share: float | None = None
    """Under an edit: attention moved per row, 0 … 1, over all rows that it looked at."""
    saved_share: float | None = None
    """Under an edit that stands for a cache: share of the passes' multiplications that a server would not do."""
    saved_passes: float | None = None
    """The same in passes: the sum of the shares over the passes of the question."""
    schedule: str | None = None
    """Under such an edit: its refresh intervals by layer, as given or as derived from traces."""
    kl: float | None = None
    """Under an edit: KL divergence (nats) from the unedited model, at the first token that the edit can change."""
    measured: dict[str, float] | None = None
    """For a question that was also traced: drift, absorption and attention moved."""
    moved: tuple[tuple[int, int, int, float], ...] | None = None
    """The same under an edit: (step, layer, rows changed, attention moved in them)."""
    retrieved: tuple[tuple[str, float], ...] | None = None
    """Ids and scores of retrieved passages, best first."""
    snapshot: Snapshot | None = None
    """Of a changing collection."""

    file: str | None = None
    """The trace, relative to the run folder."""
    question: str | None = None
    answer: str | None = None
    """What the trace shows being written: the model's answer, or the forced text."""
    gold: int | None = None
    evidence_kind: EvidenceKind | None = None
    steps: int | None = None
    forward_passes: int | None = None
    forced: bool | None = None
    log_likelihood: float | None = None
    """Mean log probability of a forced text."""

    patched: PatchEffects | None = None

    @property
    def item(self) -> str:
        """The identity of the item, see `item_of`."""
        return item_of(self.what, self.model, self.data, self.condition, self.id)

    def complete(self, folder: Path) -> bool:
        """Whether the item is done and its trace, if it has one, is in the folder."""
        if self.status != "done":
            return False
        return self.what != "trace" or (self.file is not None and (folder / self.file).is_file())

    def line(self) -> bytes:
        """The record as one line of JSON."""
        return self.model_dump_json(exclude_none=True).encode() + b"\n"
