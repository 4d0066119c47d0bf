"""Data by reference: a file, a set of the paper (`nq=FILE`), of the hub (`hub:OWNER/NAME:SPLIT`), or a question source
(`scale:rag`).

`open_data` reads everything once, so any mistake is known before a model is loaded, and keeps only counts and a digest;
`Data.examples` reads again. A file of any size takes the memory of its ids.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from floatlens.core.borders import check_reference
from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.core.files import digest_of_file
from floatlens.core.registry import Registry
from floatlens.data.collection.versions import DatedCollection, open_collection
from floatlens.data.compression import check_whole
from floatlens.data.examples import Example, Need, check_need, mark_gold
from floatlens.data.formats import FORMATS
from floatlens.data.hub import is_hub, open_hub
from floatlens.data.paper_files import paper_note
from floatlens.data.reader import Tally, stream_examples
from floatlens.data.summary import Counts
from floatlens.data.tables import stem_of

__all__ = ["QUESTION_SOURCES", "SETS", "Data", "Questions", "is_source", "open_data"]

_NAMED = re.compile(r"([A-Za-z][\w-]*)=(.+)", re.DOTALL)


@dataclass(frozen=True)
class SetSpec:
    """How a file of a named set is read, and what the set is called.

    `passages` is how many documents the paper shows; raise `version` when the same file would give other examples.
    """

    name: str
    title: str
    column: str
    version: int | None = 1
    format: str | None = "psg"
    passages: int | None = 5


SETS = {
    spec.name: spec
    for spec in (
        SetSpec("nq", "Natural Questions", "NQ"),
        SetSpec("tqa", "TriviaQA", "TQA"),
        SetSpec("marcoqa", "MS MARCO QA", "MarcoQA"),
        SetSpec("hotpotqa", "HotpotQA", "HotpotQA"),
        SetSpec("trex", "T-REx", "T-REx"),
    )
}
"""The paper's data sets by name, in the order of the columns of Table 1 (arXiv 2601.07894)."""


@dataclass(frozen=True)
class Questions:
    """What a question source gives: examples, and `identity`, a text that is the same for the same questions."""

    examples: Sequence[Example]
    title: str
    version: int
    identity: str
    collection: DatedCollection | None = None
    """Dated documents that the questions are about."""
    name: str | None = None
    """What the data is called; None: as it was asked for."""


QUESTION_SOURCES: Registry[Callable[..., Questions]] = Registry(
    "question source",
    "floatlens.question_sources",
    {
        "scale": "floatlens.subjects.scale.source:open_questions",
        "timeqa": "floatlens.data.collection.timeqa:open_questions",
    },
)
"""Questions that are made and not read from a file, by the word before the colon of a reference.

A source takes what is after the colon and the keywords `limit` and `documents`, None for its own choice.
"""


