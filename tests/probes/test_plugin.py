"""A probe of another package: one file, found through an entry point, from the trace to the reopened file."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import floatlens as fl
from floatlens.attention.probe import Layer, Probe
from floatlens.attention.variable import Variable
from floatlens.core.errors import FloatlensError
from floatlens.core.registry import Registry
from floatlens.models import LanguageModel
from floatlens.probes import PROBES

SOURCE = '''
import torch
import xarray as xr
from floatlens.attention.probe import DecidingRows
from floatlens.attention.variable import Variable


class Sharpness(DecidingRows):
    """The largest weight of each row, and how many keys hold half of a deciding row."""

    name = "sharpness"
    variables = (
        Variable("sharpness", ("step", "layer", "head", "query"), "append", "the largest weight of each row"),
        Variable("half_keys", ("token", "layer", "head"), "replace", "keys that hold half of the row", "int32"),
        Variable("passes", ("run",), "replace", "how many layers were seen"),
    )

    def __init__(self):
        super().__init__()
        self.seen = 0

    def begin(self, layer):
        super().begin(layer)
        self.largest = torch.zeros(layer.query.shape[:3])

    def block(self, layer, block):
        super().block(layer, block)
        self.largest[block.batch, block.heads, block.queries] = block.weights().amax(-1)

    def layer(self, layer):
        self.seen += 1
        return {"sharpness": self.largest}

    def rows(self, layer, block, weights):
        return {"half_keys": (weights.sort(-1, descending=True).values.cumsum(-1) < 0.5).sum(-1) + 1}

    def finish(self, length):
        return {"passes": xr.DataArray([self.seen], dims=("run",))}
'''


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package of one module, installed as pip would install it, and taken away again."""
    info = tmp_path / "sharp-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sharp\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[floatlens.probes]\nsharpness = sharp_probe:Sharpness\n")
    (tmp_path / "sharp_probe.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    vars(PROBES).pop("_foreign", None)
    yield tmp_path
    vars(PROBES).pop("_foreign", None)
    PROBES._loaded.pop("sharpness", None)
    sys.modules.pop("sharp_probe", None)


@pytest.mark.parametrize("name", ["llada", "qwen2"])
def test_one_file_adds_a_probe(name: str, package: Path, tiny_model: Callable[[str], LanguageModel]) -> None:
    assert [path.name for path in package.glob("*.py")] == ["sharp_probe.py"]
    assert len(entry_points(group="floatlens.probes")) == 1
    probes = ["sharpness", "answer_rows", fl.probes.Matrix(fl.Select())]
    trace = fl.trace(tiny_model(name), prompt_ids=[5, 9, 12], probes=probes, gen_length=3)
    matrix = trace.data["matrix"].values
    largest = np.where(np.isnan(matrix[-1]).all(-1), np.nan, np.nan_to_num(matrix[-1], nan=-1).max(-1))
    assert np.allclose(trace.data["sharpness"].values[-1], largest, equal_nan=True, atol=1e-6)
    assert trace.data["half_keys"].dims == ("token", "layer", "head")
    row, step = int(trace.data["token_row"][-1]), int(trace.data["token_step"][-1])
    ordered = np.sort(np.nan_to_num(matrix[step, :, :, row]), axis=-1)[..., ::-1]
    assert (trace.data["half_keys"].values[-1] == (ordered.cumsum(-1) < 0.5).sum(-1) + 1).all()
    assert trace.data["passes"].item() == 3 * trace.data.sizes["step"]
    assert "sharpness" in repr(trace)
    assert trace.by_probe["sharpness"] == ["sharpness", "half_keys", "passes"]


def test_its_traces_open_where_the_probe_is_not_installed(
    package: Path, tiny_model: Callable[[str], LanguageModel], tmp_path: Path
) -> None:
    made = fl.trace(tiny_model("llada"), prompt_ids=[5, 9, 12], probes=["sharpness"], gen_length=3)
    path = made.save(tmp_path / "out" / "a")
    code = f"""
import sys
import floatlens
trace = floatlens.open_trace({str(path)!r})
trace.require("sharpness", "half_keys")
assert trace.data.attrs["variables"]["half_keys"]["probe"] == "sharpness"
assert trace.data["sharpness"].attrs["meaning"] == "the largest weight of each row"
trace.save({str(tmp_path / "out" / "b")!r})
assert "torch" not in sys.modules and "sharp_probe" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
    assert fl.open_trace(tmp_path / "out" / "b.zarr.zip").data.identical(fl.open_trace(path).data)


def test_a_variable_belongs_to_one_probe(tiny_model: Callable[[str], LanguageModel]) -> None:
    class Copy(type(fl.probes.Entropy())):  # type: ignore[misc]
        name = "copy"

    class Final(fl.Probe):
        name = "final"
        variables: Any = (fl.probes.Entropy.variables[0].__class__("final", ("run",), "replace", "?"),)

    for probe, message in ((Copy(), 'the probe "entropy" writes'), (Final(), "every trace writes")):
        with pytest.raises(FloatlensError, match=message):
            fl.trace(tiny_model("llada"), prompt_ids=[5], probes=["entropy", probe], gen_length=2)


def test_probes_added_at_run_time() -> None:
    assert isinstance(PROBES, Registry)
    PROBES.add("again", fl.probes.Entropy)
    try:
        with pytest.raises(ValueError, match="exists already"):
            PROBES.add("again", fl.probes.Entropy)
        assert PROBES["again"] is fl.probes.Entropy
    finally:
        PROBES.remove("again")
    assert "again" not in PROBES


@pytest.mark.parametrize(
    ("merge", "returned", "told"),
    [
        ("mean", lambda query: {"width": query[..., 0].mean(-1)}, r'width is declared as "mean"; return Mean\('),
        ("append", lambda query: {"wide": query[..., 0]}, 'returns "wide" and does not declare it'),
        (
            "append",
            lambda query: {"width": query[..., 0, 0]},
            r"width has 2 dimensions; expected \(batch, head, query\)",
        ),
    ],
)
def test_what_a_probe_returns_is_held_against_its_declaration(
    tiny_model: Callable[[str], LanguageModel], merge: Any, returned: Callable[[Any], Any], told: str
) -> None:
    class Width(Probe):
        name = "width"
        dims = ("step", "layer", "head") if merge == "mean" else ("step", "layer", "head", "query")
        variables = (Variable("width", dims, merge, "made up"),)

        def layer(self, layer: Layer) -> Any:
            return returned(layer.query)

    with pytest.raises(FloatlensError, match=told):
        fl.trace(tiny_model("llama"), prompt_ids=[5, 6, 7], probes=[Width()], gen_length=2)
