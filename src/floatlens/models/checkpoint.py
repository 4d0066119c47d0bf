"""From a reference to files: a local folder, or the snapshot of a hub repository; and a check of its weight files.

The configuration is fetched and judged before any weights are. A local path never leads to the network. Safetensors
files are preferred; a .bin is read as plain tensors only. No file of code is ever fetched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from floatlens.core.borders import check_reference, check_regular, refuse_special
from floatlens.core.errors import FloatlensError
from floatlens.core.files import fingerprint

from .settings import Settings
from .told import Told

__all__ = ["Checkpoint", "brief", "check_files", "find", "in_one_line", "weights_of"]

_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)
_SMALL = ["*.json", "*.txt", "*.model", "*.jinja"]
_READ_WHOLE = (".json", ".txt", ".model", ".jinja")
_LARGEST = 1 << 28
"""Bytes of the largest file that is read as a whole; the largest published tokenizers have 40 MB."""
_LARGEST_HEADER = 100_000_000
"""Bytes of the header of a safetensors file, by its definition."""
_BELOW = ["*/*"]  # sub-folders hold other formats of the same weights


@dataclass(frozen=True)
class Checkpoint:
    """A folder with a config.json; `revision` is the commit for a hub repository, None for a local folder."""

    ref: str
    folder: Path
    hub_id: str | None = None
    revision: str | None = None
    told: Told = field(default_factory=Told)

    @property
    def settings(self) -> Settings:
        return Settings.read(self.folder / "config.json", self.told)

    def optional_json(self, name: str) -> dict[str, Any]:
        """A JSON file of the folder, empty when there is none."""
        path = self.folder / name
        return dict(Settings.read(path)) if path.is_file() else {}

    def weights_digest(self) -> str | None:
        """Which weights a local folder holds (see `fingerprint`). None for a hub repository, whose revision says it,
        and where not all of them are there, which `weights` will refuse."""
        if self.hub_id is not None or self.missing_shards():
            return None
        files = self.weight_files("model.safetensors") or self.weight_files("pytorch_model.bin")
        return fingerprint(files) if files else None

    def weights(self) -> bool:
        """Fetch the weights if need be and check that every file is there and whole; True for safetensors."""
        for single, safe in (("model.safetensors", True), ("pytorch_model.bin", False)):
            files = self.weight_files(single)
            if files and safe:
                for file in files:
                    _check_safetensors(file)
            if files:
                return safe
        raise FloatlensError(
            f"{self.folder}: no weights in it; expected model.safetensors, model.safetensors.index.json, "
            "pytorch_model.bin or pytorch_model.bin.index.json"
        )

    def missing_shards(self) -> list[str]:
        """Files of a local folder that its index lists and that are not there."""
        listed: set[str] = set()
        for single in ("model.safetensors", "pytorch_model.bin"):
            if not (self.folder / single).is_file():
                listed |= set(self.tensor_index(single).values())
        return sorted(name for name in listed if not (self.folder / name).is_file())

    def tensor_index(self, single: str) -> dict[str, str]:
        """The file of each tensor, by the index of the shards of `single`; empty where there is no index."""
        index = self.folder / f"{single}.index.json"
        if not index.is_file():
            return {}
        weight_map = Settings.read(index).get("weight_map")
        if not isinstance(weight_map, dict) or not weight_map:
            raise FloatlensError(f"{index}: it has no `weight_map`")
        return {str(name): str(file) for name, file in weight_map.items()}

    def weight_files(self, single: str) -> list[Path]:
        """The one file, or the shards its index names, each of which must exist; nothing else is fetched."""
        names, index = [single], self.folder / f"{single}.index.json"
        sharded = index.is_file() and not (self.folder / single).is_file()
        if sharded:
            names = sorted(set(self.tensor_index(single).values()))
        if self.hub_id is not None:
            _snapshot(self.hub_id, self.revision, names)
        missing = [name for name in names if not (self.folder / name).is_file()]
        if missing and sharded:
            raise FloatlensError(
                f"{self.folder / missing[0]}: missing, though {index.name} lists it; download it again"
            )
        return [] if missing else [self.folder / name for name in names]


def find(ref: str, revision: str | None, told: Told | None = None) -> Checkpoint:
    """The checkpoint behind a path or a hub id; of the latter only the small files are fetched."""
    told = told or Told()
    path = Path(check_reference(ref)).expanduser()
    if path.is_dir():
        if revision is not None:
            raise FloatlensError(f"{ref}: revision= is for hub repositories, and this is a local folder")
        return Checkpoint(ref, check_files(path), told=told)
    if path.exists():
        raise FloatlensError(f"{ref}: expected a folder with a config.json, or a .gguf file")
    if _HUB_ID.fullmatch(ref) is None or ref.startswith("."):
        raise FloatlensError(f"{ref}: no such folder, and not a hub id such as org/name")
    folder = check_files(_snapshot(ref, revision, _SMALL))
    return Checkpoint(ref, folder, hub_id=ref, revision=folder.name, told=told)


def check_files(folder: Path) -> Path:
    """The folder, where no file of it is a pipe or a device and none but weights has more than 256 MB.

    transformers, tokenizers and peft read files by name, whatever is there.
    """
    for path in folder.iterdir():
        refuse_special(path)
        if path.is_file() and path.suffix in _READ_WHOLE:
            check_regular(path, _LARGEST)
    return folder


def weights_of(path: str, revision: str | None = None) -> str | None:
    """A digest of the weights behind a local path; None for a hub id, whose revision says which they are."""
    if path.endswith(".gguf"):
        return fingerprint([Path(path).expanduser()])
    return find(path, revision).weights_digest()


def _snapshot(hub_id: str, revision: str | None, patterns: list[str]) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    # OSError, and the error of whichever HTTP library this version of the hub client is built on
    unreachable = cast("tuple[type[Exception], ...]", HfHubHTTPError.__bases__)

    where = f"{hub_id} (revision {revision})" if revision else hub_id
    try:
        return Path(snapshot_download(hub_id, revision=revision, allow_patterns=patterns, ignore_patterns=_BELOW))
    except RevisionNotFoundError as error:
        raise FloatlensError(f"{where}: the hub has no such revision") from error
    except GatedRepoError as error:
        raise FloatlensError(f"{where}: the repository is gated; ask for access on the hub and log in") from error
    except RepositoryNotFoundError as error:
        raise FloatlensError(
            f"{where}: no such folder here and no such repository on the hub (or it is private: log in first)"
        ) from error
    except (HfHubHTTPError, HFValidationError) as error:
        raise FloatlensError(f"{where}: the hub refused the download ({brief(error)})") from error
    except unreachable as error:
        raise FloatlensError(
            f"{where}: no such folder here, and the hub cannot be reached to download it; check the name or the network"
        ) from error


def _check_safetensors(file: Path) -> None:
    """Open the header: it is read in full and compared with the file's size, so a cut download is found here.

    The size is compared before the file is mapped into memory, for which a huge file would need room."""
    from safetensors import SafetensorError, safe_open

    held, told = file.stat().st_size, _told_size(file)
    if told != held:
        raise FloatlensError(f"{file}: damaged or cut short ({held} bytes, not {told}); download it again")
    try:
        with safe_open(file, framework="pt"):
            pass
    except (SafetensorError, OSError, json.JSONDecodeError) as error:
        raise FloatlensError(f"{file}: damaged or cut short ({brief(error)}); download it again") from error


def _told_size(file: Path) -> int:
    """The size that a safetensors file has by its header."""
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        if length > _LARGEST_HEADER:
            raise FloatlensError(f"{file}: damaged or cut short (a header of {length} bytes); download it again")
        try:
            tensors = json.loads(opened.read(length))
            ends = [one["data_offsets"][1] for name, one in tensors.items() if name != "__metadata__"]
            return 8 + length + max([0, *map(int, ends)])
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
            raise FloatlensError(
                f"{file}: damaged or cut short (its header lists no tensors); download it again"
            ) from error


def brief(error: BaseException | str) -> str:
    """Another library's message, short enough for one line of ours."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 200 else f"{text[:200]}..."


@contextmanager
def in_one_line(where: Path | str, what: str, then: str = "") -> Iterator[None]:
    """Whatever another library raises of files that others wrote is a FloatlensError: where, what, its own message.

    No list of exceptions holds for a damaged file: transformers, peft and gguf meet it where they use what they have
    read, with AttributeError, AssertionError, struct.error, StrictDataclassError and more. What is out of memory stays
    that.
    """
    try:
        yield
    except (FloatlensError, MemoryError):
        raise
    except Exception as error:
        raise FloatlensError(f"{where}: {what} ({brief(error)}){then}") from error
