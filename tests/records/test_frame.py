"""The answers frame: one row per answer, ordered by what was asked and not by when it was answered."""

from __future__ import annotations

import random

from floatlens.records import CLOSED, RAG, Condition, Edited, Record, Stressed, answers_frame, patching_frame
from floatlens.records.frame import COLUMNS, PATCHING_COLUMNS
from shared.patched import LAYERS, effect, patch_record

MODELS = {"b": {"kind": "mdm"}, "a": {"kind": "arm"}}


def drop(k: int, control: bool = False) -> Edited:
    return Edited(name="drop_anchors", settings={"k": k}, **({"control": "mass", "seed": 0} if control else {}))


ORDERED: list[Condition] = [
    CLOSED,
    RAG,
    Stressed(test="clean", series="clean", x=0, point="clean"),
    Stressed(test="noise", series="noise", x=0.2, point="1"),
    Stressed(test="noise", series="noise", x=0.8, point="4"),
    drop(2),
    drop(2, control=True),
    drop(10),
]


def record(model: str, condition: Condition, index: int, **more: str) -> Record:
    values = {"what": "answer", "model": model, "data": "d", "condition": condition, "id": f"q{index}", "index": index}
    return Record.model_validate({**values, "status": "done", "accuracy": 1.0, **more})


def test_the_order_is_that_of_what_was_asked() -> None:
    records = [record(model, one, index) for model in MODELS for one in ORDERED for index in range(3)]
    shuffled = random.Random(1).sample(records, len(records))
    frame = answers_frame(shuffled, MODELS)
    assert tuple(frame.columns) == COLUMNS
    assert list(dict.fromkeys(frame["model"])) == ["b", "a"]
    assert list(dict.fromkeys(frame["condition"])) == ORDERED
    assert frame["index"].tolist() == [0, 1, 2] * 16
    assert dict(zip(frame["model"], frame["model_kind"], strict=True)) == {"b": "mdm", "a": "arm"}
    assert list(dict.fromkeys(frame["kind"])) == ["closed", "rag", "stress", "edit"]


def test_failures_and_traces_are_no_answers() -> None:
    records = [record("a", RAG, 0, status="failed"), record("a", RAG, 1, what="trace")]
    frame = answers_frame(records, MODELS)
    assert frame.empty
    assert tuple(frame.columns) == COLUMNS


def test_a_row_for_each_patched_layer() -> None:
    records = [patch_record("a", 1), patch_record("b", 1, defined=False), patch_record("b", 0), record("b", RAG, 0)]
    frame = patching_frame(records, MODELS)
    assert tuple(frame.columns) == PATCHING_COLUMNS
    assert len(frame) == 3 * 2 * 2 * len(LAYERS)
    assert list(dict.fromkeys(zip(frame["model"], frame["id"], strict=True))) == [("b", "q0"), ("b", "q1"), ("a", "q1")]
    one = frame[(frame["model"] == "a") & (frame["what"] == "residual") & (frame["patched"] == "control")]
    assert one["effect"].tolist() == [effect("residual", "control", layer, 1) for layer in LAYERS]
    assert frame[frame["id"] == "q1"].groupby("model")["effect"].count().to_dict() == {"a": 12, "b": 0}
    assert answers_frame(records, MODELS)["id"].tolist() == ["q0"]
