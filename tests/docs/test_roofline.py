"""docs/roofline.py: its table is that of docs/cluster.md, and its arithmetic that of the page."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def roofline() -> Any:
    spec = importlib.util.spec_from_file_location("floatlens_docs_roofline", DOCS / "roofline.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made  # dataclasses look their module up
    spec.loader.exec_module(made)
    return made


def test_the_table_is_the_one_on_the_page(roofline: Any) -> None:
    assert roofline.table() in (DOCS / "cluster.md").read_text(encoding="utf-8")


def test_operations_of_llada(roofline: Any) -> None:
    """32 × (4 · 4096² + 3 · 4096 · 12288) = 6.98 · 10⁹ weights; at T = 1024 14.3 TFLOP, and 0.55 of attention."""
    assert roofline.LLADA.body == 6_979_321_856
    found = roofline.seconds(roofline.GPUS[0], roofline.LLADA, 1024)
    assert found["operations plain"] / 1e12 == pytest.approx(14.29 + 0.55, abs=0.01)
    assert found["plain"] == pytest.approx(14.29 / (0.4 * 312) + 0.55 / (0.3 * 312), rel=1e-3)
    assert found["fused"] == pytest.approx(8 * found["fused, TF32"])


def test_triton_sweeps_of_llada(roofline: Any) -> None:
    """For each of 32 · 32 · 1024² = 1.074 · 10⁹ weights on an A100: 2 · 128 + 160 operations more than attention at
    30 % of 312 TFLOP/s, and 27 instructions at 30 % of 9.75 · 10¹²/s."""
    found = roofline.seconds(roofline.GPUS[0], roofline.LLADA, 1024)
    weights = 32 * 32 * 1024**2
    assert found["operations Triton"] == 416 * weights
    assert found["Triton"] == pytest.approx(weights * (416 / (0.3 * 312e12) + 27 / (0.3 * 9.75e12)))
    assert found["bytes Triton"] == 32 * 32 * 1024 * (1536 + 12 + 128)


def test_break_even(roofline: Any) -> None:
    """Both sweeps do 4 · 128 + 416 operations and 27 instructions; FlexAttention does 1088 more than 4 · 128."""
    sweeps = 928 / 312e12 + 27 / 9.75e12
    flex = 512 / (0.3 * 312e12) + 1088 / (0.3 * 156e12)
    found = roofline.break_even(roofline.GPUS[0], roofline.LLADA)
    assert found == pytest.approx(sweeps / flex)
    assert f"{100 * found:.0f} % (A100)" in (DOCS / "cluster.md").read_text(encoding="utf-8")


def test_this_cpu_by_the_same_arithmetic(roofline: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At 100 GFLOP/s a layer takes 2 · 218 103 808 · 1024 operations and 4 · 128 · 32 · 1024² of attention; rows
    do 4 · 128 + 32 operations for each of 32 · 1024² weights instead of these, more than their bytes take."""
    seconds = {"plain": [4.5], "rows": [9.0], "fused": [18.0]}
    measured = tmp_path / "width.json"
    measured.write_text(json.dumps([{"length": 1024, "built": 1, "seconds": seconds, "head": 0.1}]))
    monkeypatch.setattr(roofline, "_product_rate", lambda: 100e9)
    monkeypatch.setattr(roofline, "_copy_rate", lambda: 100e9)
    plain = (2 * 218_103_808 * 1024 + 512 * 32 * 1024**2) / 100e9
    rows = max(544 * 32 * 1024**2 / 100e9, 52 * 32 * 1024**2 / 100e9) - 512 * 32 * 1024**2 / 100e9
    fused = 1088 * 32 * 1024**2 / 100e9
    expected = f"| 1024 | 4500 | {plain * 1e3:.0f} | 2.00 | {1 + rows / plain:.2f} | 4.00 | {1 + fused / plain:.2f} |"
    assert roofline.cpu(measured).splitlines()[-1] == expected