@dataclass(frozen=True)
class Data:
    """Checked questions. `count` are good; `bad` were left out, the first of them for the reasons in `problems`.

    `sha256` identifies the content: the bytes of a file, or the identity of questions that are made. `reason` says why
    a file was taken for its format, `paper` whether it is one of the paper's; `left_out` records held no question.
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
    reason: str = ""
    left_out: int = 0
    paper: str | None = None
    counts: Counts = field(repr=False, compare=False, default_factory=Counts)
    collection: DatedCollection | None = field(repr=False, compare=False, default=None)
    _read: Callable[[], Iterator[Example]] = field(repr=False, compare=False, default=lambda: iter(()))
    _read_all: Callable[[], Iterator[Example]] | None = field(repr=False, compare=False, default=None)

    def examples(self) -> Iterator[Example]:
        """The good ones, streamed, in the order of the data; may be called any number of times."""
        for example in self._read():
            yield _finished(example, self.documents, self.gold)

    def everything(self) -> Iterator[Example]:
        """Those of the whole file, whatever the limit: the questions whose documents make up a collection."""
        for example in (self._read_all or self._read)():
            yield _finished(example, self.documents, self.gold)

    def headline(self) -> str:
        """What it was taken for. Example: "HotpotQA, distractor setting: 200 questions, 10 documents each, …"."""
        known = FORMATS[self.format]() if self.format in FORMATS else None
        words = [known.title, known.setting(self.counts.missing_gold)] if known is not None else [self.title]
        return f"{', '.join(filter(None, words))}: {self.counts.sentence()}"

    def notes(self) -> list[str]:
        """What a user should know of it, one line each: records left out, no answers, no gold, the paper's own file."""
        found = [self.paper] if self.paper else []
        if self.bad:
            found.append(f"{self.bad:,} bad record{'s' * (self.bad > 1)} skipped; the first: {self.problems[0]}")
        if self.left_out:
            found.append(f"{self.left_out:,} left out: {FORMATS[self.format].left_out}")
        if self.collection is not None:
            found.append(f"a changing collection: {self.collection.sentence()}")
        return found + self.counts.notes()

    def described(self) -> dict[str, Any]:
        """What a manifest records of it."""
        kept = ("name", "version", "format", "sha256", "documents", "count", "bad", *(["gold"] if self.gold else []))
        found = {key: getattr(self, key) for key in kept}
        return found if self.collection is None else found | {"collection": self.collection.sha256}


def open_data(
    ref: str | Path,
    *,
    format: str | None = None,
    limit: int | None = None,
    skip_bad: bool = False,
    need: Collection[Need] = (),
    documents: int | None = None,
    gold: Literal["answer"] | None = None,
    collection: str | Path | None = None,
) -> Data:
    """Find the data, read it once and refuse it if anything is wrong; with `skip_bad`, warn and leave that out.

    `need` says what every question must have. `documents` keeps the first N documents of each; without it, a set of the
    paper keeps as many as the paper shows, and other data all. For a question source it is how many are drawn. With
    `gold` "answer" the documents that hold an accepted answer are gold, and no others (`mark_gold`). `collection` is a
    file of dated documents; a question without answers of its own has the last ones that its documents state.

    Example: `open_data("nq=nq_psg.jsonl", need=["answers"]).count`, `open_data("scale:rag:documents=5", limit=100)`
    """
    for name, value in (("documents", documents), ("limit", limit)):
        if value is not None and value < 1:
            raise FloatlensError(f"{name}={value}: expected at least 1, or None for all")
    if gold not in (None, "answer"):
        raise FloatlensError(f'gold="{gold}": expected "answer", or None for the marks of the data')
    text = check_reference(str(ref))
    if not is_source(text):
        found = None if collection is None else open_collection(collection)
        wanted = need if found is None else [one for one in need if one != "answers"]
        data = _open_file(text, skip_bad, documents, gold, format=format, limit=limit, need=wanted)
        return data if found is None else _with_collection(data, found, str(collection))
    if collection is not None:
        raise FloatlensError(f"{text}: these questions are made, and so is their collection; leave {collection} out")
    if gold is not None:
        raise FloatlensError(f'{text}: these questions mark their gold documents; leave gold="{gold}" out')
    if format is not None:
        raise FloatlensError(f'{text}: these questions are not read from a file; leave format="{format}" out')
    return _open_source(text, limit, need, documents)


def _with_collection(data: Data, found: DatedCollection, path: str) -> Data:
    """The data with its dated documents, which must answer some of its questions."""
    if not any(found.about(example.id) for example in data.examples()):
        raise FloatlensError(
            f"{path}: no document answers a question of {data.ref}; give answers by the id of the question, such as "
            f'"answers": {{"{next(data.examples()).id}": ["…"]}}'
        )
    read = data._read
    return replace(data, collection=found, _read=lambda: (_answered(example, found) for example in read()))


def _answered(example: Example, collection: DatedCollection) -> Example:
    """With the last answers of its documents, if it has none of its own."""
    about = collection.about(example.id)
    if example.answers or not about:
        return example
    last = max(about, key=lambda version: version.start)
    return example.model_copy(update={"answers": list(last.answers[example.id])})


