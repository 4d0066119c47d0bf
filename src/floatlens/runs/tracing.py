"""A resumable run of traces over examples: settle what was asked for, then trace what is not done yet.

Everything that can be wrong for all items alike is checked before any weights are read. What is wrong with one item is
put on record and the run goes on. It prints nothing: whoever runs it watches the records go by.
"""

from __future__ import annotations

import hashlib
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch

from floatlens.attention.probe import make_probes
from floatlens.attention.select import Select
from floatlens.core.errors import FloatlensError, FloatlensWarning
from floatlens.core.files import digest_of_file
from floatlens.data.sources import file_name
from floatlens.decoding import plan
from floatlens.decoding.registry import read_settings, sampler_for
from floatlens.decoding.target import open_settings
from floatlens.prompts import load_template
from floatlens.runs.records import Record
from floatlens.traces.store import SUFFIX
from floatlens.traces.tracing import DEFAULT_PROBES, trace, versions

if TYPE_CHECKING:
    from floatlens.data import Example
    from floatlens.models import LanguageModel, Pass
    from floatlens.models.facts import Facts
    from floatlens.runs.config import TraceRunConfig
    from floatlens.runs.folder import RunFolder
    from floatlens.traces import Trace
    from floatlens.traces.config import TraceConfig

_Config = TypeVar("_Config", bound="TraceConfig")

__all__ = [
    "FREE",
    "Watch",
    "described",
    "item_name",
    "manifest_of",
    "resolve",
    "trace_items",
    "trace_one",
    "uninterrupted",
]

FREE = (
    "config.data.limit",
    "config.data.path",
    "config.model.device",
    "config.model.device_map",
    "config.model.dtype",
    "data.examples",
    "data.name",
    "loaded.device",
    "versions",
)
"""Keys of a manifest that may change when a run is continued: none of them changes what an item's trace holds, but for
versions, which every trace records for itself. (What dtype means is settled by `loaded.dtype`.)"""


def item_name(index: int, id: str) -> str:
    """The name of an item and its files: its place, and a digest of its id, which itself may hold anything."""
    return f"{index:05d}-{hashlib.sha256(id.encode()).hexdigest()[:10]}"


# -- before the weights -------------------------------------------------------------------------------------------


def resolve(config: _Config, facts: Facts, *, forced: bool = False) -> _Config:
    """The same with nothing left open: sampler, all its settings, probes and layers; refuses what does not fit.

    Where texts are `forced`, what depends on their lengths stays open: each text has its own.
    """
    if facts.tokenizer is None:
        raise FloatlensError(f"{facts.ref} has no tokenizer, so it cannot be given questions")
    load_template(config.prompt.template)
    probes = DEFAULT_PROBES if config.capture.probes is None else config.capture.probes
    make_probes(probes)
    # of a model, choosing a sampler asks only for what the facts have as well
    sampler = sampler_for(cast("LanguageModel", facts), config.decoding.sampler)
    given = config.decoding.settings
    settings = open_settings(sampler, given) if forced else read_settings(sampler, given).model_dump(mode="json")
    changes = {
        "decoding": {"sampler": sampler.name, "settings": settings},
        "capture": {
            "probes": probes,
            "heads": config.capture.heads,
            "layers": Select(layers=config.capture.layers).layer_ids(facts.layers),
        },
    }
    return type(config).model_validate(config.model_dump() | changes)


def manifest_of(
    config: TraceRunConfig, facts: Facts, examples: Sequence[Example], before: dict[str, Any] | None = None
) -> dict[str, Any]:
    """What the run folder puts on record before the first item. `before` is its manifest when a run continues."""
    manifest: dict[str, Any] = {
        "kind": "trace",
        "format": 1,
        "config": config.model_dump(mode="json"),
        "template": load_template(config.prompt.template).label,
        "data": {
            "name": file_name(config.data.path),
            "sha256": digest_of_file(Path(config.data.path)),
            "examples": len(examples),
        },
        "model": asdict(facts),
        "versions": versions(),
    }
    if config.data.target is None:  # as it was before there was a choice, so that older runs go on
        del manifest["config"]["data"]["target"]
    same = (
        before is not None and before.get("kind") == "trace" and before["data"]["sha256"] == manifest["data"]["sha256"]
    )
    if before is not None and same:
        # the same questions from a file of another name are still the data set that the run began with
        manifest["data"]["name"] = before["data"].get("name") or file_name(before["config"]["data"]["path"])
    if before is not None and same and before["data"]["examples"] > len(examples):
        # a smaller --limit takes nothing back
        manifest["data"]["examples"] = before["data"]["examples"]
        manifest["config"]["data"]["limit"] = before["config"]["data"]["limit"]
    return manifest


