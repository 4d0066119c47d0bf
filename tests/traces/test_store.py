"""One trace, one file: what is read is what was written, and a reader meets a whole trace or a clear refusal."""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from floatlens.core.errors import FloatlensError
from floatlens.traces import Trace, open_trace, store
from floatlens_lab.fuzz.archives import entries_of, resealed, write_entries

HOSTILE = [
    '"quoted" and \\escaped\\',
    "\u202eright to left\u202c שלום",
    "a\x00b\x00",
    "\x00",
    "😀👩‍👩‍👧\U0001f1e9\U0001f1ea",
    "</script><!--",
    "",
    " \n\t\r",
    "\ufffd\ufeff\u2028",
]


def test_round_trip(some_trace: Trace, tmp_path: Path, assert_same: Callable[[Any, Any], None]) -> None:
    path = some_trace.save(tmp_path / "sample")
    assert path == tmp_path / "sample.zarr.zip"
    assert os.listdir(tmp_path) == ["sample.zarr.zip"]
    again = open_trace(path)
    assert_same(again.data, some_trace.data)
    assert repr(again) == repr(some_trace)
    assert (again.masked == some_trace.masked).all()


def test_attributes_are_json_and_come_back_as_they_were(some_trace: Trace, tmp_path: Path) -> None:
    data = open_trace(some_trace.save(tmp_path / "sample")).data
    assert json.loads(json.dumps(some_trace.data.attrs)) == data.attrs
    for name in data.data_vars:
        assert set(data[name].attrs) == {"meaning"}, name


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("a", "a.zarr.zip"),
        ("a.zarr.zip", "a.zarr.zip"),
        ("a.b", "a.b.zarr.zip"),
        ("new/folder/a", "new/folder/a.zarr.zip"),
    ],
)
def test_the_suffix_is_added_and_folders_are_made(
    given: str, written: str, make_trace: Callable[[str], Trace], tmp_path: Path
) -> None:
    assert make_trace("few").save(str(tmp_path / given)) == tmp_path / written
    assert zipfile.is_zipfile(tmp_path / written)


def test_saving_what_was_opened(
    make_trace: Callable[[str], Trace], tmp_path: Path, assert_same: Callable[[Any, Any], None]
) -> None:
    """To another place, and over the very file its arrays are still read from."""
    trace = make_trace("mdm")
    path = trace.save(tmp_path / "one")
    assert_same(open_trace(open_trace(path).save(tmp_path / "two")).data, trace.data)
    open_trace(path).save(path)
    assert_same(open_trace(path).data, trace.data)


@pytest.mark.parametrize("texts", [HOSTILE, HOSTILE[::-1]])
def test_hostile_token_text(texts: list[str], make_trace: Callable[[str], Trace], tmp_path: Path) -> None:
    trace = make_trace("mdm")
    trace.data.attrs["token_text"] = list(texts)
    trace.data.attrs["prompt"]["question"] = "".join(texts)
    trace.data.attrs["decoding"]["answer"] = texts[0]
    data = store.with_labels(trace.data)
    assert data["token_text"].values.tolist() == texts
    again = open_trace(Trace(data).save(tmp_path / "sample"))
    assert again.tokens == tuple(texts)
    assert again.answer == texts[0]
    assert again.data.attrs["prompt"]["question"] == "".join(texts)
    assert again.data["token_text"].values.tolist() == texts
    assert again.data["token_text"].dims == ("key",)


def test_arrays_are_read_when_used(make_trace: Callable[[str], Trace], tmp_path: Path) -> None:
    """Opening reads no chunk: a damaged one is met only by whoever looks at it, in one line."""
    entries = entries_of(make_trace("mdm").save(tmp_path / "sample"))
    content = entries["received/c/0/0/0/0"]
    changed = entries | {"received/c/0/0/0/0": content[:-1] + bytes([content[-1] ^ 1])}
    damaged = write_entries(changed, tmp_path / "damaged.zarr.zip")
    data = open_trace(damaged).data
    assert data["entropy"].values.shape == (4, 3, 4, 9)
    line = f"{damaged}: not readable as a trace: received/c/0/0/0/0 does not match its digest; delete {damaged}"
    with pytest.raises(FloatlensError, match=re.escape(line)):
        data["received"].values  # noqa: B018


def test_nothing_is_pickled_and_arrays_are_plain_zarr(make_trace: Callable[[str], Trace], tmp_path: Path) -> None:
    """Readable without floatlens: zarr v3 groups and arrays with dimension names; no object arrays."""
    import zarr

    group = zarr.open_group(zarr.storage.ZipStore(make_trace("mdm").save(tmp_path / "a"), mode="r"), mode="r")
    assert group.metadata.zarr_format == 3
    arrays = dict(group.arrays())
    assert arrays["received"].metadata.dimension_names == ("step", "layer", "head", "key")
    assert {array.dtype.kind for array in arrays.values()} <= set("biuf")


