"""What `floatlens trace` does, with its bar and its lines: one question into a file, or a file of questions into a run.

Checks come in the order of their price: arguments, data, the model's configuration, what the folder holds, weights.
Anything worth doing without a terminal lives in `floatlens.runs`.
"""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from floatlens.cli.terminal import Bar, clean, console, duration, progress, say
from floatlens.core.errors import FloatlensError
from floatlens.runs.config import TraceRunConfig
from floatlens.traces.config import TraceConfig

if TYPE_CHECKING:
    from floatlens.data import Example
    from floatlens.models import LanguageModel
    from floatlens.models.facts import Facts
    from floatlens.runs import Record, RunFolder

__all__ = ["trace_data", "trace_question"]

_SUFFIX = ".zarr.zip"
_WARNINGS_SHOWN = 3


def trace_question(
    config: TraceConfig,
    out: Path,
    question: str,
    documents: Sequence[str] = (),
    gold: int | None = None,
    target: str | None = None,
) -> None:
    """One question into one trace file; `target` is written instead of the model's own answer."""
    out = _trace_file(out)
    if out.exists():
        raise FloatlensError(f"--out {out}: it is already there; remove it or give another name")
    if target is not None and not target.strip():
        raise FloatlensError("--target: expected a text that is not empty")
    facts = _look(config)
    from floatlens.runs.tracing import Watch, resolve, trace_one, uninterrupted

    config = resolve(config, facts, forced=target is not None)
    model = _load(config)
    with progress("tracing", 1) as bar, Watch(model, config, bar.part):
        given = {"question": question, "documents": documents, "gold": gold, "target": target}
        found = trace_one(model, config, given)
    from floatlens.cli.views import answer_view

    with uninterrupted():
        found.save(out)
    screen = console()
    screen.print(answer_view(found))
    screen.print(clean(f"\nsaved as {out}; look at it with: {shlex.join(['floatlens', 'show', str(out)])}"))


def _trace_file(out: Path) -> Path:
    """The file to write, its suffix added; its folder is made, so that a bad place is told before a model is loaded."""
    if not out.name or out.is_dir():
        raise FloatlensError(f"--out {out}: with --question it is a file, such as {out / 'one'}{_SUFFIX}")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FloatlensError(f"--out {out}: {error.strerror} ({out.parent})") from None
    if not os.access(out.parent, os.W_OK):
        raise FloatlensError(f"--out {out}: {out.parent} cannot be written to")
    return out if out.name.endswith(_SUFFIX) else out.with_name(out.name + _SUFFIX)


def trace_data(config: TraceRunConfig, out: Path, command: Sequence[str] = ()) -> int:
    """A file of questions into a run folder; returns the exit code. `command` is what the user can repeat."""
    session = _Session(out)
    try:
        _run(config, out, session)
    except KeyboardInterrupt:
        again = shlex.join(command) if command else "run the same command again"
        say(f"stopped with {session.done} of {session.total or 'all'} done; to continue: {again}")
        return 130
    return session.summary()


def _run(config: TraceRunConfig, out: Path, session: _Session) -> None:
    from floatlens.data import read_examples
    from floatlens.data.examples import need_of

    if out.name.endswith(_SUFFIX):
        raise FloatlensError(f"--out {out}: with --data it is a folder; give a name without {_SUFFIX}")
    data = config.data
    need = () if data.target is None else (need_of(data.target),)
    examples = list(read_examples(data.path, limit=data.limit, skip_bad=data.skip_bad, need=need))
    session.total = len(examples)
    say(f"{_questions(len(examples))} from {data.path}")
    facts = _look(config)
    from floatlens.runs import Record, RunFolder
    from floatlens.runs.tracing import FREE, item_name, manifest_of, resolve

    config = resolve(config, facts, forced=data.target is not None or examples[0].passage is not None)
    with RunFolder.open(out, Record) as run:
        manifest = manifest_of(config, facts, examples, before=run.manifest)
        run.check(manifest, free=(*FREE, "loaded"))
        names = [item_name(index, example.id) for index, example in enumerate(examples)]
        session.begin(sum(map(run.done, names)))
        if session.done == len(examples):
            return
        _warn_of_versions(run.manifest, manifest)
        model = _load(config)
        loaded = {"device": str(model.device), "dtype": str(model.dtype).removeprefix("torch.")}
        run.settle(manifest | {"loaded": loaded}, free=FREE)
        try:
            _trace_all(model, config, examples, run, session, manifest["data"]["name"])
        finally:
            session.done = sum(map(run.done, names))  # an item that was being written when Ctrl-C came counts too


