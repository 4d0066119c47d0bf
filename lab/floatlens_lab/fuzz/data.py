"""Damaged data files of every format, and corpora: values, bytes, layouts, packing, and lines without an end.

Content that was changed is other content, which no reader can notice. A field that is there twice and a packed file
that is damaged can be noticed, and have to be.
"""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random

from floatlens.core.errors import FloatlensError
from floatlens_lab.fuzz.junk import JUNK, change_kind, flipped, replaced_somewhere
from floatlens_lab.fuzz.subject import Outcome

__all__ = ["FIXTURES", "DataFiles"]

FIXTURES = Path(__file__).parents[3] / "tests" / "data" / "fixtures"
_PACK: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
_BYTES = (b"\x00", b"\xff", b"{", b"}", b"[", b'"', b",", b"\n", b"\\ud800", b"NaN", b"\t", b"\xef\xbb\xbf", b"#")
_LONG = 200 << 20
"""Bytes of a line that a packed file of a few hundred kilobytes holds."""
_CORPUS = ("corpus.jsonl", "dated.jsonl")
_DATED = [
    {"id": "a", "text": "Ann is a baker.", "added": "2020-01-02", "answers": {"q": ["baker"]}},
    {"id": "a", "text": "Ann is a cook.", "corrected": "2021", "answers": {"q": ["cook"]}},
    {"id": "b", "title": "Otto", "text": "Otto lives in Norvik.", "added": "2020-05", "withdrawn": "2022-03-04"},
]


class DataFiles:
    """The fixtures of the tests, one of each format, and two corpora."""

    count = 1000

    def prepare(self, folder: Path) -> None:
        for path in FIXTURES.iterdir():
            (folder / path.name).write_bytes(path.read_bytes())
        (folder / "dated.jsonl").write_text("".join(json.dumps(one) + "\n" for one in _DATED))
        _write_tables(folder)
        start, end = b'{"question": "', b'"}\n'
        with gzip.open(folder / "endless", "wb", compresslevel=1) as file:
            file.write(start)
            for _ in range(_LONG >> 20):
                file.write(b"x" * (1 << 20))
            file.write(end)

    def warm(self, folder: Path) -> None:
        for name in ("plain.jsonl", "table.parquet", *_CORPUS):
            _read(folder / name, None)

    def damage(self, folder: Path, rng: Random, target: Path) -> str:
        source = rng.choice(sorted(path for path in folder.iterdir() if path.is_file() and path.name != "endless"))
        kind = rng.choice(sorted(_DAMAGE) if source.suffix in (".json", ".jsonl") else ["bytes", "packed", "damaged"])
        if rng.random() < 0.01:
            source, kind = folder / "endless", "endless"
        elif rng.random() < 0.04:
            (target / source.name).write_bytes(b"")
            kind = change_kind(rng, target / source.name)
            if kind != "gone":
                (target / "note").write_text(json.dumps([source.name, kind, None, False]))
                return f"{source.name}: {kind}"
            kind = "bytes"
        content, ending = (source.read_bytes(), ".jsonl.gz") if kind == "endless" else _DAMAGE[kind](rng, source)
        name = source.name if kind != "endless" else "endless"
        (target / f"{name}{ending}").write_bytes(content)
        (target / "note").write_text(json.dumps([source.name, kind, rng.choice((None, None, 1)), rng.random() < 0.3]))
        return f"{source.name}: {kind}"

    def read(self, target: Path, folder: Path) -> Outcome:
        name, kind, limit, skip_bad = json.loads((target / "note").read_text())
        (path,) = (one for one in target.iterdir() if one.name != "note")
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found = _read(path, limit, skip_bad=skip_bad)
        if said:
            return "told"
        if found == _read(folder / name, limit, skip_bad=skip_bad):
            return "unchanged"
        return "different" if kind in ("twice", "damaged", "endless") else "another"