def test_large_arrays_are_cut_by_step(make_trace: Callable[[str], Trace], tmp_path: Path) -> None:
    """Beyond a mebibyte one chunk per step, so that one step can be read alone; small ones are one piece."""
    data = make_trace("mdm").data
    steps, layers, heads, keys = 20, 3, 4, 2000
    grown = {
        "received": (
            ("step", "layer", "head", "key"),
            np.random.default_rng(0).random((steps, layers, heads, keys), "f4"),
        ),
        "sequence": (("step", "key"), np.ones((steps, keys), dtype="int32")),
    }
    kept = data[["token_position", "token_id", "token_step", "token_row", "token_confidence"]]
    large = kept.assign({name: xr.Variable(*value) for name, value in grown.items()})
    for name, dtype in {"final": "int32", "region_of": "int16", "evidence": "bool"}.items():
        large[name] = ("key", np.zeros(keys, dtype=dtype))
    large = large.drop_vars([c for c in large.coords if c not in large.dims])
    large.attrs = data.attrs | {"decoding": data.attrs["decoding"] | {"forward_passes": steps}}
    path = Trace(large).save(tmp_path / "large")
    names = zipfile.ZipFile(path).namelist()
    assert len([n for n in names if n.startswith("received/c/")]) == steps
    assert len([n for n in names if n.startswith("sequence/c/")]) == 1
    again = open_trace(path)
    assert np.array_equal(again.data["received"].values, grown["received"][1])
    assert np.array_equal(again.data["received"].isel(step=7).values, grown["received"][1][7])


# -- writing is all or nothing ------------------------------------------------------------------------------------


class Crash(BaseException):
    pass


@pytest.mark.parametrize("where", ["arrays", "zip", "rename"])
@pytest.mark.parametrize("there", [True, False])
def test_a_crash_leaves_the_old_file_or_none(
    where: str,
    there: bool,
    make_trace: Callable[[str], Trace],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    assert_same: Callable[[Any, Any], None],
) -> None:
    target = tmp_path / "sample.zarr.zip"
    old = make_trace("mean")
    if there:
        old.save(target)
    before = target.read_bytes() if there else None

    def crash(*_: Any, **__: Any) -> None:
        raise Crash

    if where == "arrays":
        written = []
        set_before = store.LocalStore.set

        async def third(self: Any, key: str, value: Any, **more: Any) -> None:
            written.append(key)
            if len(written) > 12:
                raise Crash
            await set_before(self, key, value, **more)

        monkeypatch.setattr(store.LocalStore, "set", third)
    elif where == "zip":
        monkeypatch.setattr(zipfile.ZipFile, "write", crash)
    else:
        monkeypatch.setattr(os, "replace", crash)
    with pytest.raises(Crash):
        make_trace("mdm").save(target)
    monkeypatch.undo()
    assert os.listdir(tmp_path) == (["sample.zarr.zip"] if there else [])
    if there:
        assert target.read_bytes() == before
        assert_same(open_trace(target).data, old.data)


def test_a_new_file_replaces_an_old_one(
    make_trace: Callable[[str], Trace], tmp_path: Path, assert_same: Callable[[Any, Any], None]
) -> None:
    path = make_trace("arm").save(tmp_path / "sample")
    still_open = open_trace(path)
    make_trace("mdm").save(path)
    assert_same(open_trace(path).data, make_trace("mdm").data)
    assert_same(still_open.data, make_trace("arm").data)  # a reader of the old file keeps it


def test_what_is_no_trace_is_not_written(make_trace: Callable[[str], Trace], tmp_path: Path) -> None:
    data = make_trace("mdm").data.drop_vars("final")
    with pytest.raises(FloatlensError, match='variable "final" is missing'):
        store.write(data, tmp_path / "sample")
    assert os.listdir(tmp_path) == []


# -- reading refuses, in one line ---------------------------------------------------------------------------------


def refusal(path: Path) -> str:
    with pytest.raises(FloatlensError) as caught:
        open_trace(path)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    return message


def test_missing_file(tmp_path: Path) -> None:
    assert "no such trace file" in refusal(tmp_path / "nothing.zarr.zip")
    assert "no such trace file" in refusal(tmp_path)


@pytest.mark.parametrize("content", [b"", b"hello", b"PK", b"\x00" * 1000])
def test_not_a_zip(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.zarr.zip"
    path.write_bytes(content)
    assert "not a trace" in refusal(path)


def test_another_zip(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("hello.txt", "hello")
    assert "not readable as a trace" in refusal(path)
    with zipfile.ZipFile(path, "w"):
        pass
    assert "not readable as a trace" in refusal(path)


def test_another_zarr(tmp_path: Path) -> None:
    xr.Dataset({"a": ("x", [1, 2])}).to_zarr(tmp_path / "b", zarr_format=3, consolidated=False)
    store._zip(tmp_path / "b", tmp_path / "b.zarr.zip")
    assert "schema version is None" in refusal(tmp_path / "b.zarr.zip")


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 0.999])
def test_a_file_cut_short(part: float, make_trace: Callable[[str], Trace], tmp_path: Path) -> None:
    path = make_trace("few").save(tmp_path / "a")
    whole = path.read_bytes()
    path.write_bytes(whole[: int(part * len(whole))])
    assert "cut short" in refusal(path)


