"""Memory per step of a long trace, at a small width; and what the table makes of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from floatlens.core.errors import FloatlensError
from floatlens_lab.bench.apart_report import save_stream, stream_as_markdown
from floatlens_lab.bench.run import fresh
from floatlens_lab.bench.stream import StreamMeasured, StreamPlan, run_stream

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="/proc")

_SMALL = """
from floatlens_lab.bench import stream, width
width.SUBJECTS["small"] = width.Width(4, 64, 8, 8, 16, 96, 1024)
def measured(*given):
    return stream.memory_of_steps("small", *given)
"""


@LINUX
def test_memory_does_not_grow_with_the_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """64 steps find 2 MB after step 16, of which none stays in memory."""
    (tmp_path / "small_width.py").write_text(_SMALL)
    monkeypatch.syspath_prepend(str(tmp_path))
    held, (saving, arrays, file) = fresh("small_width", "measured", [2, 96, 64, 1], "64 steps", blocks=1 << 14)
    found = StreamMeasured("small", 2, 160, held, saving, arrays, file)
    assert len(held) == 64
    assert arrays * 48 / 64 > 3 << 20
    assert found.growth() < 1 << 20
    assert 0 < file < arrays


_HELD = """
from floatlens_lab.bench.memory import Peak
def measured():
    with Peak() as peak:
        block = bytearray(64 << 20)
        block[::4096] = b"x" * len(range(0, len(block), 4096))
        del block
    return [peak.anonymous, peak.resident]
"""


@LINUX
def test_a_peak_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process of its own: the kernel may take pages back from a test worker, which is large and old."""
    (tmp_path / "held_block.py").write_text(_HELD)
    monkeypatch.syspath_prepend(str(tmp_path))
    anonymous, resident = fresh("held_block", "measured", [], "64 MiB")
    assert resident >= 60 << 20
    assert anonymous <= resident + (1 << 20)


def test_growth_and_its_table(tmp_path: Path) -> None:
    mib = 1 << 20
    held = [step * mib for step in range(1, 17)] + [(16 + step) * mib for step in range(112)]
    found = StreamMeasured("llada-8b", 2, 192, held, 3 * mib, 40 * mib, 20 * mib)
    assert found.growth() == 111 * mib
    table = stream_as_markdown([found])
    assert "| 192 | 1.0 | 16.0 | 31.0 | 63.0 | 95.0 | 127.0 | **111.0** | 3.0 | 40.0 | 20.0 |" in table
    text, numbers = save_stream([found], tmp_path)
    assert "2 layers with random weights, 128 steps" in text.read_text()
    assert json.loads(numbers.read_text())[0]["held"] == held


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"subject": "gpt-9"}, "give one of llada-8b"),
        ({"subject": "llama-8b"}, "give a diffusion model"),
        ({"steps": 16}, "more than 16 steps"),
    ],
)
def test_mistakes_are_said_first(settings: dict[str, object], said: str) -> None:
    with pytest.raises(FloatlensError, match=said):
        run_stream(StreamPlan(**settings))  # type: ignore[arg-type]
