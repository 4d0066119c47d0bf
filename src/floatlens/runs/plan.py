"""What a study comes to: its models, data and conditions with nothing left open, its items, and its manifest.

Everything that can be wrong for all items alike is found here, before any weights are read.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from floatlens.analysis import ANALYSES, as_rule
from floatlens.attention.select import Select
from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.data import open_data
from floatlens.data.examples import need_of
from floatlens.data.sources import is_source
from floatlens.data.stress import STRESS_TESTS, Pool, StressSettings
from floatlens.decoding import SAMPLERS
from floatlens.decoding.config import DecodingConfig
from floatlens.decoding.target import open_settings
from floatlens.evaluation.config import AskConfig
from floatlens.models.config import ModelConfig
from floatlens.models.facts import look
from floatlens.probes import make_probes
from floatlens.prompts import load_template
from floatlens.runs.asking import Conditions, Subject, item_name, subjects
from floatlens.runs.choosing import Chosen, Makers, choose, conditions
from floatlens.runs.tracetask import Forced, TraceItem, TraceTask, TraceWay
from floatlens.traces.config import CaptureConfig
from floatlens.traces.schema import probe_of
from floatlens.traces.store import SUFFIX
from floatlens.traces.tracing import DEFAULT_PROBES

if TYPE_CHECKING:
    from floatlens.data import Data, Example
    from floatlens.edits.spec import EditSpec
    from floatlens.runs.folder import RunFolder
    from floatlens.runs.records import StudyRecord
    from floatlens.runs.study import Study, Tracing
    from floatlens.runs.study_file import Source

__all__ = ["FREE", "Part", "Plan", "make_plan"]

FREE = ("versions", "machine", "git", "command", "study.about", "study.analyses", "study.machine", "study.out")
"""Keys of a manifest that may change when a study is continued: none of them changes what an item comes to."""
Say = Callable[[str], Any]


@dataclass(frozen=True)
class Part:
    """A data set with what is asked about it and what is traced of it."""

    data: Data
    chosen: Chosen
    makers: Makers
    asked: Conditions
    traced: int
    ways: tuple[TraceWay, ...]
    passages: bool = False
    """Passages with holes instead of questions: traced, with what was cut out as their target."""

    def traces(self, subject: Subject, number: int) -> Iterator[TraceItem]:
        """Every item of a model that is traced; `number` is the model's place, which orders the files."""
        folder = f"traces/{number + 1}-{_slug(subject.ref)}"
        for way in self.ways if self.traced else ():
            fitting = (pair for pair in enumerate(self.data.examples()) if way.fits(pair[1]))
            for (index, example), _ in zip(fitting, range(self.traced), strict=False):
                name = item_name(subject.ref, self.data.name, way.name, example.id)
                digest = hashlib.sha256(name.encode()).hexdigest()[:10]
                file = f"{folder}/{_slug(self.data.name)}-{_slug(way.name)}-{index:05d}-{digest}{SUFFIX}"
                yield TraceItem(name, index, self.data.name, way.name, file, example)


