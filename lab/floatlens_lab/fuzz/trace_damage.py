"""Ways to damage a trace file: `DAMAGE` works on its entries, `FILE_DAMAGE` on the zip file as a whole."""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from floatlens_lab.fuzz.archives import Entries
from floatlens_lab.fuzz.junk import flipped, replaced_somewhere

__all__ = ["DAMAGE", "FILE_DAMAGE"]


def _pieces(entries: Entries) -> list[str]:
    return sorted(name for name in entries if "/c" in name)


def _described(rng: Random, entries: Entries) -> tuple[str, dict[str, Any]]:
    """A random array's description, as far as it still is one."""
    name = rng.choice(sorted(name for name in entries if name.endswith("/zarr.json")))
    try:
        found = json.loads(entries[name])
    except ValueError:
        found = {}
    return name, found if isinstance(found, dict) else {}


def _delete(rng: Random, entries: Entries) -> Entries:
    gone = rng.choice(_pieces(entries))
    return {name: content for name, content in entries.items() if name != gone}


def _delete_array(rng: Random, entries: Entries) -> Entries:
    gone = rng.choice(_pieces(entries)).partition("/")[0]
    return {name: content for name, content in entries.items() if not name.startswith(f"{gone}/")}


def _swap(rng: Random, entries: Entries) -> Entries:
    one, two = rng.sample(_pieces(entries), 2)
    return entries | {one: entries[two], two: entries[one]}


def _swap_within(rng: Random, entries: Entries) -> Entries:
    """Two pieces of one array, which no shape gives away."""
    arrays: dict[str, list[str]] = {}
    for name in _pieces(entries):
        arrays.setdefault(name.partition("/")[0], []).append(name)
    several = [names for names in arrays.values() if len(names) > 1]
    if not several:
        return _swap(rng, entries)
    one, two = rng.sample(rng.choice(several), 2)
    return entries | {one: entries[two], two: entries[one]}


def _copy(rng: Random, entries: Entries) -> Entries:
    one, two = rng.sample(_pieces(entries), 2)
    return entries | {one: entries[two]}


def _flip(rng: Random, entries: Entries) -> Entries:
    name = rng.choice(_pieces(entries))
    return entries | {name: flipped(rng, entries[name])}


def _flip_description(rng: Random, entries: Entries) -> Entries:
    name = rng.choice(sorted(name for name in entries if name.endswith("zarr.json")))
    return entries | {name: flipped(rng, entries[name])}


def _cut(rng: Random, entries: Entries) -> Entries:
    name = rng.choice(sorted(entries))
    return entries | {name: entries[name][: rng.randrange(max(1, len(entries[name])))]}


