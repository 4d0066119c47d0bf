"""A trace knows whether it is whole: what was changed after writing is refused, on opening or on first reading."""

from __future__ import annotations

import json
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from floatlens.core.errors import FloatlensError, FloatlensWarning
from floatlens.traces import Trace, open_trace, store
from floatlens.traces.integrity import _frame_size
from floatlens_lab.fuzz.archives import Entries, entries_of, resealed, root_of, unsealed, with_root, write_entries

Make = Callable[[str], Trace]


@pytest.fixture
def entries(make_trace: Make, tmp_path: Path) -> Entries:
    return entries_of(make_trace("few").save(tmp_path / "whole"))


def refusal(entries: Entries, path: Path) -> str:
    """What is said about a file of these entries, which has to be refused before all of it is read."""
    write_entries(entries, path)
    with pytest.raises(FloatlensError) as caught:
        open_trace(path).data.load()
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert message.endswith(f"; delete {path} and run again")
    return message


def test_every_flipped_bit_is_noticed(entries: Entries, tmp_path: Path) -> None:
    """One bit in each file of a trace, with a zip directory that fits; spaces in JSON are not numbers."""
    rng = np.random.default_rng(0)
    for name, content in entries.items():
        if name == "zarr.json":
            continue
        place = int(rng.integers(len(content)))
        changed = content[:place] + bytes([content[place] ^ 1 << int(rng.integers(8))]) + content[place + 1 :]
        refusal(entries | {name: changed}, tmp_path / "a.zarr.zip")


def test_every_missing_piece_is_noticed(entries: Entries, tmp_path: Path) -> None:
    for name in entries:
        kept = {key: content for key, content in entries.items() if key != name}
        assert f"{name} is missing" in refusal(kept, tmp_path / "a.zarr.zip") or name == "zarr.json"


def test_pieces_swapped_added_or_given_twice(entries: Entries, tmp_path: Path) -> None:
    path = tmp_path / "a.zarr.zip"
    one, two = "token_id/c/0", "token_step/c/0"
    swapped = entries | {one: entries[two], two: entries[one]}
    assert "does not match its digest" in refusal(swapped, path)
    assert f"{one} does not match its digest" in refusal(entries | {one: entries[two]}, path)
    assert "token_id/c/1 was added" in refusal(entries | {"token_id/c/1": entries[one]}, path)
    assert "'../evil' is no part of a trace" in refusal(entries | {"../evil": b""}, path)
    write_entries(entries, path)
    with zipfile.ZipFile(path, "a") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        archive.writestr(one, entries[two])
    with pytest.raises(FloatlensError, match="a file is in it twice"):
        open_trace(path)


@pytest.mark.parametrize("path", ["model.layers", "decoding.answer", "regions", "digests.files"])
def test_changed_attributes(path: str, entries: Entries, tmp_path: Path) -> None:
    root = root_of(entries)
    *outer, last = path.split(".")
    held = root["attributes"]
    for part in outer:
        held = held[part]
    held[last] = {"files": {}}.get(last, "other")
    said = refusal(with_root(entries, root), tmp_path / "a.zarr.zip")
    assert "its attributes do not match their digest" in said


def test_a_compressed_zip_is_refused(entries: Entries, tmp_path: Path) -> None:
    """Entries are stored plainly, so a small file cannot unpack into a large one."""
    path = tmp_path / "a.zarr.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    with pytest.raises(FloatlensError, match="is not stored plainly"):
        open_trace(path)


def described(entries: Entries, name: str, change: Callable[[dict[str, Any]], Any]) -> Entries:
    file = f"{name}/zarr.json"
    one = json.loads(entries[file])
    change(one)
    return entries | {file: json.dumps(one).encode()}


@pytest.mark.parametrize("seal", [resealed, unsealed])
@pytest.mark.parametrize("chunks", [False, True])
def test_a_shape_of_a_hundred_thousand_layers(
    seal: Callable[[Entries], Entries], chunks: bool, entries: Entries, tmp_path: Path
) -> None:
    def grow(one: dict[str, Any]) -> None:
        at = one["dimension_names"].index("layer")
        one["shape"][at] = 100_000
        if chunks:
            one["chunk_grid"]["configuration"]["chunk_shape"][at] = 100_000

    root = root_of(entries)
    grown = described(described(entries, "entropy", grow), "layer", grow)
    said = refusal(seal(grown), tmp_path / "a.zarr.zip")
    fault = "100000 entries in dimension layer, where there can be 3" if chunks else "the description of entropy"
    assert fault in said
    root["attributes"]["model"]["layers"] = 100_000
    claimed = with_root(grown, root)
    assert "layers is 100000, which no run has" in refusal(seal(claimed), tmp_path / "a.zarr.zip")
    root["attributes"]["model"]["layers"] = 9_999

    def less(one: dict[str, Any]) -> None:
        one["shape"] = [9_999 if size == 100_000 else size for size in one["shape"]]

    possible = with_root(described(described(grown, "entropy", less), "layer", less), root)
    refusal(seal(possible), tmp_path / "a.zarr.zip")


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("final", "codecs", [{"name": "bytes"}, {"name": "gzip", "configuration": {"level": 5}}]),
        ("final", "data_type", "string"),
        ("final", "shape", [-1]),
        ("final", "shape", "9"),
        ("final", "attributes", {"units": "days since 2000-01-01"}),
        ("final", "dimension_names", ["key", "key"]),
        ("final", "chunk_grid", None),
        ("final", "storage_transformers", [{"name": "x"}]),
        ("entropy", "shape", [10**9] * 4),
        ("final", "zarr_format", 2),
    ],
)
def test_descriptions_that_floatlens_does_not_write(
    name: str, key: str, value: Any, entries: Entries, tmp_path: Path
) -> None:
    def change(one: dict[str, Any]) -> None:
        one[key] = value

    assert name in refusal(resealed(described(entries, name, change)), tmp_path / "a.zarr.zip")


