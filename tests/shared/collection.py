"""Six documents over four snapshots, four questions about them, and one model's answers: every rate follows by hand.

| question | 2020 | 2021 | 2022 | 2023 |
|---|---|---|---|---|
| q1 keeper | Mara Dell (d1) | Mara Dell | Mara Dell | Mara Dell |
| q2 builder | Ott Vane (d2) | Ott Vane | Ida Frome (d2 corrected) | Ida Frome |
| q3 mayor | Bo Lund (d3) | Bo Lund | – (d3 withdrawn) | Ann Reed (d5 added) |
| q4 baker | – | Una Pell (d4 added) | Una Pell | Una Pell |

d6 answers nothing; it is there until 2023.
"""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from floatlens.data.collection import DatedCollection, open_collection, view_at
from floatlens.evaluation.metrics import gives_former, score
from floatlens.records import Record, Stressed, answers_frame
from floatlens.records.record import Snapshot

__all__ = ["DATES", "LINES", "QUESTIONS", "SAID", "make_frame", "make_records", "write_collection"]

DATES = ("2020-01-01", "2021-01-01", "2022-01-01", "2023-01-01")
LINES: tuple[dict[str, object], ...] = (
    {
        "id": "d1",
        "title": "Orrin",
        "text": "Mara Dell keeps the lighthouse of Orrin.",
        "added": 2020,
        "answers": {"q1": "Mara Dell"},
    },
    {"id": "d2", "text": "Ott Vane built the bridge of Kell.", "added": "2020", "answers": {"q2": ["Ott Vane"]}},
    {
        "id": "d3",
        "text": "The mayor of Tolm is Bo Lund.",
        "added": "2020-01",
        "withdrawn": "2022-01-01",
        "answers": {"q3": ["Bo Lund"]},
    },
    {"id": "d6", "text": "Ferries sail to Orrin and Kell.", "added": "2020-01-01"},
    {"id": "d4", "text": "The baker of Hest is Una Pell.", "added": "2021-01-01", "answers": {"q4": ["Una Pell"]}},
    {"id": "d2", "text": "Ida Frome built the bridge of Kell.", "corrected": "2022", "answers": {"q2": ["Ida Frome"]}},
    {"id": "d5", "text": "The mayor of Tolm is Ann Reed.", "added": "2023", "answers": {"q3": ["Ann Reed"]}},
    {"id": "d6", "withdrawn": "2023"},
)
QUESTIONS = {
    "q1": "Who keeps the lighthouse of Orrin?",
    "q2": "Who built the bridge of Kell?",
    "q3": "Who is the mayor of Tolm?",
    "q4": "Who is the baker of Hest?",
}
SAID = {
    "q1": ("Mara Dell", "mara dell.", "It is Mara Dell.", "Nobody"),
    "q2": ("Ott Vane", "Ott Vane", "Ott Vane", "Ida Frome"),
    "q3": ("Bo Lund", "Ann", "Bo Lund", "Bo Lund"),
    "q4": ("Una Pell", "Una Pell", "Una Pell", "una pell"),
}
_PROMPTS = {"q1": "aabb", "q2": "ppqr", "q3": "stuv", "q4": "xyyz"}
_NOT_FOUND = {("q2", 3), ("q3", 3)}


def write_collection(folder: Path) -> tuple[Path, Path]:
    """The files of documents and of questions."""
    documents, questions = folder / "documents.jsonl", folder / "questions.jsonl"
    documents.write_text("".join(json.dumps(line) + "\n" for line in LINES))
    questions.write_text("".join(json.dumps({"id": id, "question": text}) + "\n" for id, text in QUESTIONS.items()))
    return documents, questions


def make_records(collection: DatedCollection, model: str = "a-model") -> list[Record]:
    """The answers of a model as a run records them."""
    return [_record(collection, model, id, place) for id in QUESTIONS for place in range(len(DATES))]


def _record(collection: DatedCollection, model: str, id: str, place: int) -> Record:
    view = view_at(collection, id, DATES[place], DATES[place - 1] if place else None)
    said = SAID[id][place]
    snapshot = Snapshot(
        date=view.date,
        current=view.current,
        earlier=view.earlier,
        withdrawn=view.withdrawn,
        changes=view.changes,
        gold=len(view.gold),
        gold_found=0 if (id, place) in _NOT_FOUND else len(view.gold),
        stale=gives_former(said, view.earlier, view.current),
        used_withdrawn=gives_former(said, view.withdrawn, view.current),
    )
    return Record(
        what="answer",
        model=model,
        data="people",
        condition=Stressed(test="collection", series="collection", x=float(place), point=DATES[place][:4]),
        id=id,
        index=int(id[1:]) - 1,
        status="done",
        prediction=said,
        accuracy=score(said, view.current).accuracy if view.current else None,
        prompt=_PROMPTS[id][place],
        snapshot=snapshot,
    )


def make_frame(folder: Path) -> pd.DataFrame:
    """The answers frame of one model."""
    collection = open_collection(write_collection(folder)[0])
    return answers_frame(make_records(collection), {"a-model": {"kind": "mdm"}})
