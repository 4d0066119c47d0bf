"""Runs of answers to report on, written by hand: scores follow from a hash of the question, so they can be redone."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

from floatlens.data.stress import STRESS_TESTS, StressSettings
from floatlens.edits.spec import parse_edit
from floatlens.records import CLOSED, RAG, Condition, Edited, Record, Stressed, read_records
from floatlens.records.store import FORMAT, write_records
from shared.stress import name_of, points

QUESTIONS = 12
KINDS = {"moving-mdm": "mdm", "fixed-arm": "arm"}
STRESS = {
    "noise": {"ratios": [0.0, 0.4, 0.8]},
    "position": {"places": [0, 4, 9]},
    "distractor": {"counts": [1, 4], "kinds": ["random", "topic"]},
    "order": {"shuffles": 2},
}
CONDITIONS = {
    "qa": ["closed", "rag"],
    "stress": [
        *("clean", "noise-0", "noise-0.4", "noise-0.8", "position-0", "position-4", "position-9", "order-0", "order-1"),
        *("distractor-random-1", "distractor-random-4", "distractor-topic-1", "distractor-topic-4"),
    ],
    "intervene": [
        *("plain", "drop_anchors k=1", "drop_anchors k=1 (count control)", "drop_anchors k=1 (mass control)"),
        *("drop_anchors k=5", "drop_anchors k=5 (count control)", "drop_anchors k=5 (mass control)"),
        *("pin_anchors to=step0 k=5", "pin_anchors to=step0 k=5 (mass control)", "sink_token logit=2"),
    ],
}


def right(model: str, condition: str, question: int) -> bool:
    """Whether a model gets a question right: by chance, more often with documents and plain than without and edited."""
    chance = {"closed": 30, "rag": 80, "clean": 90, "plain": 80}.get(condition, 60)
    return zlib.crc32(f"{model}/{condition}/{question}".encode()) % 100 < chance


def share(model: str, condition: str) -> float:
    """Accuracy worked out from the rule that made the scores."""
    return sum(right(model, condition, question) for question in range(QUESTIONS)) / QUESTIONS


def make_answers(
    folder: Path, kind: str, *, data: str = "people", said: str = "a grey dog", models: dict[str, str] = KINDS
) -> Path:
    """A run of one kind: every model, every condition, every question."""
    folder.mkdir(parents=True)
    ask = {"decoding": {"sampler": "own", "settings": {"gen_length": 8}}}
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "models": {ref: {"kind": side, "layers": 3, "heads": 2, "ask": ask} for ref, side in models.items()},
        "data": {data: {"count": QUESTIONS, "column": data}},
        "template": "default@1",
    }
    if kind == "stress":
        manifest["stress"] = STRESS
    (folder / "manifest.json").write_text(json.dumps(manifest))
    records = [
        _record(kind, model, data, condition, question, said)
        for model in models
        for condition in CONDITIONS[kind]
        for question in range(QUESTIONS)
    ]
    write_records(folder, records)
    return folder


def condition_of(name: str) -> Condition:
    """The condition that a name of `CONDITIONS` stands for."""
    if name in ("closed", "rag", "plain"):
        return CLOSED if name == "closed" else RAG
    settings: StressSettings = StressSettings.model_validate(STRESS)
    for point in (point for test in STRESS_TESTS for point in points(test, settings)):
        if name_of(point) == name:
            return Stressed(test=point.test, series=point.series, x=point.x, point=point.point)
    edit, _, control = name.removesuffix(" control)").partition(" (")
    (spec,) = parse_edit(edit.replace(" ", ":"))
    drawn = {"control": control, "seed": 0} if control else {}
    return Edited.model_validate({"name": spec.name, "settings": spec.settings, **drawn})


def make_study(folder: Path, *, failed: int = 0) -> Path:
    """A study: the answers of qa, the first so many failed, and the record of one trace."""
    run = make_answers(folder, "qa")
    records = [
        one.model_copy(update={"status": "failed" if i < failed else "done"}) for i, one in enumerate(read_records(run))
    ]
    about: dict[str, Any] = {"index": 0, "id": "q0", "status": "done", "model": "moving-mdm", "data": "people"}
    records.append(Record(**about, condition=RAG, what="trace", file="traces/0.zarr.zip"))
    write_records(run, records)
    return run


def _record(kind: str, model: str, data: str, condition: str, question: int, said: str) -> Record:
    score = float(right(model, condition, question))
    more: dict[str, Any] = {}
    if kind == "intervene" and condition != "plain":
        more |= {"kl": 0.25 + question / 100, "earliest_step": 1, "moved_share": 0.1}
    if kind == "intervene" and question < 2:
        more["measured"] = {"overlap": 0.5, "speed": 0.1}
    scores = {"accuracy": score, "f1": score, "exact_match": score, "decided_at": (0, 1)}
    return Record(
        what="answer",
        index=question,
        id=f"q{question}",
        status="done",
        model=model,
        data=data,
        condition=condition_of(condition),
        prediction=said if score else "no",
        **scores,
        **more,
    )
