"""Files are replaced whole, digests are SHA-256 of what is there, and a lock keeps a second process out."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from floatlens.core import files
from floatlens.core.errors import FloatlensError
from floatlens.core.files import digest_of_file, fingerprint, locked, replaced, write_atomically


def test_a_write_replaces_the_file_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_atomically(path, b"old")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


def test_a_failed_write_leaves_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_atomically(path, b"old")
    with pytest.raises(FileNotFoundError), replaced(path) as temporary:
        temporary.write_bytes((tmp_path / "absent").read_bytes())
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


def test_the_file_on_disk_is_the_old_one_until_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_atomically(path, b"old")
    with replaced(path) as temporary:
        temporary.write_bytes(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"


def test_digest_of_a_file_is_the_sha256_of_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    assert digest_of_file(path) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_fingerprint_counts_names_order_and_content(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"a")
    two.write_bytes(b"b")
    expected = hashlib.sha256()
    for name, content in (("one", b"a"), ("two", b"b")):
        expected.update(f"{name} 1\n".encode() + hashlib.sha256(content).digest())
    assert fingerprint([one, two]) == expected.hexdigest()
    assert fingerprint([two, one]) != fingerprint([one, two])


def test_fingerprint_of_a_large_file_reads_its_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_READ_WHOLE", 5)
    monkeypatch.setattr(files, "_MIB", 2)
    path = tmp_path / "large"
    path.write_bytes(b"ab----yz")
    assert fingerprint([path]) == hashlib.sha256(b"large 8\nabyz").hexdigest()
    before = fingerprint([path])
    path.write_bytes(b"ab++++yz")
    assert fingerprint([path]) == before
    path.write_bytes(b"ab----yZ")
    assert fingerprint([path]) != before


def test_a_lock_refuses_a_second_holder_and_is_free_afterwards(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    with locked(path, "busy"), pytest.raises(FloatlensError, match="busy"), locked(path, "busy"):
        pytest.fail("two holders of one lock")
    with locked(path, "busy"):
        pass


def test_a_lock_is_released_by_a_process_that_is_killed(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    code = (
        "import sys, pathlib, time; from floatlens.core.files import locked\n"
        "with locked(pathlib.Path(sys.argv[1]), 'busy'): print('held', flush=True); time.sleep(600)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(FloatlensError, match="busy"), locked(path, "busy"):
        pass
    holder.kill()
    holder.wait()
    with locked(path, "busy"):
        pass