def test_labels_and_lengths_that_disagree(make_trace: Make, tmp_path: Path) -> None:
    data = make_trace("mdm").data
    few = {key: value for key, value in data.attrs["model"].items() if key != "layers"}
    cases = {
        "token_row points outside the 9 keys": data.assign(token_row=data["token_row"] + np.int32(9)),
        "token_position points outside": data.assign(token_position=data["token_position"] - np.int32(9)),
        "dimension region has 4 entries instead of 1": data.assign_attrs(regions=["bos"]),
        'attribute "regions" is': data.assign_attrs(regions=["bos"] * 4),
        'model key "layers" is missing': data.assign_attrs(model=few),
        'attribute "model.kind" is': data.assign_attrs(model=data.attrs["model"] | {"kind": "rnn"}),
        'attribute "decoding.answer" is': data.assign_attrs(decoding=data.attrs["decoding"] | {"answer": 5}),
        "forward_passes is -1": data.assign_attrs(decoding=data.attrs["decoding"] | {"forward_passes": -1}),
    }
    for said, changed in cases.items():
        changed.attrs = {**data.attrs, **changed.attrs}
        with pytest.raises(FloatlensError, match=said):
            store.write(changed, tmp_path / "a")


def test_an_old_trace_opens_with_one_line_for_its_folder(make_trace: Make, tmp_path: Path) -> None:
    """Even without pieces that hold only fill values, which were left out before."""
    trace = make_trace("arm")
    entries = unsealed(entries_of(trace.save(tmp_path / "new")))
    kept = {name: content for name, content in entries.items() if not name.startswith("received_masked/c/")}
    folder = tmp_path / "old"
    folder.mkdir()
    write_entries(kept, folder / "a.zarr.zip")
    write_entries(entries, folder / "b.zarr.zip")
    with pytest.warns(FloatlensWarning, match=r"a\.zarr\.zip: has no digests"):
        old = open_trace(folder / "a.zarr.zip")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        open_trace(folder / "b.zarr.zip")
    assert np.array_equal(old.data["received"].values, trace.data["received"].values, equal_nan=True)
    assert np.isnan(old.data["received_masked"].values).all()


def test_damage_in_an_old_trace_is_one_line_too(entries: Entries, tmp_path: Path) -> None:
    """Pieces that do not decode, or to another length, are refused before zarr meets them."""
    path = tmp_path / "a.zarr.zip"
    name = "entropy/c/0/0/0/0"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FloatlensWarning)
        cut = unsealed(entries | {name: entries[name][:-4]})
        assert f"{name} cannot be read" in refusal(cut, path)
        other = unsealed(entries | {name: entries["final/c/0"]})
        assert f"{name} does not hold the 432 bytes that it should" in refusal(other, path)


def test_the_size_in_a_frame_is_the_one_that_was_packed() -> None:
    from numcodecs import Zstd

    for size in (1, 255, 256, 257, 65_535, 65_536, 70_000, 5_000_000):
        assert _frame_size(Zstd(level=0).encode(bytes(size))) == size
    for content in (b"", b"(\xb5/\xfd", b"(\xb5/\xfd\xc0\x00", b"hello, world"):
        assert _frame_size(content) is None


def test_one_step_is_read_without_the_others(make_trace: Make, tmp_path: Path) -> None:
    """A damaged piece stops those who read it, and nobody else."""
    path = make_trace("mdm").save(tmp_path / "a")
    entries = entries_of(path)
    damaged = write_entries(entries | {"flow/c/0/0/0/0": entries["flow/c/0/0/0/0"] + b"\x00"}, tmp_path / "b.zarr.zip")
    data = open_trace(damaged).data
    assert np.array_equal(data["received"].values, open_trace(path).data["received"].values, equal_nan=True)
    with pytest.raises(FloatlensError, match="flow/c/0/0/0/0 does not match its digest"):
        data["flow"].isel(step=0).values  # noqa: B018


def test_forged_pieces_are_one_line_too(make_trace: Make, tmp_path: Path) -> None:
    """Found by fuzzing: digests that fit a piece which does not decode, or which points nowhere."""
    from numcodecs import Zstd

    entries = entries_of(make_trace("mdm").save(tmp_path / "whole"))
    name = "answer_argmax/c/0/0/0"
    cut = resealed(entries | {name: entries[name][:-3]})
    assert f"{name} cannot be read" in refusal(cut, tmp_path / "a.zarr.zip")
    size = len(Zstd().decode(entries[name])) // 4
    outside = Zstd(level=0).encode(np.full(size, 9, dtype="<i4").tobytes())
    said = refusal(resealed(entries | {name: outside}), tmp_path / "a.zarr.zip")
    assert "points outside the 9 entries of key" in said


@pytest.mark.parametrize("key", ["probe", ""])
def test_variables_are_declared_with_names(key: str, make_trace: Make, tmp_path: Path) -> None:
    """Found by fuzzing: a probe that is a number could not be sorted with the others."""
    entries = entries_of(make_trace("mdm").save(tmp_path / "whole"))
    root = root_of(entries)
    variables = root["attributes"]["variables"]
    if key:
        variables["received"][key] = 3
    else:
        variables["received"] = 3
    path = tmp_path / "a.zarr.zip"
    write_entries(unsealed(with_root(entries, root)), path)
    name = "variables.received" + f".{key}" * bool(key)
    with pytest.raises(FloatlensError, match=f'attribute "{name}" is '):
        open_trace(path)
