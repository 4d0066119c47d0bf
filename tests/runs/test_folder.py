"""A run folder: one writer, one manifest, and what counts as done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from floatlens.core.errors import FloatlensError
from floatlens.core.files import write_atomically
from floatlens.records import RAG, Record, store
from floatlens.runs import folder
from floatlens.runs.folder import RunFolder

MODEL = {"kind": "mdm", "layers": [0, 1], "on": True, "ask": {"seed": 0}, "capture": None}
MANIFEST: dict[str, Any] = {"format": store.FORMAT, "models": {"m": MODEL}, "template": "default@1", "versions": {}}


def changed(**model: Any) -> dict[str, Any]:
    return {**MANIFEST, "models": {"m": {**MODEL, **model}}}


def record(index: int, **more: Any) -> Record:
    values = {"what": "trace", "model": "m", "data": "d", "condition": RAG, "index": index, "id": f"q{index}"}
    return Record.model_validate({**values, "status": "done", "file": f"traces/{index}", **more})


def done(run: RunFolder, index: int, **more: Any) -> None:
    run.add([record(index, **more)])


def test_continuing_with_the_same_manifest(tmp_path: Path) -> None:
    for _ in range(2):
        with RunFolder.open(tmp_path / "new" / "run") as run:
            run.settle(changed(layers=(0, 1)))
            assert run.manifest == MANIFEST


@pytest.mark.parametrize("writes", [0, 1])
def test_a_kill_in_the_first_moments_leaves_a_folder_that_can_be_used(
    writes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever of the first files is not written any more."""
    left = writes

    def write(path: Path, content: bytes) -> None:
        nonlocal left
        if not left:
            raise InterruptedError
        left -= 1
        write_atomically(path, content)

    for module in (folder, store):
        monkeypatch.setattr(module, "write_atomically", write)
    with pytest.raises(InterruptedError), RunFolder.open(tmp_path) as run:
        run.settle(MANIFEST)
    monkeypatch.undo()
    with RunFolder.open(tmp_path) as run:
        run.settle(MANIFEST)
        assert run.manifest == MANIFEST


@pytest.mark.parametrize(
    ("now", "message"),
    [
        (changed(ask={"seed": 1}), "models.m.ask.seed = 0, now it is 1;"),
        (changed(ask={"seed": None}), "models.m.ask.seed = 0, now it is null;"),
        (changed(layers=[0]), "models.m.layers = [0, 1], now it is [0];"),
        (changed(on=1), "models.m.on = true, now it is 1;"),
        (changed(ask={"seed": 0, "extra": "x"}), 'models.m.ask.extra = not set, now it is "x";'),
        (changed(ask={}), "models.m.ask.seed = 0, now it is not set;"),
        (changed(kind=None), 'models.m.kind = "mdm", now it is null;'),
        ({**MANIFEST, "template": "own@2"}, 'template = "default@1", now it is "own@2";'),
    ],
)
def test_another_manifest_is_refused_by_its_first_difference(tmp_path: Path, now: Any, message: str) -> None:
    with RunFolder.open(tmp_path) as run:
        run.settle(MANIFEST)
        done(run, 0)
        with pytest.raises(FloatlensError) as caught:
            run.settle(now)
        assert f"this run was made with {message}" in str(caught.value)
        assert run.manifest == MANIFEST


def test_versions_and_what_is_not_used_yet_may_change(tmp_path: Path) -> None:
    with RunFolder.open(tmp_path) as run:
        run.settle(MANIFEST)
        done(run, 0)
        run.settle(changed(capture={"heads": "all"}) | {"versions": {"torch": "9"}})
        assert run.manifest is not None
        assert run.manifest["models"]["m"]["capture"] == {"heads": "all"}
        assert run.manifest["versions"] == {"torch": "9"}
        with pytest.raises(FloatlensError, match=r"models\.m\.capture\.heads"):
            run.settle(changed(capture={"heads": "mean"}))


def test_a_fact_that_an_earlier_version_did_not_write_down_is_added(tmp_path: Path) -> None:
    with RunFolder.open(tmp_path) as run:
        run.settle(MANIFEST)
        done(run, 0)
        run.settle(changed(attention="full"))
        assert run.manifest is not None
        assert run.manifest["models"]["m"]["attention"] == "full"
        with pytest.raises(FloatlensError, match=r"models\.m\.attention"):
            run.settle(changed(attention="causal"))


def test_other_models_join_and_those_before_stay(tmp_path: Path) -> None:
    with RunFolder.open(tmp_path) as run:
        run.settle(MANIFEST)
        done(run, 0)
        run.settle({**MANIFEST, "models": {"n": {"kind": "arm"}}})
        assert run.manifest is not None
        assert list(run.manifest["models"]) == ["m", "n"]


