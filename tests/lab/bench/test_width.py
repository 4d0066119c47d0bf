"""Capture at published widths: the arithmetic of the whole, and a run at a small width."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from floatlens.core.errors import FloatlensError
from floatlens_lab.bench import width


def test_the_whole_is_its_layers_and_the_head() -> None:
    seconds = {"plain": [1.0, 2.0, 9.0], "eager": [6.0], "rows": [3.0], "fused": [4.0]}
    one = width.Rehearsed(256, built=2, seconds=seconds, head=0.5)
    assert one.layer("plain") == 1.0
    assert one.whole("rows", 32) == 32 * 1.5 + 0.5
    shown = width.as_markdown("llada-8b", [one])
    assert "| | 256 | 1000 ms | 3.00 × | 1.50 × | 2.00 × | 1.49 × | 1.98 × |" in shown
    assert "32 layers × 1000 ms + head 500 ms = 32.50 s plain" in shown


@pytest.mark.parametrize("kind", ["mdm", "arm"])
def test_a_small_width(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    small = width.Width(4, 32, 4, 2, 8, 64, 100, kind)  # type: ignore[arg-type]
    monkeypatch.setitem(width.SUBJECTS, "small", small)
    said: list[str] = []
    (found,) = width.rehearse("small", lengths=(64,), rounds=2, layers=2, say=said.append)
    assert {name: len(seconds) for name, seconds in found.seconds.items()} == dict.fromkeys(width.VARIANTS, 2)
    assert said[0].startswith("T = 64: a layer takes plain ")


def test_kernels_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(width.SUBJECTS, "small", width.Width(4, 32, 4, 2, 8, 64, 100))
    (found,) = width.rehearse("small", lengths=(16,), rounds=1, layers=1, kernels=["flash"])
    assert list(found.seconds) == ["plain", "eager", "rows", "flash"]
    shown = width.as_markdown("llada-8b", [found])
    assert shown.startswith("| llada-8b | T | layer, plain | eager | rows | flash | whole, rows | whole, flash |\n")
    with pytest.raises(FloatlensError, match='kernel "triton" is not one of cpu; give flash'):
        width.rehearse("small", kernels=["triton"])


def test_unknown_subjects() -> None:
    with pytest.raises(FloatlensError, match="give one of llada-8b, dream-7b, llama-8b, nemotron-3b"):
        width.rehearse("gpt-9")


def test_results_are_saved_with_their_command(tmp_path: Path) -> None:
    seconds = {"plain": [1.0], "eager": [2.0], "rows": [1.0], "fused": [1.5]}
    table, numbers = width.save("llada-8b", [width.Rehearsed(256, 2, seconds, 0.5)], tmp_path, "floatlens bench …")
    assert table.read_text(encoding="utf-8").startswith("# Capture at the width of llada-8b\n\n`floatlens bench …`")
    assert json.loads(numbers.read_text(encoding="utf-8"))[0]["seconds"] == seconds
