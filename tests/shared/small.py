"""A study that takes seconds, and how two runs of it are compared: records without times, traces array by array."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from floatlens.records import Record, read_records
from floatlens.traces import open_trace

STUDY: dict[str, Any] = {
    "name": "small",
    "models": ["scale:qwen", "scale:llada"],
    "data": [
        {
            "ref": "scale:rag:documents=3",
            "limit": 3,
            "conditions": ["closed", "rag", "noise", "drop_anchors:k=1", "ablate_heads:top=2"],
        }
    ],
    "decoding": {"settings": {"gen_length": 4, "steps": 2}},
    "stress": {"noise": {"ratios": [0, 0.4], "documents": 3}},
    "traces": {"questions": 1, "places": [0, 2], "documents": 3, "edited": 1},
    "controls": {"shuffled_weights": 1},
    "analyses": ["drift", "absorption", "flow"],
    "output": {"figures": ["png"], "examples": 1},
    "machine": {"batch": 2},
}
"""Of each model: 2 traces, 2 of its control, and of 3 questions closed, rag, clean, 2 points of noise, the edits with
three random controls in all."""
ITEMS = 2 * (2 + 2 + 3 * (2 + 1 + 2 + 2 + 3))


def bare(out: Path) -> dict[str, Record]:
    """Records by item, without what depends on the clock."""
    found = read_records(out)
    assert len(found) == len({record.item for record in found})
    return {record.item: record.model_copy(update={"seconds": None}) for record in found}


def assert_same(one: Path, other: Path) -> None:
    """The same records, the same traces."""
    left, right = bare(one), bare(other)
    assert left == right
    files = [record.file for record in left.values() if record.file is not None]
    for run in (one, other):
        there = {path.relative_to(run).as_posix() for path in (run / "traces").rglob("*") if path.is_file()}
        assert there == set(files)
    for file in files:
        a, b = open_trace(one / file), open_trace(other / file)
        assert a.data.attrs == b.data.attrs
        assert set(a.data.variables) == set(b.data.variables)
        for name in a.data.variables:
            np.testing.assert_array_equal(a.data[name].values, b.data[name].values, err_msg=f"{file}, {name}")
