"""Checkpoints of published widths, and the memory of loading them; with tiny widths."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import floatlens as fl
from floatlens.core.errors import FloatlensError
from floatlens_lab.bench import checkpoints, load
from floatlens_lab.bench.apart_report import load_as_markdown, save_load
from floatlens_lab.bench.checkpoints import config_of, size_of, tensors_of, write_checkpoint
from floatlens_lab.bench.load import LoadMeasured, LoadPlan, run_load
from floatlens_lab.bench.width import SUBJECTS, Width
from shared.published import CHECKPOINTS

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="/proc")
PUBLISHED = {
    "llada-8b": "GSAI-ML/LLaDA-8B-Instruct",
    "dream-7b": "Dream-org/Dream-v0-Instruct-7B",
    "nemotron-3b": "nvidia/Nemotron-Labs-Diffusion-3B",
}


def small(subject: str) -> Width:
    return replace(SUBJECTS[subject], width=32, heads=4, kv_heads=4, head=8, mlp=48, vocabulary=100)


@pytest.mark.parametrize(("subject", "name"), PUBLISHED.items())
def test_tensors_and_sizes_are_the_published_ones(subject: str, name: str) -> None:
    size, published = SUBJECTS[subject], CHECKPOINTS[name]
    assert tensors_of(size, size.layers) == published.tensors
    assert size_of(size, size.layers) == 2 * published.parameters
    shared = published.config.keys() & config_of(size, size.layers).keys() - {"mask_token_id", "rms_norm_eps"}
    assert len(shared) >= 10
    assert {key: config_of(size, size.layers)[key] for key in shared} == {key: published.config[key] for key in shared}


def test_llama_has_its_published_number_of_parameters() -> None:
    assert size_of(SUBJECTS["llama-8b"], 32) == 2 * 8_030_261_248


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_checkpoint_loads_as_its_family(subject: str, tmp_path: Path) -> None:
    size = small(subject)
    write_checkpoint(size, 2, tmp_path, shard_bytes=12_000)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    shards = sorted(path.name for path in tmp_path.glob("*.safetensors"))
    assert len(shards) >= 3
    assert sorted(set(index["weight_map"].values())) == shards
    assert set(index["weight_map"]) == set(tensors_of(size, 2))
    model = fl.load(tmp_path, dtype="bfloat16", device="cpu")
    assert (model.family, model.kind, model.num_layers) == (size.family, size.kind, 2)
    assert 2 * sum(one.numel() for one in model.module.parameters()) == size_of(size, 2)
    embedded = model.module.get_input_embeddings().weight.float()
    assert embedded.shape == (100, 32)
    assert 0.01 < float(embedded.std()) < 0.03  # uniform within ±0.03: 0.0173


def test_a_full_disk_is_said_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(checkpoints.shutil, "disk_usage", lambda _: usage(1 << 40, 1 << 40, 1 << 30))
    with pytest.raises(FloatlensError, match=r"takes 3\.6 GiB .+ 1\.0 GiB are free; .+ fewer --layers"):
        write_checkpoint(SUBJECTS["llada-8b"], 4, tmp_path)
    assert not list(tmp_path.iterdir())


@LINUX
def test_what_is_measured_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """5 MB of weights: bookkeeping of a process is of that size, so no ratio is asserted."""
    size = replace(small("llada-8b"), width=256, mlp=512, vocabulary=4000, head=64)
    monkeypatch.setitem(SUBJECTS, "small", size)
    monkeypatch.setattr(load.tempfile, "tempdir", str(tmp_path))
    said: list[str] = []
    plan = LoadPlan("small", 1, ("float32",), rounds=1, shard_bytes=1 << 20)
    (found,) = run_load(plan, said.append)
    assert found.size == 4 * sum(math.prod(shape) for shape in tensors_of(size, 1).values())
    assert found.needed[0] >= 0.9 * found.size
    assert "float32, round 1 of 1: loading needs" in said[-1]
    assert not list(tmp_path.iterdir())


@LINUX
def test_an_end_by_signal_removes_the_files(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys\n"
        "from floatlens_lab.bench import load\n"
        "def stop(size, layers, folder, *_):\n"
        "    (folder / 'half').write_text('x'); print(folder, flush=True); os.kill(os.getpid(), signal.SIGTERM)\n"
        "load.write_checkpoint = stop\n"
        "load.run_load(load.LoadPlan())\n"
    )
    settings = os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=settings, check=False)
    assert done.stdout.startswith(str(tmp_path))
    assert done.returncode in (-signal.SIGINT, 1)
    assert not list(tmp_path.iterdir())


def test_loading_is_reported(tmp_path: Path) -> None:
    results = [
        LoadMeasured("llada-8b", 4, "bfloat16", 100 << 20, [100 << 20, 101 << 20], [102 << 20, 101 << 20]),
        LoadMeasured("llada-8b", 4, "float32", 200 << 20, [231 << 20, 200 << 20], [300 << 20, 300 << 20]),
    ]
    table = load_as_markdown(results)
    assert "| llada-8b | 4 | bfloat16 | 100.0 | 1.010 | 1.020 |" in table
    assert "| llada-8b | 4 | float32 | 200.0 | **1.155** | 1.500 |" in table
    text, numbers = save_load(results, tmp_path)
    assert "`floatlens bench --part load --subject llada-8b --layers 4`" in text.read_text()
    assert json.loads(numbers.read_text())[1]["dtype"] == "float32"


@pytest.mark.parametrize(
    ("settings", "said"), [({"subject": "gpt-9"}, "give one of llada-8b"), ({"layers": 0}, "at 1")]
)
def test_mistakes_are_said_first(settings: dict[str, object], said: str) -> None:
    with pytest.raises(FloatlensError, match=said):
        LoadPlan(**settings)  # type: ignore[arg-type]


def test_bytes_by_dtype() -> None:
    size = small("llada-8b")
    assert size_of(size, 2, torch.float32) == 2 * size_of(size, 2)