def is_source(ref: str) -> bool:
    """Whether a reference names a question source, and no file of that name exists."""
    name, colon, _ = ref.partition(":")
    return bool(colon) and name in QUESTION_SOURCES and not Path(ref).exists()


def _open_file(
    ref: str, skip_bad: bool, documents: int | None, gold: Literal["answer"] | None, **settings: Any
) -> Data:
    path, spec = _path_and_set(ref)
    settings["format"] = settings["format"] or spec.format
    shown = spec.passages if documents is None else documents
    tally, counts = Tally(skip_bad=True), Counts()
    for example in stream_examples(path, tally, **settings):
        counts.add(_finished(example, shown, gold))
    if tally.bad and not skip_bad:
        more = f" (and {tally.bad - 1} more in this file)" if tally.bad > 1 else ""
        said = f"{tally.problems[0]}{more}"
        then = " Fix" if said.endswith("?") else "; fix"
        raise FloatlensError(f"{said}{then} the file, or leave bad records out with skip_bad")
    tally.finish(path, "example", stacklevel=3)
    digest, paper = _digest(path, limited=settings["limit"] is not None)
    return Data(
        ref=ref,
        name=spec.name,
        title=spec.title,
        column=spec.column,
        version=spec.version,
        format=tally.format,
        sha256=digest,
        count=tally.good,
        documents=shown,
        gold=gold,
        bad=tally.bad,
        problems=tuple(tally.problems),
        reason=tally.reason,
        left_out=tally.left_out,
        paper=paper,
        counts=counts,
        _read=lambda: stream_examples(path, Tally(skip_bad), **settings),  # the file may have changed since
        _read_all=lambda: stream_examples(path, Tally(skip_bad), **{**settings, "limit": None, "need": ()}),
    )


def _digest(path: Path | str, *, limited: bool) -> tuple[str, str | None]:
    """The digest of a file, which must be whole, or of a data set of the hub; and whether it is one of the paper's."""
    if isinstance(path, str):
        return open_hub(path).sha256, None
    if limited:
        check_whole(path)
    digest = digest_of_file(path)
    return digest, paper_note(path, digest)


def _finished(example: Example, documents: int | None, gold: Literal["answer"] | None) -> Example:
    """With the first documents only, and gold by the answer where asked for."""
    if documents is not None:
        example = example.model_copy(update={"documents": example.documents[:documents]})
    return example if gold is None else mark_gold(example)


def _path_and_set(ref: str) -> tuple[Path | str, SetSpec]:
    if is_hub(ref):
        title = open_hub(ref).title
        return ref, SetSpec(ref, title, title, version=None, format=None, passages=None)
    named = None if Path(ref).exists() else _NAMED.fullmatch(ref)  # nq=FILE, unless a file has just that name
    if named is None:
        name = stem_of(Path(ref))
        return Path(ref), SetSpec(name, name, name, version=None, format=None, passages=None)
    if named[1] not in SETS:
        raise FloatlensError(f'no data set "{named[1]}"{did_you_mean(named[1], SETS)}')
    return Path(named[2]), SETS[named[1]]


def _open_source(ref: str, limit: int | None, need: Collection[Need], documents: int | None) -> Data:
    name, _, rest = ref.partition(":")
    try:
        found = QUESTION_SOURCES[name](rest, limit=limit, documents=documents)
        for example in found.examples:
            check_need(example, need)
    except FloatlensError as error:
        raise FloatlensError(f"{ref}: {error}") from None
    return Data(
        ref=ref,
        name=found.name or ref,
        title=found.title,
        column=found.name or rest,
        version=found.version,
        format=name,
        sha256=hashlib.sha256(found.identity.encode()).hexdigest(),
        count=len(found.examples),
        counts=Counts.of(found.examples),
        collection=found.collection,
        _read=lambda: iter(found.examples),
    )
