"""A resumable run of questions: every model × data × condition × question, asked in batches and put on record.

Everything that can be wrong for all questions alike is checked before any weights are read. A batch is on record, in
one write, before the next is waited for; running again asks what has no record. It prints nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from floatlens.evaluation.config import AskConfig
from floatlens.models.config import ModelConfig
from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.decoding.registry import Sampler, read_settings, sampler_for
from floatlens.decoding.registry import samplers as all_samplers
from floatlens.evaluation.answers import Answer, Asked, ask
from floatlens.prompts import load_template
from floatlens.runs.records import AnswerRecord

if TYPE_CHECKING:
    from floatlens.data import Data, Example
    from floatlens.edits.spec import EditSpec
    from floatlens.evaluation.first_mask import Appended
    from floatlens.models import LanguageModel
    from floatlens.models.facts import Facts
    from floatlens.runs.folder import RunFolder
    from floatlens.runs.workers import Executor, Holder

__all__ = [
    "WHY",
    "AskTask",
    "Condition",
    "Conditions",
    "Item",
    "Subject",
    "ask_tasks",
    "count_items",
    "each_item",
    "item_name",
    "manifest_of",
    "run_items",
    "subjects",
]

T = TypeVar("T")
R = TypeVar("R", bound=AnswerRecord)
Conditions: TypeAlias = "Callable[[Data, Subject], Sequence[Condition]]"
"""What is asked of a data set and a model."""
FREE = ("versions", "command")
"""Keys of a manifest that may change when a run is continued."""
WHY = {"count": "distractors are drawn from all questions, so that others at the same points would be other prompts"}
"""Why a run refuses to be continued with another value, by the last part of the key."""
_CHUNK = 512


@dataclass(frozen=True)
class Condition:
    """A way to put a question. `make` gives the question with the documents to be shown; `fits` says whether it applies
    to a question; `kind` limits it to masked diffusion models ("mdm") or takes any."""

    name: str
    make: Callable[[Example], Example]
    fits: Callable[[Example], bool] = lambda example: True
    kind: str = "any"
    appended: Appended | None = None
    edit: EditSpec | None = None
    traced: int = 0
    """So many of the first questions are traced as well, see `measuring`."""


@dataclass(frozen=True)
class Subject:
    """A model of the run: how it is loaded, what is known of it, and how it is asked, with nothing left open."""

    model: ModelConfig
    facts: Facts
    config: AskConfig

    @property
    def ref(self) -> str:
        return self.facts.ref


@dataclass(frozen=True)
class Item:
    """One question to one model in one condition."""

    name: str
    index: int
    model: str
    data: str
    condition: str
    asked: Asked
    traced: bool = False


@dataclass(frozen=True)
class AskTask:
    """A batch of items of one model: what a worker gets. What comes of it are records."""

    subject: Subject
    items: tuple[Item, ...]

    def perform(self, holder: Holder) -> list[AnswerRecord]:
        model = holder.get(self.subject.model)
        answers = ask(model, [item.asked for item in self.items], self.subject.config, holder.room)
        records = [_record(item, answer) for item, answer in zip(self.items, answers, strict=True)]
        return [self._measured(model, holder, *pair) for pair in zip(self.items, records, strict=True)]

    def _measured(self, model: LanguageModel, holder: Holder, item: Item, record: AnswerRecord) -> AnswerRecord:
        """The record with what a trace of the same question shows; the answer stands where that fails."""
        if not item.traced or record.status == "failed":
            return record
        from floatlens.runs.measuring import measure

        try:
            found = measure(model, item.asked, self.subject.config, holder.room)
        except FloatlensError as error:
            return record.model_copy(update={"warnings": (*record.warnings, f"not measured: {error}")})
        more = {"measured": found.values, "moved": found.moved, "warnings": (*record.warnings, *found.said)}
        return record.model_copy(update=more)

    def halves(self) -> list[AskTask]:
        """Two batches instead of one; nothing of a single question."""
        middle = len(self.items) // 2
        parts = (self.items[:middle], self.items[middle:])
        return [AskTask(self.subject, part) for part in parts] if middle else []

    def failed(self, error: str) -> list[AnswerRecord]:
        return [_record(item, Answer("failed", error=error)) for item in self.items]


# -- before the weights -------------------------------------------------------------------------------------------


def subjects(models: Sequence[tuple[ModelConfig, Facts]], config: AskConfig) -> list[Subject]:
    """Every model with its own sampler and settings; refuses what fits none of them."""
    load_template(config.prompt.template)
    seen: set[str] = set()
    for _, facts in models:
        if facts.tokenizer is None:
            raise FloatlensError(f"{facts.ref} has no tokenizer, so it cannot be given questions")
        if facts.ref in seen:
            raise FloatlensError(f"{facts.ref} is given twice; give every model once")
        seen.add(facts.ref)
    chosen = [_sampler(facts, config.decoding.sampler, [f for _, f in models]) for _, facts in models]
    _check_settings(config.decoding.settings, chosen)
    found = []
    for (model, facts), sampler in zip(models, chosen, strict=True):
        own = {k: v for k, v in config.decoding.settings.items() if k in sampler.settings.model_fields}
        settings = read_settings(sampler, own).model_dump(mode="json")
        values = config.model_dump() | {"decoding": {"sampler": sampler.name, "settings": settings}}
        found.append(Subject(model, facts, AskConfig.model_validate(values)))
    return found


def _sampler(facts: Facts, name: str | None, everyone: Sequence[Facts]) -> Sampler:
    """The sampler that was named, where it fits; else the family's own."""
    named = all_samplers().get(name) if name is not None else None
    if name is not None and named is None:
        raise FloatlensError(f'unknown sampler "{name}"{did_you_mean(name, all_samplers())}')
    if named is not None and named.kind != facts.kind and any(other.kind == named.kind for other in everyone):
        name = None
    # of a model, choosing a sampler asks only for what the facts have as well
    return sampler_for(cast("LanguageModel", facts), name)