def _read(path: Path, limit: int | None, *, skip_bad: bool = False) -> list[str]:
    """Every question or passage of a file as a user gets them, and what is said of them."""
    from floatlens.data import open_data
    from floatlens.data.collection.versions import open_collection
    from floatlens.data.retrieval import open_index, read_corpus
    from floatlens.prompts.template import load_template, render

    if path.name.startswith("corpus"):
        passages = list(read_corpus(path, skip_bad=skip_bad))[:limit]
        open_index(path, skip_bad=skip_bad).search("Who is the baker?", 3)
        return [one.model_dump_json() for one in passages]
    if path.name.startswith("dated"):
        found = open_collection(path)
        return [found.sha256, *found.dates, *(one.model_dump_json() for one in found.about("q"))]
    data = open_data(path, limit=limit, skip_bad=skip_bad)
    said = [data.headline(), *data.notes(), *data.problems]
    if any("\n" in line or len(line) > 1500 for line in said):
        raise FloatlensError("\n".join(said))  # a long message
    examples = list(data.examples())
    template = load_template("default")
    for one in examples:
        render(template, one.question, one.documents)
    return [repr(one) for one in examples]


def _write_tables(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [{"id": f"q{i}", "question": f"What is {i}?", "answers": [str(i), "it"]} for i in range(20)]
    pq.write_table(pa.Table.from_pylist(rows), folder / "table.parquet")
    lines = ["id\tquestion\tanswers", *(f'{row["id"]}\t{row["question"]}\t["{row["id"]}"]' for row in rows)]
    (folder / "table.tsv").write_text("\n".join(lines) + "\n")


# -- damage -------------------------------------------------------------------------------------------------------


def _values(rng: Random, source: Path) -> tuple[bytes, str]:
    """One part of one record, or several, is something else."""
    raw, ending = source.read_bytes(), ""
    for _ in range(rng.choice((1, 1, 2, 4))):
        try:
            whole = [json.loads(line) for line in raw.splitlines()] if source.suffix == ".jsonl" else json.loads(raw)
        except (ValueError, RecursionError):
            break  # a number of 5,000 digits or a deep nesting is in it
        raw = replaced_somewhere(rng, whole)
        if source.suffix == ".jsonl":
            try:
                made = json.loads(raw)
            except (ValueError, RecursionError):
                return raw, ".json"
            if rng.random() < 0.3 or not isinstance(made, list):
                return raw, ".json"  # as one document
            raw = b"".join(json.dumps(one).encode() + b"\n" for one in made)
    return raw, ending


def _records(rng: Random, source: Path) -> tuple[bytes, str]:
    """A line or an element is no record at all."""
    lines = source.read_bytes().splitlines()
    lines.insert(rng.randrange(len(lines) + 1), json.dumps(rng.choice(JUNK)).encode())
    return b"\n".join(lines), ""


def _twice(rng: Random, source: Path) -> tuple[bytes, str]:
    raw = source.read_bytes()
    one = rng.choice(list(re.finditer(rb'"(\w+)": ?', raw)))
    return raw[: one.start()] + one[0] + b'"twice", ' + raw[one.start() :], ""


def _bytes(rng: Random, source: Path) -> tuple[bytes, str]:
    raw = source.read_bytes()
    at = rng.randrange(len(raw))
    kind = rng.choice(("cut", "replace", "insert", "flip", "doubled"))
    made = {
        "cut": raw[:at],
        "replace": raw[:at] + rng.choice(_BYTES) + raw[at + 1 :],
        "insert": raw[:at] + rng.choice(_BYTES) * rng.choice((1, 1, 5000)) + raw[at:],
        "flip": flipped(rng, raw),
        "doubled": raw + raw[at:],
    }
    return made[kind], ""


def _packed(rng: Random, source: Path) -> tuple[bytes, str]:
    """A file that is packed, perhaps under another name, and damaged inside."""
    ending = rng.choice(sorted(_PACK))
    content, _ = _bytes(rng, source)
    return _PACK[ending](content), rng.choice((ending, ending, "", ".gz"))


def _damaged(rng: Random, source: Path) -> tuple[bytes, str]:
    """A packed file, damaged behind the bytes that say how it is packed."""
    ending = rng.choice(sorted(_PACK))
    raw = _PACK[ending](source.read_bytes())
    at = rng.randrange(12, len(raw))
    return (raw[:at] if rng.random() < 0.5 else raw[:at] + bytes([raw[at] ^ 0xFF]) + raw[at + 1 :]), ending


_DAMAGE: dict[str, Callable[[Random, Path], tuple[bytes, str]]] = {
    "values": _values,
    "more values": _values,
    "records": _records,
    "twice": _twice,
    "bytes": _bytes,
    "packed": _packed,
    "damaged": _damaged,
}
