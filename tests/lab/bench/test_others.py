"""floatlens beside other tools: which are not needed to test how they are run, compared and reported."""

from __future__ import annotations

import json
import math
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from floatlens.core.errors import FloatlensError
from floatlens_lab.bench import others, tool_worker
from floatlens_lab.bench.apart_report import others_as_markdown, save_others
from floatlens_lab.bench.others import AGREEMENT, OTHERS, OthersMeasured, OthersPlan, run_others

GIVEN = {
    "seconds": {"plain": [1.0, 2.0, 2.0], "floatlens": [1.5, 2.0, 2.2], "nnsight": [3.0, 5.0, 4.0]},
    "memory": {"plain": 1 << 20, "floatlens": 2 << 20, "nnsight": 8 << 20},
    "difference": {"nnsight": 0.5},
    "versions": {"plain": {"torch": "2"}, "nnsight": {"nnsight": "0.8.1", "torch": "2"}},
    "skipped": {"transformerlens": "needs about 22 GiB"},
}


def test_a_run_measures_what_is_there() -> None:
    """Tools that are not installed are named in one line; those that are agree with floatlens."""
    said: list[str] = []
    (found,) = run_others(OthersPlan((64,), rounds=1, threads=1), said.append)
    missing = {
        name
        for name, module in (("transformerlens", "transformer_lens"), ("nnsight", "nnsight"))
        if not find_spec(module)
    }
    assert set(found.seconds) == {"plain", "floatlens", *OTHERS} - missing
    assert set(found.skipped) == missing
    for name in missing:
        assert f'install it there with "pip install {OTHERS[name]}"' in found.skipped[name]
    assert all(difference <= AGREEMENT for difference in found.difference.values())
    assert all(one > 0 for seconds in found.seconds.values() for one in seconds)
    assert said[-1].startswith("T = 64: floatlens ")


def test_received_by_the_worker_is_the_mean_of_eager_weights(tmp_path: Path) -> None:
    import torch

    others._save_model(tmp_path, 64)
    worker = tool_worker.Worker()
    worker.prepare(str(tmp_path), "floatlens", None)
    worker.received(64, str(tmp_path / "found.npy"))
    module, ids = tool_worker._module(str(tmp_path), "eager"), tool_worker._ids(64)
    with torch.inference_mode():
        wanted = torch.stack([one[0].mean(1) for one in module(ids, output_attentions=True).attentions])
    found = np.load(tmp_path / "found.npy", allow_pickle=False)
    assert found.shape == (8, 8, 64)
    assert np.abs(found - wanted.numpy()).max() < 1e-6
    assert wanted[:, :, -1].max() < 1 / 64  # only the last query sees the last key: causal


def test_differences_are_shown_and_marked(tmp_path: Path) -> None:
    found = OthersMeasured(512, **GIVEN)  # type: ignore[arg-type]
    assert found.ratio("floatlens") == (1.1, 1.0, 1.5)
    table = others_as_markdown([found])
    row = "| 512 | 2000 | 1.10 (1.00–1.50); 2.0 MiB | not run | 2.50 (2.00–3.00); 8.0 MiB | – | **5.0e-01** |"
    assert row in table
    assert "transformerlens not run at T = 512: needs about 22 GiB." in table
    assert "Versions: plain: torch 2; nnsight: nnsight 0.8.1, torch 2." in table
    text, numbers = save_others([found], tmp_path)
    assert "--part others" in text.read_text()
    assert json.loads(numbers.read_text())[0]["difference"] == {"nnsight": 0.5}


def test_shapes_that_differ_do_not_agree() -> None:
    assert others._difference(np.zeros((8, 8, 64)), np.zeros((8, 8, 63))) == math.inf
    assert others._difference(np.zeros(3), np.array([0, 0, 0.25])) == 0.25


def test_a_pass_that_does_not_fit_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(others, "LINUX", True)
    monkeypatch.setattr(others, "from_proc", lambda file, field: 8 << 30)
    assert others._too_large("transformerlens", 8192) == "needs about 22 GiB"
    assert others._too_large("transformerlens", 1024) is None
    assert others._too_large("floatlens", 8192) is None


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"python": "/no/such/python"}, "no such file"),
        ({"rounds": 0}, "rounds at 1"),
        ({"lengths": (8,)}, "start at 64"),
    ],
)
def test_mistakes_are_said_first(settings: dict[str, object], said: str) -> None:
    with pytest.raises(FloatlensError, match=said):
        OthersPlan(**settings)  # type: ignore[arg-type]


def test_an_own_variant_that_fails_is_an_error() -> None:
    with pytest.raises(FloatlensError, match="plain failed: ValueError"):
        others._why("plain", sys.executable, "ValueError: x")
    assert others._why("nnsight", "py", "ValueError: x") == "nnsight: ValueError: x"
