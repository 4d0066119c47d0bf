"""The models of a plan: each with its sampler, settings and capture decided, before any weights are read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from floatlens.attention.select import Select
from floatlens.core.errors import FloatlensError
from floatlens.decoding import SAMPLERS
from floatlens.decoding.registry import Sampler, read_settings, sampler_for
from floatlens.decoding.settings import DecodingConfig
from floatlens.decoding.target import open_settings
from floatlens.evaluation.answers import AskConfig
from floatlens.models.config import ModelConfig
from floatlens.models.facts import Facts, look
from floatlens.models.shuffling import control_facts
from floatlens.probes.registry import default_probes
from floatlens.prompts import load_template
from floatlens.runs.courses import Given, check_course, given_models
from floatlens.traces.config import CaptureConfig

if TYPE_CHECKING:
    from floatlens.data import Example
    from floatlens.models import LanguageModel
    from floatlens.runs.items import PlannedData
    from floatlens.runs.study import Study
    from floatlens.runs.study_file import Source

Say = Callable[[str], Any]

__all__ = ["PlannedModel", "decide_decoding", "plan_models", "unknown_words", "words_unknown_in_data"]

_LARGE = 5000
"""Vocabularies of at least this many tokens spell out words that they do not have."""
_SAMPLE = 20
"""Questions of each data set that are looked at."""
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class PlannedModel:
    """A model of a plan: how it is loaded, what is known of it, how it is asked and what is captured."""

    config: ModelConfig
    facts: Facts
    ask: AskConfig
    capture: CaptureConfig = field(default_factory=CaptureConfig)
    forced: Mapping[str, Any] = field(default_factory=dict)
    """Sampler settings for forced texts, which take a step per token."""

    @property
    def ref(self) -> str:
        return self.facts.ref

    @property
    def shuffled(self) -> int | None:
        """The seed with which the weights are shuffled once they are loaded, for a control; None for a model."""
        return None if self.facts.control is None else int(self.facts.control["seed"])

    @property
    def original(self) -> str:
        """The reference of the model that this is a control of; its own for a model."""
        return self.ref if self.facts.control is None else str(self.facts.control["of"])

    @property
    def course(self) -> Mapping[str, Any] | None:
        """Name, step, tokens and origin for a snapshot of a course."""
        return None if self.facts.course is None else self.facts.course.to_dict()

    def named(self, model: LanguageModel) -> LanguageModel:
        """The loaded model under its name in this run, with its place in a course."""
        if self.facts.course is None:
            return model
        return replace(model, ref=self.ref, course=self.facts.course, control=self.facts.control)

    def controls(self, number: int) -> tuple[PlannedModel, ...]:
        """So many copies with shuffled weights, with the seeds 0, 1, …"""
        facts = (replace(self.facts, **control_facts(self.ref, seed)) for seed in range(number))
        return tuple(replace(self, facts=one) for one in facts)


def plan_models(source: Source, *, forced: bool, say: Say) -> tuple[PlannedModel, ...]:
    """Every model with its sampler and settings: its own, else the study's. `forced`: some texts are forced.

    `say` is told which settings apply to no model.
    """
    study = source.study
    _check_seeds(source)
    with source.at("prompt", "template"):
        prompt = study.prompt.model_copy(update={"template": source.template(study.prompt.template)})
        load_template(prompt.template)
    common = {**study.decoding.settings, "seed": study.seeds.decoding}
    base = AskConfig(prompt=prompt, first_line=study.first_line)
    given_all = given_models(source)
    pairs = _looked(source, given_all)
    with source.at("decoding"):
        asks = decide_decoding(pairs, _with(base, study.decoding.sampler, common), say)
    planned = []
    for number, (given, pair) in enumerate(zip(given_all, pairs, strict=True)):
        own_decoding = given.model.decoding
        if own_decoding.sampler is not None or own_decoding.settings:
            with source.at("models", given.number, "decoding"):
                (asks[number],) = decide_decoding([pair], _own(own_decoding, asks[number], common), say)
        with source.at("traces", "layers"):
            capture = _capture(study, pair[1])
        own = {**study.decoding.settings, **own_decoding.settings}
        planned.append(PlannedModel(*pair, asks[number], capture, _forced(asks[number], own) if forced else {}))
    return tuple(planned)


def decide_decoding(
    models: Sequence[tuple[ModelConfig, Facts]], ask: AskConfig, say: Say = lambda message: None
) -> list[AskConfig]:
    """The sampler and all its settings for each model; a setting applies to every sampler that has it.

    A named sampler is for the models of its kind. A setting that no sampler has is refused.
    """
    chosen = [_sampler(facts, ask.decoding.sampler, [other for _, other in models]) for _, facts in models]
    for key, value in ask.decoding.settings.items():
        if any(key in sampler.settings.model_fields for sampler in chosen):
            continue
        if not any(key in sampler.settings.model_fields for sampler in SAMPLERS.values()):
            read_settings(chosen[0], {key: value})  # raises the error
        say(f"{key}={value} does not apply to the sampler {' or '.join(dict.fromkeys(s.name for s in chosen))}")
    found = []
    for sampler in chosen:
        own = {k: v for k, v in ask.decoding.settings.items() if k in sampler.settings.model_fields}
        found.append(_with(ask, sampler.name, read_settings(sampler, own).model_dump(mode="json")))
    return found


def _with(ask: AskConfig, sampler: str | None, settings: Mapping[str, Any]) -> AskConfig:
    return ask.model_copy(update={"decoding": DecodingConfig(sampler=sampler, settings=dict(settings))})


def _own(given: DecodingConfig, decided: AskConfig, common: Mapping[str, Any]) -> AskConfig:
    """A model's own decoding over the study's; settings of the study's sampler do not go to another one."""
    sampler = given.sampler or decided.decoding.sampler
    kept = {key: value for key, value in decided.decoding.settings.items() if key in common}
    if sampler != decided.decoding.sampler:
        kept = {"seed": common["seed"]}
    return _with(decided, sampler, {**kept, **given.settings})