def _trace_all(
    model: LanguageModel,
    config: TraceRunConfig,
    examples: Sequence[Example],
    run: RunFolder[Record],
    session: _Session,
    data: str,
) -> None:
    from floatlens.runs.tracing import Watch, trace_items

    with progress("tracing", len(examples), session.done) as bar, Watch(model, config, bar.part) as watch:
        for record in trace_items(model, config, examples, run, data):
            session.take(record, bar)
            watch.restart()


def _warn_of_versions(before: dict[str, Any] | None, now: dict[str, Any]) -> None:
    """A run may go on under other versions, since every trace records its own; but not unnoticed."""
    if before is None:
        return
    old, new = before.get("versions", {}), now["versions"]
    changed = [f"{name} {old.get(name)} before, {new[name]} now" for name in new if old.get(name) != new[name]]
    if changed:
        say(f"warning: this run continues under other versions: {'; '.join(changed)}")


class _Session:
    """Counts what became of the items, and says what a user should know at once."""

    def __init__(self, out: Path) -> None:
        self.out, self.total, self.done = out, 0, 0
        self._before, self._failed, self._warned = 0, 0, 0

    def begin(self, done: int) -> None:
        """How many were done before this session."""
        self.done = self._before = done
        if done:
            say(f"{done} of them done before")

    def take(self, record: Record, bar: Bar) -> None:
        """One more record: the bar moves, failures and the first warnings are said."""
        where = f"question {record.index} ({record.id})"
        if record.warnings:
            self._warned += 1
            self._warn(where, record.warnings)
        if record.status == "failed":
            self._failed += 1
            say(f"{where} failed: {record.error}")
        else:
            self.done += 1
        bar.item(f"{record.question or record.id} → {record.answer or record.status}")

    def _warn(self, where: str, messages: Sequence[str]) -> None:
        if self._warned <= _WARNINGS_SHOWN:
            for message in messages:
                say(f"warning: {where}: {message}")
        elif self._warned == _WARNINGS_SHOWN + 1:
            say(f"warning: more warnings like these stand in {self.out / 'records.jsonl'}")

    def summary(self) -> int:
        """The last line, on stdout; and the exit code."""
        parts = [f"{self.done} of {_questions(self.total)} traced in {self.out}"]
        if self._before:
            parts.append(f"{self._before} of them before")
        if self._warned:
            parts.append(f"{self._warned} with warnings")
        if self._failed:
            parts.append(f"{self._failed} failed, see {self.out / 'records.jsonl'}")
        sys.stdout.write(clean("; ".join(parts)) + "\n")
        return 1 if self._failed else 0


def _questions(count: int) -> str:
    return "1 question" if count == 1 else f"{count} questions"


def _look(config: TraceConfig) -> Facts:
    from floatlens.models.facts import look

    model = config.model
    return look(model.ref, family=model.family, revision=model.revision)


def _load(config: TraceConfig) -> LanguageModel:
    from floatlens.models import load

    say(f"loading {config.model.ref}")
    began = time.monotonic()
    options: dict[str, Any] = config.model.model_dump(exclude={"ref"})
    model = load(config.model.ref, **options)
    size = f"{model.num_layers} layers, {model.num_heads} heads"
    kind = str(model.dtype).removeprefix("torch.")
    say(f"{model.family}, {size}, {kind} on {model.device}; loaded in {duration(time.monotonic() - began)}")
    return model