def _repack(rng: Random, entries: Entries) -> Entries:
    """Other numbers in one piece, packed as they should be."""
    from numcodecs import Zstd  # type: ignore[import-untyped]

    name = rng.choice(_pieces(entries))
    try:
        size = len(Zstd().decode(entries[name]))
    except (RuntimeError, ValueError):
        return entries
    kinds: dict[str, list[float]] = {"float": [np.nan, np.inf, -1.0, 1e38], "int": [-1, 2**31 - 1, -(2**31), 10**6]}
    kind = rng.choice(sorted(kinds))
    values = np.full(-(-size // 4), rng.choice(kinds[kind]), dtype="<f4" if kind == "float" else "<i4")
    return entries | {name: Zstd(level=0).encode(values.tobytes()[:size])}


def _grow(rng: Random, entries: Entries) -> Entries:
    """A dimension made larger or smaller, in one array or in all, with its chunks or without."""
    _, one = _described(rng, entries)
    dims = one.get("dimension_names")
    if not isinstance(dims, list) or not dims:
        return entries
    dim, chunks, everywhere = rng.choice(dims), rng.random() < 0.5, rng.random() < 0.7
    size = rng.choice((0, 1, 2, 100, 5_000, 9_999, 100_000, 10**7, 10**9, 2**40, -1, 10**4000))
    made = dict(entries)
    for name in [name for name in entries if name.endswith("/zarr.json")]:
        try:
            found = json.loads(made[name])
            at = found["dimension_names"].index(dim)
            found["shape"][at] = size
            if chunks:
                found["chunk_grid"]["configuration"]["chunk_shape"][at] = size
            if everywhere or rng.random() < 0.1:
                made[name] = _dumps(found)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError):
            continue
    if rng.random() < 0.3:
        made = _claim(made, dim, size)
    return made


def _claim(entries: Entries, dim: str, size: int) -> Entries:
    """Attributes that agree with a size."""
    try:
        root = json.loads(entries["zarr.json"])
        key = {"layer": "layers", "head": "heads", "kv_head": "kv_heads"}.get(dim)
        if key is not None:
            root["attributes"]["model"][key] = size
        elif dim == "step":
            root["attributes"]["decoding"]["forward_passes"] = size
        return entries | {"zarr.json": _dumps(root)}
    except (ValueError, KeyError, TypeError):
        return entries


def _dumps(found: Any) -> bytes:
    try:
        return json.dumps(found).encode()
    except ValueError:  # more digits than Python writes
        return json.dumps(found, default=str).replace("null", "9" * 5000, 1).encode()


def _describe(rng: Random, entries: Entries) -> Entries:
    name, one = _described(rng, entries)
    return entries | {name: replaced_somewhere(rng, one)}


def _attribute(rng: Random, entries: Entries) -> Entries:
    try:
        root = json.loads(entries["zarr.json"])
        junk = json.loads(replaced_somewhere(rng, root["attributes"]))
        return entries | {"zarr.json": json.dumps(root | {"attributes": junk}).encode()}
    except (ValueError, KeyError, TypeError, RecursionError):
        return entries


def _labels(rng: Random, entries: Entries) -> Entries:
    """Lists of names that are longer, shorter, doubled or empty."""
    try:
        root = json.loads(entries["zarr.json"])
        name = rng.choice(("regions", "token_text"))
        held = root["attributes"][name]
        others: tuple[list[Any], ...] = (held[:-1], [*held, "more"], held * 2, [], held[::-1], held[:1] * len(held))
        root["attributes"][name] = rng.choice(others)
        return entries | {"zarr.json": json.dumps(root).encode()}
    except (ValueError, KeyError, TypeError):
        return entries


def _add(rng: Random, entries: Entries) -> Entries:
    name = rng.choice(
        ("evil", "../evil", "received/c/9/9/9/9", "a/zarr.json", "received/.zarray", "\u202e/c/0", "x" * 3000)
    )
    return entries | {name: rng.choice(sorted(entries.values()))}


def _drop_digests(rng: Random, entries: Entries) -> Entries:
    """Some digests taken away or exchanged, or what they are said to be."""
    try:
        root = json.loads(entries["zarr.json"])
        digests = root["attributes"]["digests"]
        one, two = rng.sample(sorted(digests["files"]), 2)
        kind = rng.choice(("files", "one", "root", "algorithm", "swap", "junk"))
        if kind == "one":
            del digests["files"][one]
        elif kind == "swap":
            digests["files"][one], digests["files"][two] = digests["files"][two], digests["files"][one]
        elif kind == "junk":
            root["attributes"]["digests"] = rng.choice(
                ([], "", 5, {}, {"files": []}, {"algorithm": "sha256", "files": {}})
            )
        else:
            del digests[kind]
        return entries | {"zarr.json": json.dumps(root).encode()}
    except (ValueError, KeyError, TypeError):
        return entries


DAMAGE: dict[str, Callable[[Random, Entries], Entries]] = {
    "piece deleted": _delete,
    "array deleted": _delete_array,
    "pieces swapped": _swap,
    "pieces of one array swapped": _swap_within,
    "piece copied over another": _copy,
    "piece flipped": _flip,
    "description flipped": _flip_description,
    "entry cut": _cut,
    "piece packed anew": _repack,
    "dimension resized": _grow,
    "description changed": _describe,
    "attribute changed": _attribute,
    "labels changed": _labels,
    "entry added": _add,
    "digests changed": _drop_digests,
}


# -- the zip file -----------------------------------------------------------------------------------------------------


def _bytes_flipped(rng: Random, content: bytes, entries: Entries) -> bytes:
    for _ in range(rng.choice((1, 1, 4, 64))):
        content = flipped(rng, content)
    return content


def _directory_flipped(rng: Random, content: bytes, entries: Entries) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        start = archive.start_dir
    return content[:start] + flipped(rng, content[start:])


def _file_cut(rng: Random, content: bytes, entries: Entries) -> bytes:
    at = rng.randrange(len(content))
    return content[:at] if rng.random() < 0.5 else content[at:]


def _stretch_lost(rng: Random, content: bytes, entries: Entries) -> bytes:
    """A block of zeros, as a file system leaves after a crash."""
    at, size = rng.randrange(len(content)), rng.choice((1, 512, 4096))
    return content[:at] + bytes(size) + content[at + size :]


def _around(rng: Random, content: bytes, entries: Entries) -> bytes:
    junk = rng.randbytes(rng.choice((1, 100, 70_000)))
    return rng.choice((junk + content, content + junk, content + content))


def _packed_otherwise(rng: Random, content: bytes, entries: Entries) -> bytes:
    kept, made = list(entries.items()), io.BytesIO()
    rng.shuffle(kept)
    with zipfile.ZipFile(
        made, "w", rng.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_STORED))
    ) as archive:
        for name, one in kept:
            archive.writestr(name, one)
    return made.getvalue()


def _entry_twice(rng: Random, content: bytes, entries: Entries) -> bytes:
    made = io.BytesIO(content)
    one, two = rng.sample(_pieces(entries), 2)
    with zipfile.ZipFile(made, "a") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        archive.writestr(one, entries[two])
    return made.getvalue()


FILE_DAMAGE: dict[str, Callable[[Random, bytes, Entries], bytes]] = {
    "bytes flipped": _bytes_flipped,
    "directory flipped": _directory_flipped,
    "file cut": _file_cut,
    "stretch lost": _stretch_lost,
    "junk around": _around,
    "packed otherwise": _packed_otherwise,
    "entry twice": _entry_twice,
}
