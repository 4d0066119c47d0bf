"""What a study comes to: its models, data and conditions with nothing left open.

Everything that can be wrong for all items alike is found here, before any weights are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from floatlens.analysis import ANALYSES, as_rule
from floatlens.analysis.registry import Analysis
from floatlens.claims import CLAIMS, ClaimRule
from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.core.files import fingerprint
from floatlens.core.validation import Problem
from floatlens.data import open_data
from floatlens.data.examples import need_of
from floatlens.edits.spec import FROM_TRACES
from floatlens.models.course import earlier
from floatlens.probes import make_probes
from floatlens.records.condition import RAG
from floatlens.runs.conditions import Chosen, Makers, PlannedCondition, choose, plan_conditions, plan_places
from floatlens.runs.items import PlannedData, all_items, patch_items, trace_file, trace_items
from floatlens.runs.models import PlannedModel, plan_models, words_unknown_in_data
from floatlens.runs.patching import patched_condition, with_counterfactuals
from floatlens.runs.retrieval_heads import head_scores, heads_for
from floatlens.runs.tasks import PatchTask, Question, TraceBatch, TraceTask
from floatlens.runs.told import REQUIRED
from floatlens.traces.schema import probe_of
from floatlens.traces.tracing import DEFAULT_PROBES

if TYPE_CHECKING:
    import xarray as xr

    from floatlens.data import Data, Example
    from floatlens.data.stress import StressSettings
    from floatlens.runs.study import Study
    from floatlens.runs.study_file import Source

__all__ = ["Plan", "make_plan"]

Say = Callable[[str], Any]


@dataclass(frozen=True)
class Plan:
    """A study that is ready to be run."""

    source: Source
    models: tuple[PlannedModel, ...]
    """Those of the study, then their controls."""
    data: tuple[PlannedData, ...]
    stress: StressSettings
    corpus: Mapping[str, Any] | None = None
    heads_from: Mapping[str, str] | None = None
    """Runs whose traces tell which heads retrieve, with a digest of each; None: this run's own traces."""
    scores: Mapping[str, xr.DataArray] = field(default_factory=dict)
    """Copy scores (layer, head) by model, from `heads_from`."""
    notes: tuple[str, ...] = ()
    """What a user should know before and after the run, such as stress tests that no question fits."""

    @property
    def study(self) -> Study:
        return self.source.study

    @property
    def subjects(self) -> tuple[PlannedModel, ...]:
        """The models of the study, without controls."""
        return tuple(model for model in self.models if model.shuffled is None)

    def controls_of(self, model: PlannedModel) -> tuple[PlannedModel, ...]:
        """The controls of a model."""
        return tuple(one for one in self.models if one.original == model.ref and one is not model)

    def trace_tasks(self, model: PlannedModel, done: Callable[[str], bool]) -> Iterator[TraceTask | TraceBatch]:
        """The questions of a model that are to be traced and are not done; of a data set, so many together."""
        number, target = self.models.index(model), self.study.traces.target
        for data in self.data:
            forced, own = target is not None or data.passages, None if data.passages else target
            waiting = (item for item in trace_items(model, data) if not done(item.id))
            while batch := list(islice(waiting, self.study.machine.trace_batch)):
                tasks = tuple(
                    TraceTask(model, Question.of(item, item.asked()), trace_file(item, number), forced, own)
                    for item in batch
                )
                yield tasks[0] if len(tasks) == 1 else TraceBatch(tasks)

    def patch_tasks(self, model: PlannedModel, done: Callable[[str], bool]) -> Iterator[PatchTask]:
        """The questions of a model that are to be patched and are not done."""
        for data in self.data:
            for item in patch_items(model, data):
                if not done(item.id):
                    answer = data.counterfactuals[model.ref][item.example.id]
                    yield PatchTask(model, Question.of(item, item.asked()), answer)


def make_plan(source: Source, say: Say = lambda message: None) -> Plan:
    """Open the data, look at the models and settle every choice. `say` is told what does not fit, as are the notes."""
    notes: list[str] = []

    def note(message: str) -> None:
        notes.append(message)
        say(message)

    study = source.study
    _check_names(source)
    stress = _stress(source)
    rag, corpus = _retrieval(source, say)
    makers = Makers(rag, stress, study.control_seeds, study.traces.edited, note, study.control_kinds)
    data = _plan_data(source, makers, corpus=corpus is not None)
    forced = any(part.traced and (part.passages or study.traces.target is not None) for part in data)
    models = plan_models(source, forced=forced, say=say)
    data = with_counterfactuals(data, models, note)
    _check_items(source, data, models)
    _check_controls(source, data)
    heads_from, scores = _heads_from(source)
    _check_edits(source, data, models, scores)
    for part in data:
        for line in part.data.counts.notes(documents=corpus is None):
            note(f"{part.data.name}: {line}")
    for line in words_unknown_in_data(models, data):
        note(line)
    passed = earlier({model.ref: model.course for model in models})  # verdicts are about the last step of a course
    judged = (model for model in models if model.ref not in passed)
    controls = [one for model in judged for one in model.controls(study.controls.shuffled_weights)]
    return Plan(source, (*models, *controls), data, stress, corpus, heads_from, scores, tuple(notes))