def test_a_folder_in_which_nothing_is_done_takes_another_manifest(tmp_path: Path) -> None:
    with RunFolder.open(tmp_path) as run:
        run.settle(MANIFEST)
        done(run, 0, status="failed", error="did not fit")
        run.settle(changed(kind="arm"))
        assert run.manifest == changed(kind="arm")
        assert run.records == {}
    assert (tmp_path / "records.jsonl").read_bytes() == b""


def test_an_item_is_done_when_record_and_file_are_there(tmp_path: Path) -> None:
    with RunFolder.open(tmp_path) as run:
        run.settle(MANIFEST)
        (tmp_path / "traces").mkdir()
        for name in ("0", "2", "3"):
            (tmp_path / "traces" / name).touch()
        done(run, 0)
        done(run, 1)  # its file is missing
        done(run, 2, status="failed", error="no")
    items = [record(index).item for index in range(4)]
    with RunFolder.open(tmp_path) as run:
        assert [run.done(item) for item in items] == [True, False, False, False]
        run.forget(lambda one: one.index == 1)
    with RunFolder.open(tmp_path) as run:
        assert list(run.records) == [items[0], items[2]]


def test_what_a_kill_left_behind_is_cleared_away(tmp_path: Path) -> None:
    with RunFolder.open(tmp_path) as run:
        run.settle(MANIFEST)
        done(run, 0)
        (tmp_path / "traces" / "1-m").mkdir(parents=True)
        (tmp_path / "traces" / "1-m" / ".x.zarr.zip.new").touch()
    lines = tmp_path / "records.jsonl"
    whole = lines.read_bytes()
    lines.write_bytes(whole + b'{"what": "trace", "ind')
    with RunFolder.open(tmp_path) as run:
        assert not [path for path in (tmp_path / "traces").rglob("*") if path.is_file()]
        run.forget(lambda one: False)
        assert lines.read_bytes() == whole


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    refused = pytest.raises(FloatlensError, match="another floatlens is writing into it")
    with RunFolder.open(tmp_path), refused, RunFolder.open(tmp_path):
        pass
    with RunFolder.open(tmp_path):
        pass


def test_a_place_that_is_no_run_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with (
        pytest.raises(FloatlensError, match=r"not empty and not a run \(no manifest\.json\)"),
        RunFolder.open(tmp_path),
    ):
        pass
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(FloatlensError, match="a run is a folder"), RunFolder.open(tmp_path / "thesis.tex"):
        pass
    with pytest.raises(FloatlensError, match="cannot be made"), RunFolder.open(tmp_path / "thesis.tex" / "run"):
        pass


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        ("{", "not valid JSON"),
        ("[]", "not the manifest of a run"),
        ('{"name": "my web app", "icons": []}', "not the manifest of a run"),
        ('{"kind": "qa", "format": 1}', "a run folder of format 1"),
    ],
)
def test_the_manifest_of_something_else_is_left_alone(tmp_path: Path, manifest: str, message: str) -> None:
    (tmp_path / "manifest.json").write_text(manifest)
    with pytest.raises(FloatlensError, match=message), RunFolder.open(tmp_path):
        pass
    assert [entry.name for entry in tmp_path.iterdir()] == ["manifest.json"]
    assert (tmp_path / "manifest.json").read_text() == manifest


@pytest.mark.parametrize("name", ["records.jsonl", ".lock"])
def test_what_is_removed_during_a_run_is_noticed(name: str, tmp_path: Path) -> None:
    with RunFolder.open(tmp_path) as run:
        run.settle(MANIFEST)
        done(run, 0)
        run.check_untouched()
        (tmp_path / name).unlink()
        with pytest.raises(FloatlensError, match="removed by somebody else"):
            run.check_untouched()
        with pytest.raises(FloatlensError, match="removed by somebody else"):
            done(run, 1)


def test_without_its_lock_file_a_run_still_keeps_others_out(tmp_path: Path) -> None:
    with RunFolder.open(tmp_path) as run:
        run.settle(MANIFEST)
        (tmp_path / ".lock").unlink()
        with pytest.raises(FloatlensError, match="another floatlens is writing"), RunFolder.open(tmp_path):
            pass


@pytest.mark.parametrize("left", [".manifest.json.new", ".records.jsonl.new", ".lock"])
def test_what_a_killed_start_leaves_is_no_hindrance(left: str, tmp_path: Path) -> None:
    (tmp_path / left).write_bytes(b"{")
    with RunFolder.open(tmp_path) as run:
        run.settle(MANIFEST)
        assert run.manifest == MANIFEST
