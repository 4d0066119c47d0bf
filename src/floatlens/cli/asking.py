"""What `floatlens qa` and `floatlens stress` have in common: from arguments to a finished run, with bar and lines."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.table import Table as RichTable
from rich.text import Text

from floatlens.cli.parsing import parse_names, parse_settings
from floatlens.cli.terminal import Bar, clean, progress, say, tell_warnings
from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.core.validation import validate
from floatlens.evaluation.config import AskConfig
from floatlens.models.config import ModelConfig

if TYPE_CHECKING:
    from floatlens.analysis.tables import Table
    from floatlens.data import Data, Example
    from floatlens.data.examples import Need
    from floatlens.runs import AnswerRecord, RunFolder
    from floatlens.runs.asking import Conditions, Subject

__all__ = ["Plan", "Request", "RunningAccuracy", "closed_and_rag", "run", "table_view"]

_MODES = ("closed", "rag")


@dataclass(frozen=True)
class Request:
    """The arguments that both commands share."""

    kind: Literal["qa", "stress", "intervene"]
    models: Sequence[str]
    data: Sequence[str]
    out: Path
    limit: int | None
    skip_bad: bool
    format: str | None
    documents: int | None
    template: str
    chat: bool | None
    sampler: str | None
    settings: Sequence[str]
    seed: int | None
    first_line: bool
    batch: int
    workers: int | None
    dtype: str | None
    device: str | None
    device_map: str | None
    command: Sequence[str]
    gold: Literal["answer"] | None = None


@dataclass(frozen=True)
class Plan:
    """What is asked of every question: the conditions for each data set, what they need, what goes on record."""

    conditions: Conditions
    need: Sequence[Need]
    manifest: Mapping[str, Any] = field(default_factory=dict)


def closed_and_rag(mode: str, corpus: Path | None, top: int, skip_bad: bool) -> Plan:
    """Closed book, with documents, or both."""
    from floatlens.runs.asking import Condition

    modes = parse_names(mode, "--mode") or ()
    for name in modes:
        if name not in _MODES:
            raise FloatlensError(f'--mode: no mode "{name}"{did_you_mean(name, _MODES)}')
    made: dict[str, Condition] = {"closed": Condition("closed", _without_documents)}
    more: dict[str, Any] = {"corpus": None}
    if corpus is None:
        made["rag"] = Condition("rag", lambda example: example)
    elif "rag" in modes:
        from floatlens.data import open_index, retrieve

        index = open_index(corpus, skip_bad=skip_bad)
        say(f"{len(index):,} passages in {corpus}")
        made["rag"] = Condition("rag", lambda example: next(retrieve([example], index, k=top)))
        more = {"corpus": {**index.facts, "top": top}}
    chosen = [made[name] for name in dict.fromkeys(modes)]
    need: tuple[Need, ...] = ("answers", "documents") if "rag" in modes and corpus is None else ("answers",)
    return Plan(lambda data, subject: chosen, need, more)


def _without_documents(example: Example) -> Example:
    return example.model_copy(update={"documents": []})


def run(request: Request, plan: Plan) -> tuple[int, list[Data]]:
    """Ask what is not on record yet; gives the exit code and the data."""
    sources = _open(request, plan)
    subjects = _subjects(request)
    session = _Session(request)
    try:
        _run(request, plan, sources, subjects, session)
    except KeyboardInterrupt:
        say(f"stopped with {session.done} of {session.total} on record; to continue: {shlex.join(request.command)}")
        return 130, sources
    return session.summary(), sources


def _open(request: Request, plan: Plan) -> list[Data]:
    from floatlens.data import open_data

    sources: list[Data] = []
    for ref in request.data:
        options: dict[str, Any] = {"format": request.format} if not ref.startswith("scale:") else {}
        found = open_data(
            ref,
            limit=request.limit,
            skip_bad=request.skip_bad,
            need=plan.need,
            documents=request.documents,
            gold=request.gold,
            **options,
        )
        for other in sources:
            if other.name == found.name:
                raise FloatlensError(
                    f'--data {ref}: its name "{found.name}" is that of {other.ref}; rename one of them'
                )
        sources.append(found)
        say(f"{found.count} questions from {found.title} ({found.format})")
    return sources


def _subjects(request: Request) -> list[Subject]:
    from floatlens.models.facts import look
    from floatlens.runs.asking import subjects

    values = {
        "prompt": {"template": request.template, "chat": request.chat},
        "decoding": {"sampler": request.sampler, "settings": parse_settings(request.settings, request.seed)},
        "first_line": request.first_line,
    }
    place = {"dtype": request.dtype, "device": request.device, "device_map": request.device_map}
    models = [validate(ModelConfig, {"ref": ref, **place}) for ref in request.models]
    return subjects([(model, look(model.ref)) for model in models], validate(AskConfig, values))


def _run(request: Request, plan: Plan, sources: Sequence[Data], subjects: Sequence[Subject], session: _Session) -> None:
    from floatlens.runs import AnswerRecord, RunFolder
    from floatlens.runs.asking import WHY, count_items, manifest_of

    with RunFolder.open(request.out, AnswerRecord) as folder:
        manifest, free = manifest_of(request.kind, subjects, sources, plan.manifest, folder.manifest)
        folder.check(manifest, free=free, why=WHY)
        session.total, session.done = count_items(subjects, sources, plan.conditions, folder)
        if session.done:
            say(f"{session.done} of {session.total} answers on record already")
        folder.settle(manifest, free=free)
        if session.done < session.total:
            _ask(request, plan, sources, subjects, folder, session)


def _ask(
    request: Request,
    plan: Plan,
    sources: Sequence[Data],
    subjects: Sequence[Subject],
    folder: RunFolder[AnswerRecord],
    session: _Session,
) -> None:
    from floatlens.runs.asking import run_items
    from floatlens.runs.workers import Workers, suggest, threads_for

    left = session.total - session.done
    used = [subject.model for subject in subjects]
    count = request.workers or suggest(used, left)
    models = f"{len(subjects)} models" if len(subjects) > 1 else subjects[0].ref
    say(f"asking {models}, {left} answers to come" + (f", in {count} processes" if count > 1 else ""))
    records = run_items(
        subjects, sources, plan.conditions, folder, Workers(count, threads_for(used, count)), request.batch
    )
    with progress("asking", session.total, session.done) as bar:
        for record in records:
            session.take(record, bar)


class RunningAccuracy:
    """How each model does so far in each condition, from the answers of this session."""

    def __init__(self) -> None:
        self._right: dict[str, list[float]] = {}

    def after(self, record: AnswerRecord) -> str:
        """One more answer: where it belongs, and the accuracy there."""
        part = f"{record.model}, {record.data}, {record.condition}"
        right = self._right.setdefault(part, [])
        if record.accuracy is not None:
            right.append(record.accuracy)
        return f"{part}: accuracy {sum(right) / len(right):.1%} of {len(right)}" if right else part


class _Session:
    """Counts what became of the questions, and says what a user should know at once."""

    def __init__(self, request: Request) -> None:
        self.out = request.out
        self.total = self.done = self._failed = self._warned = 0
        self._accuracy = RunningAccuracy()

    def take(self, record: AnswerRecord, bar: Bar) -> None:
        """One more record: the bar moves and shows how the model does here so far."""
        where = f"{record.model}, {record.data}, question {record.index} ({record.id})"
        if record.warnings:
            self._warned += 1
            tell_warnings(self._warned, where, record.warnings, self.out)
        if record.status == "failed":
            self._failed += 1
            say(f"{where} failed: {record.error}")
        else:
            self.done += 1
        bar.item(record.prediction or "", self._accuracy.after(record))

    def summary(self) -> int:
        """The last line, and the exit code."""
        parts = [f"{self.done} of {self.total} answers in {self.out}"]
        if self._warned:
            parts.append(f"{self._warned} with warnings")
        if self._failed:
            parts.append(f"{self._failed} failed, see {self.out / 'records.jsonl'}; run again to retry them")
        say("; ".join(parts))
        return 1 if self._failed else 0


def table_view(table: Table) -> RichTable:
    """A table for a terminal, with both its header rows in one."""
    shown = RichTable(box=None, padding=(0, 2, 0, 0), header_style="cyan", caption=Text(table.caption, style="dim"))
    shown.caption_justify = "left"
    over = [name for name, span in table.groups for _ in range(span)]
    for i, (group, name) in enumerate(zip(over, table.columns, strict=True)):
        title = Text(clean(f"{group}\n{name}") if not group or not name else f"{clean(group)}\n{name}")
        shown.add_column(title, justify="left" if i == 0 else "right", no_wrap=i > 0)
    for row in table.rows:
        shown.add_row(*(Text(clean(cell), style="bold" if i == 0 else "") for i, cell in enumerate(row)))
    return shown