def _check_names(source: Source) -> None:
    study = source.study
    for number, name in enumerate(study.analyses or ()):
        if name not in ANALYSES:
            raise source.error(f'no analysis "{name}"{did_you_mean(name, ANALYSES)}', "analyses", number)
    if study.output.rule is not None:
        with source.at("output", "rule"):
            as_rule(study.output.rule)
    with source.at("traces", "probes"):
        make_probes(study.traces.probes or DEFAULT_PROBES)
    _check_plugins(study)


def _check_plugins(study: Study) -> None:
    """Import what other packages add to the files that a study publishes, which are written after all items."""
    from floatlens.plots.registry import FIGURES, FigureType
    from floatlens.report.answer_sections import SECTIONS, AnswerSection

    ANALYSES.check_foreign(Analysis, study.analyses)
    CLAIMS.check_foreign(ClaimRule)
    FIGURES.check_foreign(FigureType)
    if study.output.report:
        SECTIONS.check_foreign(AnswerSection)


def _stress(source: Source) -> StressSettings:
    study = source.study
    if "seed" in study.stress.model_fields_set:
        raise source.error("the seed of stress tests goes into seeds.stress", "stress", "seed")
    return study.stress.model_copy(update={"seed": study.seeds.stress})


def _retrieval(source: Source, say: Say) -> tuple[Callable[[Example], Example], dict[str, Any] | None]:
    """What `rag` shows: the documents of the data, or the best passages of a corpus."""
    corpus = source.study.corpus
    if corpus is None:
        return _as_given, None
    from floatlens.data import open_index, retrieve

    with source.at("corpus", "path"):
        index = open_index(source.path(corpus.path), skip_bad=corpus.skip_bad)
    say(f"{len(index):,} passages in {corpus.path}")
    return lambda example: next(retrieve([example], index, k=corpus.top)), {**index.facts, "top": corpus.top}


def _as_given(example: Example) -> Example:
    return example


# -- data ---------------------------------------------------------------------------------------------------------


def _plan_data(source: Source, makers: Makers, *, corpus: bool) -> tuple[PlannedData, ...]:
    parts: list[PlannedData] = []
    for number, chosen in enumerate(_chosen(source)):
        data = _open(source, number, chosen, corpus=corpus)
        parts.append(_planned(source, number, data, chosen, makers))
        for other in parts[:-1]:
            if other.data.name == data.name:
                text = f'its name "{data.name}" is that of {other.data.ref}; put all conditions into one entry, '
                raise source.error(f"{text}or rename one of the files", "data", number)
    return tuple(parts)


def _chosen(source: Source) -> list[Chosen]:
    """The conditions of each data set; all that are wrong are refused at once."""
    wrong: dict[tuple[int | str, ...], Problem] = {}
    found = []
    for number, given in enumerate(source.study.data):
        own = given.conditions is not None
        names = source.study.conditions if given.conditions is None else given.conditions
        bad: list[tuple[int, str]] = []
        found.append(choose(names, bad))
        for place, text in bad:
            key = ("data", number, "conditions", place) if own else ("conditions", place)
            wrong.setdefault(key, Problem(key, text))
    if wrong:
        raise source.origin.errors(wrong.values())
    return found


def _open(source: Source, number: int, chosen: Chosen, *, corpus: bool) -> Data:
    given, tracing = source.study.data[number], source.study.traces
    need = chosen.need(corpus=corpus)
    if _traced(source, number) and tracing.target is not None:
        need = (*need, need_of(tracing.target))
    if _patched(source, number):
        need = (*need, "answers") if corpus else (*need, "answers", "documents")
    with source.at("data", number):
        return open_data(
            source.data_ref(given.ref),
            format=given.format,
            limit=given.limit,
            skip_bad=given.skip_bad,
            need=tuple(dict.fromkeys(need)),
            documents=given.documents,
            gold=given.gold,
            collection=None if given.collection is None else source.path(given.collection),
        )


def _traced(source: Source, number: int) -> Any:
    """How many questions of a data set are traced, or "all"."""
    own = source.study.data[number].traces
    return source.study.traces.questions if own is None else own


def _patched(source: Source, number: int) -> Any:
    """How many questions of a data set are patched, or "all"."""
    own = source.study.data[number].patching
    return source.study.patching.questions if own is None else own


