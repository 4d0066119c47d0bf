"""Answers under caches with refresh schedules, made by hand: a frame, and a run folder with the same answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

from floatlens.records import RAG, Edited, Record
from floatlens.records.store import FORMAT, write_records
from shared.frames import answers, control, edit

__all__ = ["MILD", "STRONG", "make_cached", "make_cached_run"]

MILD, STRONG = edit("stale", least=0.99), edit("stale", least=0.9)
_RIGHT: dict[Any, list[float]] = {
    RAG: [1, 1, 1, 0],
    MILD: [1, 1, 0, 1],
    control(MILD, "count"): [1, 0, 0, 0],
    STRONG: [1, 1, 0, 0],
    control(STRONG, "count"): [0, 0, 0, 0],
}
_SAVED = {MILD: 0.5, STRONG: 0.75}
_KEPT = (
    *("model", "data", "id", "index", "condition", "prediction", "accuracy", "f1", "exact_match", "decided_at"),
    *("earliest_step", "saved_share", "saved_passes", "schedule", "kl"),
)


def _more(condition: Any, index: int, value: float) -> dict[str, Any]:
    if not isinstance(condition, Edited):
        return {}
    schedule = "0-1/4+2/2" if condition.edited == MILD else "0-2/8"
    saved = _SAVED[condition.edited]
    return {"saved_share": saved, "saved_passes": 8 * saved, "kl": 0.25 * index, "schedule": schedule}


def make_cached(model: str = "m") -> pd.DataFrame:
    """4 questions: full recomputation is right in 3, the mild schedule too, the strong one in 2, controls in less."""
    return answers(_RIGHT, model=model, more=_more)


def make_cached_run(folder: Path, model: str = "m", within: float = 1.0, choose: int | str = "all") -> Path:
    """The same as a run folder, without traces."""
    folder.mkdir(parents=True)
    manifest = {
        "format": FORMAT,
        "models": {model: {"kind": "mdm", "layers": 3, "heads": 2}},
        "data": {"d": {"count": 4, "column": "d"}},
        "template": "default@1",
        "output": {"within": within, "choose": choose},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    records = []
    for _, row in make_cached(model).iterrows():
        given = {name: row[name] for name in _KEPT if row[name] is not None and row[name] == row[name]}
        records.append(Record.model_validate({"what": "answer", "status": "done", **given}))
    write_records(folder, records)
    return folder