def _check_seeds(source: Source) -> None:
    study = source.study
    if "seed" in study.decoding.settings:
        raise source.error("the seed of samplers goes into seeds.decoding", "decoding", "settings", "seed")
    for number, model in enumerate(study.models):
        if "seed" in model.decoding.settings:
            where = ("models", number, "decoding", "settings", "seed")
            raise source.error("the seed of samplers goes into seeds.decoding", *where)


def _looked(source: Source, models: Sequence[Given]) -> list[tuple[ModelConfig, Facts]]:
    """How each model is loaded, and what is known of it."""
    found: list[tuple[ModelConfig, Facts]] = []
    for one in models:
        given = one.model
        with source.at("models", one.number):
            facts = look(one.ref, family=given.family, revision=given.revision, told=given.told)
            if facts.tokenizer is None:
                raise FloatlensError(f"{facts.ref} has no tokenizer, so it cannot be given questions")
            facts = replace(facts, ref=one.name, course=one.course)
            check_course(facts, [other for _, other in found])
        config = given.model_dump(include=set(ModelConfig.model_fields)) | {"ref": one.ref}
        found.append((ModelConfig.model_validate(config), facts))
    return found


def _sampler(facts: Facts, name: str | None, everyone: Sequence[Facts]) -> Sampler:
    """The named sampler where it fits, else the family's own."""
    named = None if name is None else SAMPLERS.get(name)
    if named is not None and named.kind != facts.kind and any(other.kind == named.kind for other in everyone):
        name = None
    # choosing a sampler needs only what the facts have as well
    return sampler_for(cast("LanguageModel", facts), name)


def _capture(study: Study, facts: Facts) -> CaptureConfig:
    tracing = study.traces
    layers = Select(layers=tracing.layers).layer_ids(facts.layers)
    own = facts.attention_layers
    probes = tracing.probes or default_probes(facts.kind, None if own is None else len(own))
    return CaptureConfig(probes=probes, heads=tracing.heads, layers=tuple(layers), backend=tracing.backend)


def _forced(ask: AskConfig, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings without gen_length and steps: a forced text takes a step for each of its tokens."""
    left_out = {"gen_length", "steps"}
    if "block_length" not in given:
        left_out.add("block_length")  # a default that followed gen_length
    kept = {name: value for name, value in ask.decoding.settings.items() if name not in left_out}
    return open_settings(SAMPLERS[str(ask.decoding.sampler)], kept)


# -- vocabulary ---------------------------------------------------------------------------------------------------


def unknown_words(model: PlannedModel, texts: Iterable[str], where: str) -> str | None:
    """A warning that counts the words of texts outside the vocabulary of a small model; None if it has them all."""
    tokenizer = _tokenizer(model) if model.facts.vocabulary < _LARGE else None
    if tokenizer is None:
        return None
    words = sorted({word for text in texts for word in _WORD.findall(text)})
    lost = sum(_spelt_out(tokenizer, word) for word in words)
    if not lost:
        return None
    return (
        f"warning: {lost} of {len(words)} different words in {where} are outside the vocabulary of {model.ref} "
        f"({model.facts.vocabulary} tokens), so expect wrong answers"
    )


def words_unknown_in_data(models: Sequence[PlannedModel], data: Sequence[PlannedData]) -> Iterator[str]:
    """The warnings for models and data sets, by the first questions of each."""
    for part in data:
        texts = [text for example in islice(part.data.examples(), _SAMPLE) for text in _texts(example)]
        some = f"the first {_SAMPLE} questions of " if part.data.count > _SAMPLE else ""
        for model in models:
            line = unknown_words(model, texts, f"{some}{part.data.name}")
            if line is not None:
                yield line


def _tokenizer(model: PlannedModel) -> Any:
    from floatlens.models import names
    from floatlens.models.checkpoint import find
    from floatlens.models.tokenizer import load_tokenizer

    path = Path(names.resolve(model.config.ref)).expanduser()
    return load_tokenizer(find(str(path), None), byte_pair=False) if (path / "tokenizer.json").is_file() else None


def _spelt_out(tokenizer: Any, word: str) -> bool:
    """Whether a word is written in single characters, or with a token for what is not known."""
    ids = tokenizer(word, add_special_tokens=False)["input_ids"]
    return tokenizer.unk_token_id in ids or len(ids) >= len(word) > 1


def _texts(example: Example) -> list[str]:
    documents = [text for one in example.documents for text in (one.title, one.text)]
    return [example.question, example.passage or "", *example.answers, *documents]