@dataclass(frozen=True)
class Plan:
    """A study that is ready to be run."""

    source: Source
    subjects: tuple[Subject, ...]
    parts: tuple[Part, ...]
    stress: StressSettings
    captures: Mapping[str, CaptureConfig]
    corpus: Mapping[str, Any] | None
    forced: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Of every model the settings with which texts are forced; empty where none are."""

    @property
    def study(self) -> Study:
        return self.source.study

    @property
    def columns(self) -> dict[str, str]:
        """How tables call each data set."""
        return {part.data.name: part.data.column for part in self.parts}

    def trace_tasks(self, subject: Subject, run: RunFolder[StudyRecord]) -> Iterator[TraceTask]:
        """What is to be traced of a model and has no record."""
        number, target = self.subjects.index(subject), self.study.traces.target
        for part in self.parts:
            forced = None
            if target is not None or part.passages:
                forced = Forced(None if part.passages else target, self.forced.get(subject.ref, {}))
            ways = {way.name: way for way in part.ways}
            for item in part.traces(subject, number):
                if not run.done(item.name):
                    made = ways[item.condition].make(item.example)
                    yield TraceTask(subject, self.captures[subject.ref], _with(item, made), forced)

    def manifest(self) -> dict[str, Any]:
        """What the folder puts on record; machine, versions and the like come from whoever runs it."""
        models = {
            one.ref: {**asdict(one.facts), "dtype": one.model.dtype, "ask": one.config.model_dump(mode="json")}
            for one in self.subjects
        }
        study = self.study.model_dump(mode="json", exclude={"output": True, "stress": {"seed"}})
        for one in study["data"]:
            if one["gold"] is None:  # as it was before there was a choice, so that older studies go on
                del one["gold"]
        if self.study.traces.target is None:
            del study["traces"]["target"]
        return {
            "kind": "study",
            "format": 1,
            "study": study,
            "models": models,
            "data": {part.data.name: {**part.data.described(), "column": part.data.column} for part in self.parts},
            "template": load_template(self.subjects[0].config.prompt.template).label,
            "stress": self.stress.used(STRESS_TESTS),
            "corpus": self.corpus,
            "captures": {ref: one.model_dump(mode="json") for ref, one in self.captures.items()},
            "output": self.study.output.model_dump(mode="json"),
            **({"forced": self.forced} if self.forced else {}),
        }


def _with(item: TraceItem, example: Example) -> TraceItem:
    return TraceItem(item.name, item.index, item.data, item.condition, item.file, example)


def _slug(text: str) -> str:
    return "-".join(part for part in re.split(r"[^\w.=]+", text.rstrip("/").rpartition("/")[2]) if part) or "x"


# -- making it ----------------------------------------------------------------------------------------------------


def make_plan(source: Source, say: Say = lambda message: None) -> Plan:
    """Open the data, look at the models and settle every choice. `say` is told what does not fit."""
    study = source.study
    _check_names(study, source.place)
    stress = _stress(study, source.place)
    rag, corpus = _retrieval(source, say)
    makers = Makers(rag, stress, study.seeds.controls, study.traces.edited, say)
    parts: list[Part] = []
    for place, given in enumerate(study.data):
        own = given.conditions is not None
        where = f"{source.place}: data[{place}].conditions" if own else f"{source.place}: conditions"
        chosen = choose(study.conditions if given.conditions is None else given.conditions, where)
        parts.append(_part(source, place, chosen, makers, corpus is not None, say))
        for other in parts[:-1]:
            if other.data.name == parts[-1].data.name:
                raise FloatlensError(
                    f'{source.place}: data[{place}]: its name "{other.data.name}" is that of {other.data.ref}; '
                    "put all conditions into one entry, or rename one of the files"
                )
    asked = _subjects(source)
    captures = {one.ref: _capture(study, one) for one in asked}
    _check_edits(parts, asked, study.traces, source.place)
    wanted = any(part.traced and (part.passages or study.traces.target is not None) for part in parts)
    forced = _forced(study, asked) if wanted else {}
    return Plan(source, tuple(asked), tuple(parts), stress, captures, corpus, forced)


def _check_names(study: Study, place: str) -> None:
    for name in study.analyses or ():
        if name not in ANALYSES:
            raise FloatlensError(f'{place}: analyses: no analysis "{name}"{did_you_mean(name, ANALYSES)}')
    if study.output.rule is not None:
        as_rule(study.output.rule)
    make_probes(study.traces.probes or DEFAULT_PROBES)


def _stress(study: Study, place: str) -> StressSettings:
    if "seed" in study.stress.model_fields_set:
        raise FloatlensError(f"{place}: the seed of stress tests stands in seeds.stress; leave stress.seed out")
    return study.stress.model_copy(update={"seed": study.seeds.stress})


def _retrieval(source: Source, say: Say) -> tuple[Callable[[Example], Example], dict[str, Any] | None]:
    """What `rag` shows: the documents of the data, or the best passages of a corpus."""
    corpus = source.study.corpus
    if corpus is None:
        return _as_given, None
    from floatlens.data import open_index, retrieve

    index = open_index(source.path(corpus.path), skip_bad=corpus.skip_bad)
    say(f"{len(index):,} passages in {corpus.path}")
    return lambda example: next(retrieve([example], index, k=corpus.top)), {**index.facts, "top": corpus.top}


def _as_given(example: Example) -> Example:
    return example


def _part(source: Source, place: int, chosen: Chosen, makers: Makers, corpus: bool, say: Say) -> Part:
    given, tracing = source.study.data[place], source.study.traces
    options: dict[str, Any] = {} if is_source(given.ref) else {"format": given.format}
    if given.format is not None and not options:
        raise FloatlensError(f"{source.place}: data[{place}]: {given.ref} has no format; leave it out")
    count = tracing.questions if given.traces is None else given.traces
    need = chosen.need(corpus=corpus)
    if count and tracing.target is not None:
        need = (*need, need_of(tracing.target))
    data = open_data(
        source.data_ref(given.ref),
        limit=given.limit,
        skip_bad=given.skip_bad,
        need=need,
        documents=given.documents,
        gold=given.gold,
        **options,
    )
    count = data.count if count == "all" else count
    if data.format == "passage":
        return Part(data, chosen, makers, conditions(chosen, makers), count, (TraceWay("trace", _as_given),), True)
    ways: tuple[TraceWay, ...] = (TraceWay("trace", makers.rag),)
    if count and tracing.places is not None:
        ways = _placed(data, tracing.places, tracing.documents, makers.stress.seed, say)
    return Part(data, chosen, makers, conditions(chosen, makers), count, ways)


def _placed(data: Data, places: Sequence[int], documents: int, seed: int, say: Say) -> tuple[TraceWay, ...]:
    """A way for every place of the gold document, with the same documents in each."""
    settings = StressSettings.model_validate({"seed": seed, "documents": documents, "position": {"places": places}})
    test, pool = settings.of("position"), Pool.of(data.examples())
    reasons = {example.id: test.unfit(example, pool) for example in data.examples()}
    fits = {id for id, reason in reasons.items() if reason is None}
    if not fits:
        first = next(iter(reasons.items()))
        say(f"traces: no question of {data.name} has a gold document to be moved (question {first[0]} {first[1]})")
    return tuple(
        TraceWay(
            f"trace gold {point.x:g}",
            partial(test.apply, point=point, pool=pool),
            lambda example: example.id in fits,
        )
        for point in test.points()
    )


def _subjects(source: Source) -> list[Subject]:
    """Every model with its own sampler and settings: the study's, and before these its own."""
    study = source.study
    if "seed" in study.decoding.settings or any("seed" in model.decoding.settings for model in study.models):
        raise FloatlensError(f"{source.place}: the seed of samplers stands in seeds.decoding; leave it out of settings")
    prompt = study.prompt.model_copy(update={"template": source.template(study.prompt.template)})
    models = [
        (_config(source, i), look(source.model_ref(one.ref), family=one.family, revision=one.revision))
        for i, one in enumerate(study.models)
    ]
    common = {**study.decoding.settings, "seed": study.seeds.decoding}

    def config(decoding: DecodingConfig) -> AskConfig:
        return AskConfig(prompt=prompt, decoding=decoding, first_line=study.first_line)

    found = subjects(models, config(DecodingConfig(sampler=study.decoding.sampler, settings=common)))
    for place, (given, own) in enumerate(zip(study.models, list(found), strict=True)):
        if given.decoding.sampler is not None or given.decoding.settings:
            kept = {k: v for k, v in own.config.decoding.settings.items() if k in common}
            sampler = given.decoding.sampler or own.config.decoding.sampler
            settings = {
                **(kept if sampler == own.config.decoding.sampler else {"seed": common["seed"]}),
                **given.decoding.settings,
            }
            (found[place],) = subjects([models[place]], config(DecodingConfig(sampler=sampler, settings=settings)))
    return found


