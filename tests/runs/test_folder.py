"""A run folder: one writer, one manifest, and what counts as done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from floatlens.core.errors import FloatlensError
from floatlens.runs import Record, RunFolder

CONFIG = {"seed": 0, "layers": [0, 1], "on": True, "data": {"path": "a"}}
MANIFEST: dict[str, Any] = {"kind": "trace", "config": CONFIG, "versions": {}}


def changed(**config: Any) -> dict[str, Any]:
    return {**MANIFEST, "config": {**MANIFEST["config"], **config}}


def done(run: RunFolder[Record], index: int, **more: Any) -> None:
    values = {"item": f"i{index}", "index": index, "id": f"q{index}", "status": "done", "file": f"traces/{index}"}
    run.add(Record.model_validate(values | more))


def test_continuing_with_the_same_manifest(tmp_path: Path) -> None:
    for _ in range(2):
        with RunFolder.open(tmp_path / "new" / "run", Record) as run:
            run.settle({**MANIFEST, "config": {**MANIFEST["config"], "layers": (0, 1)}})
            assert run.manifest == MANIFEST


@pytest.mark.parametrize(
    ("now", "message"),
    [
        (changed(seed=1), "config.seed = 0, now it is 1;"),
        (changed(seed=None), "config.seed = 0, now it is null;"),
        (changed(layers=[0]), "config.layers = [0, 1], now it is [0];"),
        (changed(on=1), "config.on = true, now it is 1;"),
        (changed(extra="x"), 'config.extra = not set, now it is "x";'),
        (changed(data={}), 'config.data.path = "a", now it is not set;'),
        (changed(data=None), 'config.data = {"path": "a"}, now it is null;'),
    ],
)
def test_another_manifest_is_refused_by_its_first_difference(tmp_path: Path, now: Any, message: str) -> None:
    with RunFolder.open(tmp_path, Record) as run:
        run.settle(MANIFEST)
        done(run, 0)
        with pytest.raises(FloatlensError) as caught:
            run.settle(now)
        assert f"this run was made with {message}" in str(caught.value)
        assert run.manifest == MANIFEST


def test_free_keys_may_differ_and_are_brought_up_to_date(tmp_path: Path) -> None:
    with RunFolder.open(tmp_path, Record) as run:
        run.settle(MANIFEST)
        done(run, 0)
        run.settle(changed(data={"path": "b"}) | {"versions": {"torch": "9"}}, free=("config.data.path", "versions"))
        assert run.manifest is not None
        assert run.manifest["config"]["data"]["path"] == "b"
        assert run.manifest["versions"] == {"torch": "9"}


def test_a_folder_in_which_nothing_is_done_takes_another_manifest(tmp_path: Path) -> None:
    with RunFolder.open(tmp_path, Record) as run:
        run.settle(MANIFEST)
        done(run, 0, status="failed", error="did not fit")
        run.settle(changed(seed=1))
        assert run.manifest == changed(seed=1)
        assert run.records == {}
    assert (tmp_path / "records.jsonl").read_bytes() == b""


def test_an_item_is_done_when_record_and_file_are_there(tmp_path: Path) -> None:
    with RunFolder.open(tmp_path, Record) as run:
        run.settle(MANIFEST)
        run.traces.mkdir()
        for name in ("0", "2", "3"):
            (run.traces / name).touch()
        done(run, 0)
        done(run, 1)  # its file is missing
        done(run, 2, status="failed", error="no")
    with RunFolder.open(tmp_path, Record) as run:
        assert [run.done(f"i{index}") for index in range(4)] == [True, False, False, False]
        run.forget(lambda record: record.item == "i1")
    with RunFolder.open(tmp_path, Record) as run:
        assert list(run.records) == ["i0", "i2"]


def test_what_a_kill_left_behind_is_cleared_away(tmp_path: Path) -> None:
    with RunFolder.open(tmp_path, Record) as run:
        run.settle(MANIFEST)
        done(run, 0)
        (run.traces / ".floatlens-abc" / "trace").mkdir(parents=True)
    lines = tmp_path / "records.jsonl"
    whole = lines.read_bytes()
    lines.write_bytes(whole + b'{"item": "i1", "ind')
    with RunFolder.open(tmp_path, Record) as run:
        assert not list(run.traces.iterdir())
        run.forget(lambda record: False)
        assert lines.read_bytes() == whole


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    refused = pytest.raises(FloatlensError, match="another floatlens process is writing to it")
    with RunFolder.open(tmp_path, Record), refused, RunFolder.open(tmp_path, Record):
        pass
    with RunFolder.open(tmp_path, Record):
        pass


def test_a_place_that_is_no_run_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with (
        pytest.raises(FloatlensError, match=r"not empty and not a run \(no manifest\.json\)"),
        RunFolder.open(tmp_path, Record),
    ):
        pass
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(FloatlensError, match="a run is a folder"), RunFolder.open(tmp_path / "thesis.tex", Record):
        pass
    with pytest.raises(FloatlensError, match="cannot be made"), RunFolder.open(tmp_path / "thesis.tex" / "run", Record):
        pass


def test_a_damaged_manifest_is_named(tmp_path: Path) -> None:
    for content in ("{", "[]"):
        (tmp_path / "manifest.json").write_text(content)
        with pytest.raises(FloatlensError, match=r"manifest\.json: not"), RunFolder.open(tmp_path, Record):
            pass


@pytest.mark.parametrize("manifest", ['{"name": "my web app", "icons": []}', '{"kind": null}'])
def test_the_manifest_of_something_else_is_left_alone(tmp_path: Path, manifest: str) -> None:
    (tmp_path / "manifest.json").write_text(manifest)
    with pytest.raises(FloatlensError, match="it names no kind"), RunFolder.open(tmp_path, Record):
        pass
    assert [entry.name for entry in tmp_path.iterdir()] == ["manifest.json"]
    assert (tmp_path / "manifest.json").read_text() == manifest
