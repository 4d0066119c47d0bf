"""Data by reference: a file, a file of one of the paper's sets (`nq=FILE`), or questions of the scale world.

`open_data` reads everything through once, so that whatever is wrong is known before any model is loaded, and keeps
nothing but counts and a digest; `Data.examples` reads again. A file of any size costs the memory of its ids.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from floatlens.core.errors import FloatlensError, FloatlensWarning, did_you_mean
from floatlens.core.files import digest_of_file
from floatlens.data.examples import Example, Need, Tally, check_need, stream_examples
from floatlens.data.gold import mark_gold
from floatlens.data.sets import SetSpec, set_named

__all__ = ["SCALE_COUNT", "Data", "file_name", "open_data"]

SCALE_COUNT = 500
"""How many questions of the scale world are drawn where no limit says so."""

_SCALE = "scale:"
_NAMED = re.compile(r"([A-Za-z][\w-]*)=(.+)", re.DOTALL)


@dataclass(frozen=True)
class Data:
    """Checked questions. `count` are good; `bad` were left out, the first of them for the reasons in `problems`.

    `sha256` identifies the content: of a file its bytes, of scale questions what they are drawn from.
    """

    ref: str
    name: str
    title: str
    column: str
    format: str
    sha256: str
    count: int
    version: int | None = None
    documents: int | None = None
    gold: Literal["answer"] | None = None
    bad: int = 0
    problems: tuple[str, ...] = ()
    _read: Callable[[], Iterator[Example]] = field(repr=False, compare=False, default=lambda: iter(()))

    def examples(self) -> Iterator[Example]:
        """The good ones, streamed, in the order of the data; as often as they are asked for."""
        for example in self._read():
            if self.documents is not None:
                example = example.model_copy(update={"documents": example.documents[: self.documents]})
            yield example if self.gold is None else mark_gold(example)

    def described(self) -> dict[str, Any]:
        """What a manifest records of it."""
        kept = ("name", "version", "format", "sha256", "documents", "count", "bad", *(["gold"] if self.gold else []))
        return {key: getattr(self, key) for key in kept}


def open_data(
    ref: str | Path,
    *,
    format: str | None = None,
    limit: int | None = None,
    skip_bad: bool = False,
    need: Collection[Need] = (),
    documents: int | None = None,
    gold: Literal["answer"] | None = None,
) -> Data:
    """Find the data, read it through and refuse it if anything is wrong; with `skip_bad`, warn and leave that out.

    `need` says what every question must have. `documents` keeps the first so many documents of each; where it is not
    given, a set of the paper keeps as many as the paper shows, and other data all. In the scale world it is how many
    are drawn. With `gold` "answer" the documents that hold an accepted answer are gold, and no others (`mark_gold`).

    Example: `open_data("nq=nq_psg.jsonl", need=["answers"]).count`, `open_data("scale:rag:documents=5", limit=100)`
    """
    if documents is not None and documents < 1:
        raise FloatlensError(f"documents={documents}: expected at least 1, or None for all")
    if gold not in (None, "answer"):
        raise FloatlensError(f'gold="{gold}": expected "answer", or None for the marks of the data')
    text = str(ref)
    if text.startswith(_SCALE) and not Path(text).exists():
        if gold is not None:
            raise FloatlensError(f'{text}: questions of the scale world mark their gold; leave gold="{gold}" out')
        if format is not None:
            raise FloatlensError(f'{text}: questions of the scale world have no format; leave format="{format}" out')
        return _open_scale(text, limit, need, documents)
    path, spec = _which(text)
    settings = {"format": format or (spec.format if spec else None), "limit": limit, "need": need}
    tally = _read_through(path, settings, skip_bad)
    keep = spec.passages if spec and documents is None else documents
    found = _file_data(text, path, spec, tally, keep, lambda: _read_again(path, settings, skip_bad))
    return replace(found, gold=gold)


# -- files --------------------------------------------------------------------------------------------------------


def file_name(path: str | Path) -> str:
    """What records and traces call a file of questions, wherever it lies. `file_name("/a/nq.jsonl.gz")  # "nq"`"""
    name = Path(path).name
    return name.removesuffix(".gz").removesuffix(".jsonl").removesuffix(".json") or name


def _which(text: str) -> tuple[Path, SetSpec | None]:
    """`nq=FILE` is a set and its file, unless a file has just that name."""
    named = _NAMED.fullmatch(text)
    if named is None or Path(text).exists():
        return Path(text), None
    return Path(named[2]), set_named(named[1])


def _read_through(path: Path, settings: dict[str, Any], skip_bad: bool) -> Tally:
    tally = Tally()
    for _ in stream_examples(path, tally, tally.add, **settings):
        pass
    if tally.bad and not skip_bad:
        more = f" (and {tally.bad - 1} more in this file)" if tally.bad > 1 else ""
        raise FloatlensError(f"{tally.problems[0]}{more}; mend the file, or leave bad records out with skip_bad")
    if tally.bad:
        warnings.warn(tally.skipped(path), FloatlensWarning, stacklevel=3)
    if not tally.good:
        raise FloatlensError(f"{path}: no {'good ' if tally.bad else ''}example in it")
    return tally


def _read_again(path: Path, settings: dict[str, Any], skip_bad: bool) -> Iterator[Example]:
    def on_bad(problem: str) -> None:
        if not skip_bad:  # the file has changed since it was read through
            raise FloatlensError(problem)

    return stream_examples(path, Tally(), on_bad, **settings)


def _file_data(
    ref: str, path: Path, spec: SetSpec | None, tally: Tally, keep: int | None, read: Callable[[], Iterator[Example]]
) -> Data:
    stem = file_name(path)
    return Data(
        ref=ref,
        name=spec.name if spec else stem,
        title=spec.title if spec else stem,
        column=spec.column if spec else stem,
        version=spec.version if spec else None,
        format=tally.format or "",
        sha256=digest_of_file(path),
        count=tally.good,
        documents=keep,
        bad=tally.bad,
        problems=tuple(tally.problems),
        _read=read,
    )


# -- the scale world ----------------------------------------------------------------------------------------------


def _open_scale(ref: str, limit: int | None, need: Collection[Need], documents: int | None) -> Data:
    # imported here because the world itself makes Examples, and who reads files does not need it
    from floatlens.subjects.scale.examples import questions
    from floatlens.subjects.scale.sets import ALL_SETS
    from floatlens.subjects.scale.world import WORLD_VERSION

    which, *given = ref.removeprefix(_SCALE).split(":")
    if which not in ALL_SETS:
        raise FloatlensError(f'{ref}: no question set "{which}"{did_you_mean(which, ALL_SETS)}')
    if limit is not None and limit < 1:
        raise FloatlensError(f"limit={limit}: expected at least 1, or None for {SCALE_COUNT}")
    settings = _scale_settings(ref, given, documents)
    examples = questions(which, limit or SCALE_COUNT, **settings)
    for example in examples:
        try:
            check_need(example, need)
        except FloatlensError as error:  # true of one, true of all
            raise FloatlensError(f"{ref}: {error}") from None
    canonical = f"{which} {sorted(settings.items())} world {WORLD_VERSION}"
    return Data(
        ref=ref,
        name=ref,
        title=f"scale world, {which}",
        column=ref.removeprefix(_SCALE),
        version=WORLD_VERSION,
        format="scale",
        sha256=hashlib.sha256(canonical.encode()).hexdigest(),
        count=len(examples),
        _read=lambda: iter(examples),
    )


def _scale_settings(ref: str, given: list[str], documents: int | None) -> dict[str, Any]:
    """All settings, so that a default that is written out is the same data."""
    settings: dict[str, Any] = {"documents": 10 if documents is None else documents, "gold": None, "seed": 0}
    for item in given:
        key, _, value = item.partition("=")
        if key not in settings:
            raise FloatlensError(f'{ref}: no setting "{key}"{did_you_mean(key, settings)}')
        if not value.isascii() or not value.isdigit():
            raise FloatlensError(f'{ref}: {key} is "{value}"; expected a whole number, as in scale:rag:{key}=3')
        if key == "documents" and documents not in (None, int(value)):
            raise FloatlensError(f"{ref}: it says {value} documents, and documents={documents} was given; give one")
        settings[key] = int(value)
    return settings