# -- with the model -----------------------------------------------------------------------------------------------


class Watch:
    """Tells `report` how much of an item is done, pass by pass. Example: `with Watch(model, config, bar.part): …`

    Making one also checks the settings against the loaded model, for all items at once.
    """

    def __init__(self, model: LanguageModel, config: TraceConfig, report: Callable[[float], None]) -> None:
        self._model, self._report = model, report
        settings = dict(config.decoding.settings)
        if "gen_length" not in settings and "block_length" in settings:  # texts are forced, their lengths not known yet
            settings["gen_length"] = settings["block_length"]
        self._steps = plan(model, [0], sampler=config.decoding.sampler, **settings).max_steps
        self._passes = 0

    def begin(self, info: Pass) -> None:
        """Nothing to say yet."""

    def end(self) -> None:
        self._passes += 1
        self._report(self._passes / max(self._steps, 1))

    def restart(self) -> None:
        """The next pass belongs to another item."""
        self._passes = 0

    def __enter__(self) -> Watch:
        self._model.observers.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._model.observers.remove(self)


def trace_one(
    model: LanguageModel,
    config: TraceConfig,
    given: Mapping[str, Any],
    data: str | None = None,
) -> Trace:
    """One trace under a resolved configuration; running out of memory becomes an error that says what to do.

    `given` are the arguments of `trace` that say what is decoded (`Example.to_trace`); `data` names the data set that
    it is of, where it is of one.
    """
    try:
        return trace(
            model,
            **given,
            probes=config.capture.probes,
            select=Select(layers=config.capture.layers),
            heads=config.capture.heads,
            template=config.prompt.template,
            chat=config.prompt.chat,
            sampler=config.decoding.sampler,
            data=data,
            **config.decoding.settings,
        )
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise FloatlensError(
            f"out of memory on {model.device}; try heads=mean, fewer layers or probes, or fewer documents"
        ) from error


def trace_items(
    model: LanguageModel, config: TraceRunConfig, examples: Sequence[Example], run: RunFolder[Record], data: str
) -> Iterator[Record]:
    """Trace every example of `data` that is not done, and yield its record once it is on disk."""
    names = {item_name(index, example.id): (index, example) for index, example in enumerate(examples)}
    open_items = {name: item for name, item in names.items() if not run.done(name)}
    run.forget(lambda record: record.item in open_items)
    for name, (index, example) in open_items.items():
        blank = Record(item=name, index=index, id=example.id, status="done", question=example.question or None)
        yield _trace_item(model, config, example, run, blank, data)


def _trace_item(
    model: LanguageModel, config: TraceRunConfig, example: Example, run: RunFolder[Record], blank: Record, data: str
) -> Record:
    began = time.perf_counter()
    outcome: dict[str, Any] = {}
    found = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FloatlensWarning)
        try:
            found = trace_one(model, config, example.to_trace(config.data.target), data)
        except FloatlensError as error:
            outcome |= {"status": "failed", "error": str(error)}
    outcome["warnings"] = tuple(str(w.message) for w in caught if issubclass(w.category, FloatlensWarning))
    with uninterrupted():
        if found is not None:
            file = found.save(run.traces / f"{blank.item}{SUFFIX}")
            outcome |= described(found) | {"file": file.relative_to(run.path).as_posix()}
        outcome["seconds"] = round(time.perf_counter() - began, 3)
        record = blank.model_copy(update=outcome)
        run.add(record)
    return record


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let what is being written be finished: a first Ctrl-C waits until the end, a second one does not."""
    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's business
        yield
        return
    asked: list[int] = []
    before = signal.getsignal(signal.SIGINT)

    def wait(number: int, _: FrameType | None) -> None:
        asked.append(number)
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, wait)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if asked:
        raise KeyboardInterrupt


def described(found: Trace) -> dict[str, Any]:
    """What a record says of a trace; of a forced one no scores, for its answer is not the model's."""
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