def _check_settings(given: Mapping[str, Any], chosen: Sequence[Sampler]) -> None:
    for key in given:
        if not any(key in sampler.settings.model_fields for sampler in chosen):
            read_settings(chosen[0], {key: given[key]})  # says what is wrong


def manifest_of(
    kind: str, asked: Sequence[Subject], data: Sequence[Data], more: Mapping[str, Any], before: dict[str, Any] | None
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What the folder puts on record, and the keys of it that may differ from `before`, the folder's manifest.

    A run may be continued with other models, data and conditions, or with more questions: what was there before stays,
    and what has the same name must be the same. Of a stress run the number of questions is part of that.
    """
    from floatlens.traces.tracing import versions

    old = before or {}
    models = {one.ref: {**asdict(one.facts), "dtype": one.model.dtype, **_how(one.config)} for one in asked}
    sets = {one.name: one.described() for one in data}
    free = [f"models.{name}" for name in models if name not in old.get("models", {})]
    free += [f"data.{name}" for name in sets if name not in old.get("data", {})]
    free += [f"data.{name}.bad" for name in sets]
    if kind != "stress":  # whose distractors come from all the questions
        free += [f"data.{name}.count" for name in sets]
        for name in sets.keys() & old.get("data", {}).keys():
            sets[name]["count"] = max(sets[name]["count"], old["data"][name].get("count", 0))
    manifest = {
        "kind": kind,
        "format": 1,
        "models": {**old.get("models", {}), **models},
        "data": {**old.get("data", {}), **sets},
        "template": load_template(asked[0].config.prompt.template).label,
        **more,
        "versions": versions(),
    }
    return manifest, (*FREE, *free)


def _how(config: AskConfig) -> dict[str, Any]:
    return {"ask": config.model_dump(mode="json")}


# -- the items ----------------------------------------------------------------------------------------------------


def each_item(
    subject: Subject, data: Sequence[Data], conditions: Conditions
) -> Iterator[tuple[str, int, Condition, Example]]:
    """Every item of a model as (data, index, condition, example), streamed; the documents are not made yet."""
    for source in data:
        chosen = [c for c in conditions(source, subject) if c.kind in ("any", subject.facts.kind)]
        for index, example in enumerate(source.examples()):
            for condition in chosen:
                if condition.fits(example):
                    yield source.name, index, condition, example


def count_items(
    asked: Sequence[Subject],
    data: Sequence[Data],
    conditions: Conditions,
    run: RunFolder[AnswerRecord],
) -> tuple[int, int]:
    """How many items there are, and how many of them are done."""
    total = done = 0
    for subject in asked:
        for name, _, condition, example in each_item(subject, data, conditions):
            total += 1
            done += run.done(item_name(subject.ref, name, condition.name, example.id))
    return total, done


def item_name(model: str, data: str, condition: str, id: str) -> str:
    """Readable, and one for every item of a run. It names no file."""
    return " | ".join((model, data, condition, id))


def run_items(
    asked: Sequence[Subject],
    data: Sequence[Data],
    conditions: Conditions,
    run: RunFolder[AnswerRecord],
    executor: Executor,
    batch: int,
) -> Iterator[AnswerRecord]:
    """Ask every question that has no record, and yield its record once it is on disk, in any order.

    A Ctrl-C that comes while records are written waits until they are.
    """
    from floatlens.runs.tracing import uninterrupted

    run.forget(lambda record: record.status == "failed")
    tasks = (task for subject in asked for task in ask_tasks(subject, data, conditions, run, batch))
    with executor:
        for _, records in executor.run(tasks):
            new = [record for record in records if not run.done(record.item)]
            with uninterrupted():
                run.add_all(new)
            yield from new


def ask_tasks(
    subject: Subject, data: Sequence[Data], conditions: Conditions, run: RunFolder[R], batch: int
) -> Iterator[AskTask]:
    """Batches of prompts of like length, from a chunk of items at a time, as far as something of them is not done.

    They are cut before it is looked up what is done, so that nobody's companions depend on where a run was stopped: an
    answer does not depend on them, but the last bits of a divergence do. A batch of which a kill left only some
    records is asked again as a whole.
    """
    for chunk in _batches(each_item(subject, data, conditions), _CHUNK):
        names = [item_name(subject.ref, name, condition.name, example.id) for name, _, condition, example in chunk]
        if all(map(run.done, names)):
            continue
        made = (_item(subject, *parts) for parts in chunk)
        ordered = sorted(made, key=lambda item: (_way(item), _length(item), item.name))
        for _, same in groupby(ordered, key=_way):
            for part in _batches(same, batch):
                if not all(run.done(item.name) for item in part):
                    yield AskTask(subject, part)


def _item(subject: Subject, data: str, index: int, condition: Condition, example: Example) -> Item:
    name = item_name(subject.ref, data, condition.name, example.id)
    asked = Asked(condition.make(example), condition.appended, condition.edit)
    return Item(name, index, subject.ref, data, condition.name, asked, index < condition.traced)


def _batches(given: Iterable[T], size: int) -> Iterator[tuple[T, ...]]:
    source = iter(given)
    while part := tuple(islice(source, size)):
        yield part


def _way(item: Item) -> tuple[int, str, str]:
    """What sets apart the items that cannot share a pass."""
    appended, edit = item.asked.appended, item.asked.edit
    words = "" if edit is None else edit.label
    return (0, "", words) if appended is None else (appended.count, appended.fill, words)


def _length(item: Item) -> int:
    example = item.asked.example
    return len(example.question) + sum(len(document.title) + len(document.text) for document in example.documents)


def _record(item: Item, answer: Answer) -> AnswerRecord:
    scores = {} if answer.scores is None else asdict(answer.scores)
    found = item.asked.example.meta.get("retrieval", {}).get("found") if item.asked.example.documents else None
    return AnswerRecord(
        item=item.name,
        index=item.index,
        id=item.asked.example.id,
        status=answer.status,
        seconds=answer.seconds,
        warnings=answer.warnings,
        error=answer.error,
        model=item.model,
        data=item.data,
        condition=item.condition,
        prediction=answer.prediction,
        prompt=answer.prompt,
        prompt_tokens=answer.prompt_tokens,
        dropped_documents=answer.dropped_documents,
        kl=answer.kl,
        retrieved=None if found is None else tuple((str(one["id"]), float(one["score"])) for one in found),
        **scores,
    )