def _forced(study: Study, asked: Sequence[Subject]) -> dict[str, dict[str, Any]]:
    """Of every model its settings without gen_length and steps: a forced text takes a step for each of its tokens."""
    found = {}
    for given, subject in zip(study.models, asked, strict=True):
        ask = subject.config.decoding
        left_out = {"gen_length", "steps"}
        if "block_length" not in {**study.decoding.settings, **given.decoding.settings}:
            left_out.add("block_length")  # a default that followed gen_length
        kept = {name: value for name, value in ask.settings.items() if name not in left_out}
        found[subject.ref] = open_settings(SAMPLERS[str(ask.sampler)], kept)
    return found


def _config(source: Source, place: int) -> ModelConfig:
    given = source.study.models[place]
    values = given.model_dump(exclude={"decoding"}) | {"ref": source.model_ref(given.ref)}
    return ModelConfig.model_validate(values)


def _capture(study: Study, subject: Subject) -> CaptureConfig:
    tracing = study.traces
    layers = Select(layers=tracing.layers).layer_ids(subject.facts.layers)
    return CaptureConfig(probes=tracing.probes or DEFAULT_PROBES, heads=tracing.heads, layers=tuple(layers))


def _check_edits(parts: Sequence[Part], asked: Sequence[Subject], tracing: Tracing, place: str) -> None:
    for part in parts:
        for spec in part.chosen.edits:
            for subject in asked:
                spec.check(subject.facts, f"{place}:")
    waiting = next((part.chosen.ablated[0] for part in parts if part.chosen.ablated), None)
    if waiting is not None:
        _check_traces_for(waiting, any(part.traced for part in parts), tracing.probes or DEFAULT_PROBES, place)


def _check_traces_for(waiting: EditSpec, traced: bool, probes: Sequence[str], place: str) -> None:
    """Retrieval heads come from the study's own traces, so there must be some, with what their scores are made of."""
    what = f"{place}: {waiting.label}: retrieval heads are chosen from the study's traces"
    if not traced:
        raise FloatlensError(f"{what}, and it has none; set traces.questions, or name the heads (heads=5.3+7.0)")
    provided = {name for probe in make_probes(probes) for name in (one.name for one in probe.variables)}
    for needed in ANALYSES["retrieval_heads"].requires:
        if needed not in provided:
            probe = probe_of(needed)
            raise FloatlensError(f"{what}, which need the probe {probe}; add it to traces.probes, or name the heads")