def test_a_damaged_directory_or_description(make_trace: Callable[[str], Trace], tmp_path: Path) -> None:
    """Flipped bytes in what has to be read to open the file: refused like everything else, never a bare BadZipFile."""
    path = make_trace("few").save(tmp_path / "a")
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo("zarr.json")
        start = info.header_offset + 30 + len("zarr.json")
        directory = archive.start_dir
    for place in (start + info.file_size // 2, directory + 1, directory + 30):
        damaged = bytearray(whole)
        damaged[place] ^= 0xFF
        path.write_bytes(bytes(damaged))
        refusal(path)


def changed(path: Path, target: Path, name: str, change: Callable[[dict[str, Any]], Any]) -> Path:
    """A copy of a trace file with one of its JSON descriptions changed, and digests that fit it."""
    entries = entries_of(path)
    entries[name] = json.dumps(change(json.loads(entries[name]))).encode()
    return write_entries(resealed(entries), target)


@pytest.mark.parametrize("version", [0, 1, "2", None, 1.5])
def test_another_version(version: Any, make_trace: Callable[[str], Trace], tmp_path: Path) -> None:
    def set_version(described: dict[str, Any]) -> dict[str, Any]:
        described["attributes"]["schema_version"] = version
        return described

    path = make_trace("few").save(tmp_path / "a")
    message = refusal(changed(path, tmp_path / "b.zarr.zip", "zarr.json", set_version))
    assert f"schema version is {version!r} and this floatlens reads 2; delete " in message


def test_a_missing_variable(make_trace: Callable[[str], Trace], tmp_path: Path) -> None:
    path = make_trace("few").save(tmp_path / "a")
    for name in ("sequence", "final", "region_of", "token_row"):
        kept = {entry: content for entry, content in entries_of(path).items() if not entry.startswith(f"{name}/")}
        write_entries(resealed(kept), tmp_path / "b.zarr.zip")
        assert f'variable "{name}" is missing' in refusal(tmp_path / "b.zarr.zip")


def test_wrong_dimensions(make_trace: Callable[[str], Trace], tmp_path: Path) -> None:
    def swap(described: dict[str, Any]) -> dict[str, Any]:
        described["dimension_names"][-1] = "key"
        return described

    path = make_trace("few").save(tmp_path / "a")
    message = refusal(changed(path, tmp_path / "b.zarr.zip", "entropy/zarr.json", swap))
    assert "entropy has dims" in message
    assert "the schema says ('step', 'layer', 'head', 'query')" in message


def test_an_unknown_variable(make_trace: Callable[[str], Trace], tmp_path: Path) -> None:
    path = make_trace("few").save(tmp_path / "a")
    entries = entries_of(path)
    more = {name.replace("final/", "surprise/"): entries[name] for name in entries if name.startswith("final/")}
    write_entries(resealed(entries | more), tmp_path / "b.zarr.zip")
    assert 'variable "surprise" is not in the trace schema' in refusal(tmp_path / "b.zarr.zip")


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("regions", None),
        ("regions", 5),
        ("regions", ["bos"]),
        ("token_text", None),
        ("token_text", ["a", "b"]),
        ("model", None),
        ("model", "llada"),
        ("decoding", []),
        ("heads", "some"),
        ("data_set", 5),
        ("data_set", ""),
        ("data_set", None),
    ],
)
def test_attributes_of_another_kind(
    attribute: str, value: Any, make_trace: Callable[[str], Trace], tmp_path: Path
) -> None:
    def set_attribute(described: dict[str, Any]) -> dict[str, Any]:
        described["attributes"][attribute] = value
        return described

    path = make_trace("few").save(tmp_path / "a")
    message = refusal(changed(path, tmp_path / "b.zarr.zip", "zarr.json", set_attribute))
    assert attribute in message or "region names" in message


@pytest.mark.parametrize(
    "attribute", ["model", "decoding", "prompt", "versions", "regions", "token_text", "heads", "causal"]
)
def test_a_missing_attribute(attribute: str, make_trace: Callable[[str], Trace], tmp_path: Path) -> None:
    def remove(described: dict[str, Any]) -> dict[str, Any]:
        del described["attributes"][attribute]
        return described

    path = make_trace("few").save(tmp_path / "a")
    message = refusal(changed(path, tmp_path / "b.zarr.zip", "zarr.json", remove))
    assert f'attribute "{attribute}" is missing' in message
