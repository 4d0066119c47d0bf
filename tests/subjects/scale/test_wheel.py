"""A wheel built from this tree holds the weights, their cards and everything else the package reads at run time."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from floatlens.subjects import natural
from floatlens.subjects.scale import bundled

ROOT = Path(__file__).parents[3]


def test_the_wheel_contains_the_weights(tmp_path):
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    for model in bundled():
        for file in ("config.json", "model.safetensors", "tokenizer.json", "card.json", "README.md"):
            assert f"floatlens/subjects/scale/weights/{model}/{file}" in names
    for adapter in natural.bundled()[1:]:
        for file in ("adapter_config.json", "adapter_model.safetensors", "adaptation.json", "card.json", "README.md"):
            assert f"floatlens/subjects/natural/adapters/{adapter}/{file}" in names
    assert {"floatlens/__init__.pyi", "floatlens/models/__init__.pyi"} <= names  # read when the package is imported
    assert not [name for name in names if "floatlens_lab" in name]
    assert "floatlens/prompts/templates/default.yaml" in names
    assert not [name for name in names if name.endswith("training.safetensors")]