def _planned(source: Source, number: int, data: Data, chosen: Chosen, makers: Makers) -> PlannedData:
    traced, patched = (
        data.count if asked == "all" else asked for asked in (_traced(source, number), _patched(source, number))
    )
    conditions = plan_conditions(chosen, data, makers)
    passages, tracing = data.format == "passage", source.study.traces
    ways = [PlannedCondition(RAG, _as_given if passages else makers.rag)]
    own = source.study.data[number].places
    places = (tracing.places if own is None else own) if traced and not passages else None
    if places:
        with source.at(*(("traces", "places") if own is None else ("data", number, "places"))):
            ways = plan_places(data, places, tracing.documents, makers.stress.seed, makers.say)
    pooled, patch = bool(chosen.tests) or bool(places), PlannedCondition(patched_condition(source.study), makers.rag)
    return PlannedData(data, conditions, traced, tuple(ways), passages, pooled, patch, patched)


def _check_items(source: Source, data: Sequence[PlannedData], models: Sequence[PlannedModel]) -> None:
    """Refuse a study that has nothing to do, such as stress tests where no document is gold."""
    if any(True for model in models for part in data for _ in all_items(model, part)):
        return
    conditions = [one for part in data for one in part.conditions]
    asked = (source.study.conditions if one.conditions is None else one.conditions for one in source.study.data)
    if not any(asked) and not any(part.traced or part.patched for part in data):
        raise source.error("nothing to do: no conditions and no traces; give some, or patching.questions", "conditions")
    examples = (example for part in data for example in part.data.examples())
    if any(part.patched for part in data) and not any(asked):
        what = "no question has a counterfactual prompt of the same length; give other data"
    elif conditions:
        what = f"{conditions[0].condition.label} is for {conditions[0].model_kind} models; give such a model"
    elif any(document.is_gold for example in examples for document in example.documents):
        what = "no question fits; give other conditions or data"
    else:
        what = "no document is marked as gold; mark them in the data, or give gold: answer (--gold answer)"
    raise source.error(f"nothing to do for {', '.join(part.data.name for part in data)}: {what}", "data")


def _check_controls(source: Source, data: Sequence[PlannedData]) -> None:
    """Refuse controls of which nothing would come."""
    if source.study.controls.shuffled_weights and not any(part.traced for part in data):
        raise source.error("controls are traced, and this study traces nothing; set traces.questions", "controls")


# -- edits --------------------------------------------------------------------------------------------------------


def _heads_from(source: Source) -> tuple[dict[str, str] | None, dict[str, xr.DataArray]]:
    """The runs that tell which heads retrieve, with digests, and the copy scores of their traces."""
    runs = source.study.heads_from
    if not runs:
        return None, {}
    from floatlens.analysis.sources import trace_files

    files = {}
    for number, run in enumerate(runs):
        with source.at("heads_from", number):
            files[run] = trace_files(Path(source.path(run)))
    scores = head_scores([file for found in files.values() for file in found])
    return {run: fingerprint(found) for run, found in files.items()}, scores


def _check_edits(
    source: Source, data: Sequence[PlannedData], models: Sequence[PlannedModel], scores: Mapping[str, xr.DataArray]
) -> None:
    """Refuse layers, heads and tokens that a model does not have, and retrieval heads that cannot be known."""
    edits = {one.edit: None for part in data for one in part.conditions if one.edit is not None}
    for spec in edits:
        for model in models:
            with source.at("conditions"):
                spec.check(model.facts, "edit")
                if source.study.heads_from:
                    heads_for(spec, model.ref, scores)
    traced = any(part.traced for part in data)
    for spec in edits:
        for need in sorted(spec.build().needs & FROM_TRACES):
            if need != "retrieval scores" or not source.study.heads_from:
                with source.at("conditions"):
                    _check_traces_for(spec.label, need, traced, source.study)


_WAITING = {
    "retrieval scores": (
        "retrieval heads are chosen",
        "give runs with traces as heads_from (--heads-from), set traces.questions, or name the heads (heads=5.3+7.0)",
        "name the heads",
    ),
    "refresh schedule": (
        "the schedule is made",
        "use floatlens cache, set traces.questions, or write the schedule (schedule=0-3/8+4-7/2)",
        "write the schedule",
    ),
}
"""By what an edit needs from traces: what is done with it, and what to do where there are none, or of another kind."""


def _check_traces_for(label: str, need: str, traced: bool, study: Study) -> None:
    """The study's own traces must exist and have what is needed of them."""
    done, without, otherwise = _WAITING[need]
    what = f"{label}: {done} from the study's traces"
    if not traced:
        raise FloatlensError(f"{what}, and it has none; {without}")
    probes = make_probes(study.traces.probes or DEFAULT_PROBES)
    provided = {one.name for probe in probes for one in probe.variables}
    for needed in ANALYSES[REQUIRED[need]].requires:
        if needed not in provided:
            probe = probe_of(needed)
            raise FloatlensError(f"{what}, which need the probe {probe}; add it to traces.probes, or {otherwise}")
