"""Files: replaced as a whole or not at all, identified by their content, and locked against a second writer."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from floatlens.core.errors import FloatlensError

__all__ = ["digest_of_file", "fingerprint", "locked", "replaced", "sync_folder", "write_atomically"]

_MIB = 1 << 20
_READ_WHOLE = 64 * _MIB


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """A temporary path next to `path`, renamed to it when the block ends without an error and removed otherwise.

    Example: `with replaced(folder / "weights.safetensors") as temporary: save_file(tensors, temporary)`
    """
    temporary = path.with_name(f".{path.name}.new")
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())  # the content is on the disk before the name points to it
        os.replace(temporary, path)
        sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def sync_folder(path: Path) -> None:
    """Bring the names of a folder to the disk, where the system can."""
    if os.name != "posix":
        return
    entry = os.open(path, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems refuse
            os.fsync(entry)
    finally:
        os.close(entry)


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a reader, or a killed process, sees the old content or the new, never a part."""
    with replaced(path) as temporary:
        temporary.write_bytes(content)


def digest_of_file(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fingerprint(files: Sequence[Path]) -> str:
    """SHA-256 over several files and their names, fast enough for checkpoints of many gigabytes.

    For a file above 64 MiB only its size and its first and last MiB count: the first holds the header with the names
    and shapes of all tensors, so two checkpoints differ in it or in the weights at the end.
    """
    digest = hashlib.sha256()
    for path in files:
        size = path.stat().st_size
        digest.update(f"{path.name} {size}\n".encode())
        with path.open("rb") as file:
            if size <= _READ_WHOLE:
                digest.update(hashlib.file_digest(file, "sha256").digest())
                continue
            digest.update(file.read(_MIB))
            file.seek(-_MIB, os.SEEK_END)
            digest.update(file.read(_MIB))
    return digest.hexdigest()


@contextmanager
def locked(path: Path, refusal: str) -> Iterator[None]:
    """Hold the lock file `path`; where another process holds it, raise a FloatlensError with `refusal` at once.

    The operating system releases the lock when the process ends, however it ends. The folder is locked as well, so
    nobody gets in where somebody removes the file.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise FloatlensError(refusal) from None
    try:
        with _locked_folder(path.parent, refusal):
            yield
    finally:
        lock.release()


@contextmanager
def _locked_folder(path: Path, refusal: str) -> Iterator[None]:
    """Hold the lock of a folder itself, where the system has such locks."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    entry = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(entry, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FloatlensError(refusal) from None
        except OSError:
            pass  # a network file system without them; the lock file is held
        yield
    finally:
        os.close(entry)
