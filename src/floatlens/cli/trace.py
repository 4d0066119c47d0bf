"""`floatlens trace`: one question into a trace file, or data sets into a run of traces."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from floatlens.cli.commands import option
from floatlens.cli.options import Gold, ModelOptions, Models, StudyOptions
from floatlens.cli.parsing import parse_names, parse_numbers
from floatlens.cli.studies import run_study
from floatlens.cli.terminal import Bar, clean, console, duration, progress, say
from floatlens.core.errors import FloatlensError

if TYPE_CHECKING:
    from floatlens.models import LanguageModel
    from floatlens.runs.models import PlannedModel

__all__ = ["trace"]

_SUFFIX = ".zarr.zip"
_question = partial(option, panel="One question")
_capture = partial(option, panel="Capture")
_PROBES = "received, entropy, flow, answer_rows, rollout, qk, extremes"


@dataclass(frozen=True)
class QuestionOptions:
    """One question, instead of data."""

    question: Annotated[str | None, _question("One question, instead of --data.", metavar="TEXT")] = None
    document: Annotated[list[str] | None, _question("Document for --question. Repeatable.", metavar="TEXT")] = None
    gold_document: Annotated[int | None, _question("Which --document contains the answer, counted from 0.")] = None


@dataclass(frozen=True)
class CaptureOptions:
    """What is decoded and recorded."""

    target: Annotated[
        str | None,
        _capture(
            "Force this text instead of the model's own answer. With --data: field (the record's target) or answer "
            "(its first accepted answer).",
            metavar="TEXT",
        ),
    ] = None
    probes: Annotated[str | None, _capture("Comma-separated probes.", metavar="NAMES", default=_PROBES)] = None
    heads: Annotated[Literal["all", "mean"], _capture("Keep every head, or their mean.")] = "all"
    layers: Annotated[
        str | None, _capture("Comma-separated layers, such as 0,1,-1.", metavar="NUMBERS", default="all")
    ] = None

    backend: Annotated[
        Literal["auto", "rows", "fused"],
        _capture("Capture by rows of weights, or by fused attention with log-sum-exps; auto: fused on GPUs."),
    ] = "auto"

    def values(self) -> dict[str, Any]:
        """As options of the preset, and of `floatlens.trace`."""
        probes, layers = parse_names(self.probes, "--probes"), parse_numbers(self.layers, "--layers", "0,1,-1")
        return {"probes": probes, "heads": self.heads, "layers": layers, "backend": self.backend}


def trace(
    context: typer.Context,
    models: Models,
    out: Annotated[Path, option("Run folder; with --question, the trace file.", metavar="PATH")],
    data: Annotated[
        list[str] | None,
        option("Questions: a file or scale questions (scale:rag:documents=5). Repeatable.", metavar="REF"),
    ] = None,
    gold: Gold = None,
    controls: Annotated[
        int, option("Trace also N copies of each model with shuffled weights, as controls.", min=0, metavar="N")
    ] = 0,
    *,
    asked: QuestionOptions,
    capture: CaptureOptions,
    common: StudyOptions,
) -> None:
    """Record the attention of each decoding step.

    With --question, one trace file is written. With --data, a run folder: one trace per question, then tables, figures,
    claims and report. Running the same command again continues where it stopped.
    """
    if (data is None) == (asked.question is None):
        raise FloatlensError("give either --data REF or --question TEXT")
    if data is None:
        _refuse(common, gold, controls, models)
        _trace_question(models[0], out, asked, capture, common)
        return
    target = capture.target
    if asked.document or asked.gold_document is not None:
        raise FloatlensError("--document and --gold-document go with --question; with --data they are in the file")
    if target not in (None, "field", "answer"):
        raise FloatlensError(f"--target {target!r}: with --data, give field or answer; a text goes with --question")
    _check_length(capture, common)
    from floatlens.runs.presets import trace_study

    forced: dict[str, Any] = {"target": target}
    study = trace_study(models, data, **forced, gold=gold, controls=controls, **capture.values(), **common.values())
    raise typer.Exit(run_study(study, out, context, common.output, common.machine))


def _check_length(capture: CaptureOptions, common: StudyOptions) -> None:
    if capture.target is not None and "gen_length" in common.decoding.values()["settings"]:
        raise FloatlensError("--target: a forced text has a length of its own; leave gen_length out")


def _refuse(common: StudyOptions, gold: str | None, controls: int, models: list[str]) -> None:
    """Options that mean nothing for one question."""
    if len(models) > 1:
        raise FloatlensError("--question: give one MODEL")
    groups: tuple[Any, ...] = (common.reading, common.output, common.machine)
    given = [name for group in groups for name, value in vars(group).items() if value != getattr(type(group), name)]
    given += ["gold"] if gold is not None else []
    given += ["controls"] if controls else []
    if given:
        raise FloatlensError(f"--{given[0].replace('_', '-')} goes with --data, not with --question")


def _trace_question(ref: str, out: Path, asked: QuestionOptions, capture: CaptureOptions, common: StudyOptions) -> None:
    """One question into one trace file. What can be wrong is checked before the model is loaded."""
    out = _trace_file(out)
    documents, gold, target = asked.document or [], asked.gold_document, capture.target
    if gold is not None and not 0 <= gold < len(documents):
        raise FloatlensError(f"--gold-document {gold}: there is no such document; give it with --document")
    if target is not None and not target.strip():
        raise FloatlensError("--target: the text is empty")
    _check_length(capture, common)
    planned = _planned(ref, capture, common)
    _say_unknown_words(planned, [asked.question or "", *documents, target or ""])
    settings: dict[str, Any] = {"sampler": planned.ask.decoding.sampler}
    settings |= planned.ask.decoding.settings if target is None else planned.forced
    model = _load(ref, common.loading)
    import torch

    from floatlens.attention.select import Select
    from floatlens.cli.views import answer_view
    from floatlens.traces.tracing import trace as trace_one

    given: dict[str, Any] = {"question": asked.question, "documents": documents, "gold": gold, "target": target}
    given |= planned.capture.model_dump(include={"probes", "heads", "backend"}) | common.prompt.values() | settings
    with progress("tracing", 1) as bar, _watched(model, settings, bar):
        try:
            found = trace_one(model, select=Select(layers=planned.capture.layers), **given)
        except (torch.OutOfMemoryError, MemoryError) as error:
            hint = "try --heads mean, fewer --layers or --probes, or fewer documents"
            raise FloatlensError(f"out of memory on {model.device}; {hint}") from error
    found.save(out)
    console().print(answer_view(found))
    sys.stdout.write(clean(f"saved as {out}; look at it with: {shlex.join(['floatlens', 'show', str(out)])}") + "\n")


def _trace_file(out: Path) -> Path:
    """The file to write, with its suffix; its folder is made."""
    if not out.name or out.is_dir():
        raise FloatlensError(f"--out {out}: with --question, give a file, such as {out / 'one'}{_SUFFIX}")
    out = out if out.name.endswith(_SUFFIX) else out.with_name(out.name + _SUFFIX)
    if out.exists():
        raise FloatlensError(f"--out {out}: the file exists; remove it or give another name")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FloatlensError(f"--out {out}: {error.strerror} ({out.parent})") from None
    if not os.access(out.parent, os.W_OK):
        raise FloatlensError(f"--out {out}: {out.parent} is not writable")
    return out


def _planned(ref: str, capture: CaptureOptions, common: StudyOptions) -> PlannedModel:
    """The model with sampler, settings and capture decided, as in a study of it alone; no weights are read."""
    from floatlens.probes import make_probes
    from floatlens.runs.models import plan_models
    from floatlens.runs.presets import trace_study
    from floatlens.runs.study_file import read_study

    study = trace_study([ref], ["one question"], **capture.values(), **common.values())
    (planned,) = plan_models(read_study(study), forced=capture.target is not None, say=say)
    make_probes(planned.capture.probes or ())
    return planned


def _say_unknown_words(planned: PlannedModel, texts: list[str]) -> None:
    from floatlens.runs.models import unknown_words

    line = unknown_words(planned, texts, "the prompt")
    if line is not None:
        say(line)


def _load(ref: str, loading: ModelOptions) -> LanguageModel:
    from floatlens.models import load

    say(f"loading {ref}")
    began = time.monotonic()
    model = load(ref, **loading.values())
    size = f"{model.num_layers} layers, {model.num_heads} heads"
    dtype = str(model.dtype).removeprefix("torch.")
    say(f"{model.family}, {size}, {dtype} on {model.device}; loaded in {duration(time.monotonic() - began)}")
    return model


@contextmanager
def _watched(model: LanguageModel, settings: Mapping[str, Any], bar: Bar) -> Iterator[None]:
    """Move the bar with each forward pass."""
    from floatlens.decoding import plan

    try:
        steps = plan(model, [0], **settings).max_steps
    except FloatlensError:  # the prompt itself is refused in better words, or its length decides
        yield
        return
    watch = _Watch(steps, bar)
    model.observers.append(watch)
    try:
        yield
    finally:
        model.observers.remove(watch)


class _Watch:
    """Counts forward passes."""

    def __init__(self, steps: int, bar: Bar) -> None:
        self._steps, self._bar, self._passes = max(steps, 1), bar, 0

    def begin(self, info: Any) -> None:
        """Nothing to show yet."""

    def end(self) -> None:
        self._passes += 1
        self._bar.part(self._passes / self._steps)
