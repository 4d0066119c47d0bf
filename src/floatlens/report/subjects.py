"""Which traces the explorer shows: the same few questions for every model, spread over the places of the gold document.

Traces are only looked at (sizes and words), no attention is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from floatlens.analysis.flow import documents_of, gold_of
from floatlens.models.course import earlier
from floatlens.plots.description import Look
from floatlens.plots.style import looks_of
from floatlens.traces import Trace, open_trace
from floatlens.traces.schema import ALWAYS

__all__ = ["Choice", "Seen", "choose", "look", "names_of", "opened", "subjects_of"]

Key = tuple[Any, ...]
_LONGEST = 300  # characters of a question or a title; the whole of it is in the tokens


@dataclass(frozen=True)
class Seen:
    """What a trace is of, without its numbers."""

    source: Trace | Path
    subject: Key
    example: Key
    words: dict[str, Any]
    model: dict[str, Any]
    settings: dict[str, str]
    sizes: dict[str, int]

    @property
    def is_control(self) -> bool:
        """Whether the model is a control of another, such as one with shuffled weights."""
        return self.model.get("control") is not None

    @property
    def course(self) -> Mapping[str, Any] | None:
        """Name, step, tokens and origin of a model that is a snapshot of a training course."""
        found: Mapping[str, Any] | None = self.model.get("course")
        return found

    def open(self) -> Trace:
        return self.source if isinstance(self.source, Trace) else opened(open_trace(self.source))


@dataclass(frozen=True)
class Choice:
    """What the explorer holds: a look and a kind for each subject, words for each example, traces by both places.

    A subject is a model, or a model under settings that set it apart from the same model in other traces. `left_out`
    counts the examples that are in the runs and not here.
    """

    subjects: dict[str, tuple[Look, str]]
    examples: list[dict[str, Any]]
    shown: dict[tuple[int, int], Seen]
    left_out: int


def subjects_of(seen: Sequence[Seen]) -> list[Seen]:
    """The traces of the models that a report is about: no controls, and of a training course the last snapshot."""
    own = [one for one in seen if not one.is_control]
    passed = earlier({one.model["ref"]: one.course for one in own})
    return [one for one in own if one.model["ref"] not in passed]


def opened(trace: Trace) -> Trace:
    """The same with its small arrays in memory: they are asked for many times, and each time costs a file's reading."""
    for name in ALWAYS:
        trace.data[name].load()
    return trace


def look(trace: Trace, file: Path | None = None, run: str | None = None) -> Seen:
    """Look at a trace; with its file, it is opened again when it is needed. A `run` sets it apart from other runs."""
    attrs = trace.data.attrs
    prompt, decoding = attrs["prompt"], attrs["decoding"]
    question, titles, gold = prompt.get("question"), prompt.get("titles") or [], gold_of(trace)
    settings = {} if run is None else {"run": run}
    settings |= {"template": str(prompt.get("template")), "sampler": str(decoding.get("sampler"))}
    forced = bool(decoding.get("forced"))
    own = {"seed", "gen_length", "steps", "block_length"} if forced else {"seed"}  # a forced text has its own length
    settings |= {str(key): str(value) for key, value in (decoding.get("settings") or {}).items() if key not in own}
    settings |= {"forced": "true"} if forced else {}
    settings["edits"] = " + ".join(map(str, attrs.get("edits") or [])) or "none"
    if prompt.get("passage") is not None:  # of which an autoregressive model sees only a part
        example: Key = ("passage", prompt["passage"])
    elif question is None:
        length = decoding.get("prompt_length", trace.data.sizes["key"])
        example = ("ids", tuple(trace.data["final"].values[:length].tolist()))
    else:
        example = ("question", question, tuple(titles), gold)
    words = {
        "question": question if question is None else question[:_LONGEST],
        "titles": [title[:_LONGEST] for title in titles],
        "gold": gold,
        "documents": len(documents_of(trace)),
    }
    sizes = {str(dim): int(size) for dim, size in trace.data.sizes.items()}
    subject = (trace.model["ref"], tuple(settings.items()))
    return Seen(file or trace, subject, example, words, trace.model, settings, sizes)


def choose(seen: Sequence[Seen], most: int, style: Mapping[str, Look] | None = None) -> Choice:
    """At most so many examples: those that most models have, taking turns between the places of the gold document."""
    subjects = list(dict.fromkeys(one.subject for one in seen))
    having: dict[Key, dict[Key, Seen]] = {}
    for one in seen:
        having.setdefault(one.example, {}).setdefault(one.subject, one)
    by_condition: dict[Key, list[Key]] = {}
    for example, held in having.items():
        words = next(iter(held.values())).words
        by_condition.setdefault((words["documents"], words["gold"]), []).append(example)
    for examples in by_condition.values():
        examples.sort(key=lambda example: -len(having[example]))  # stable: else in the order they came
    turns = chain.from_iterable(zip_longest(*by_condition.values()))
    picked = [example for example in turns if example is not None][:most]
    picked.sort(key=list(having).index)
    present = [one for one in subjects if any(one in having[example] for example in picked)]
    shown = {
        (present.index(subject), place): having[example][subject]
        for place, example in enumerate(picked)
        for subject in present
        if subject in having[example]
    }
    names, kind = names_of(seen), {one.subject: str(one.model["kind"]) for one in seen}
    style = style or looks_of({names[key]: kind[key] for key in present})
    named = {names[key]: (style[names[key]], kind[key]) for key in present}
    words_of = [next(iter(having[example].values())).words for example in picked]
    return Choice(named, words_of, shown, len(having) - len(picked))


def names_of(seen: Sequence[Seen]) -> dict[Key, str]:
    """A name for every subject: the model's, and the settings in which it differs from others of the same model."""
    first: dict[Key, Seen] = {}
    for one in seen:
        first.setdefault(one.subject, one)
    found = {}
    for key, one in first.items():
        ref = one.model["ref"]
        twins = [other.settings for other in first.values() if other is not one and other.model["ref"] == ref]
        found[key] = " · ".join([ref, *_apart(one.settings, twins)])
    return found


def _apart(settings: Mapping[str, str], others: Sequence[Mapping[str, str]]) -> list[str]:
    """The settings in which a subject differs from others of the same model; no stroke, which would end a path."""
    names = [name for name in settings if any(other.get(name) != settings[name] for other in others)]
    return [f"{name} {settings[name]}".replace("/", "\u2215").replace("\\", "\u2216") for name in names]
