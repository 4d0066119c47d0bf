"""Records of a run: conditions, records, how they are stored, and the answers frame. It runs no models."""

from floatlens.records.condition import CLOSED, RAG, Closed, Condition, Edited, Rag, Stressed
from floatlens.records.frame import answers_frame
from floatlens.records.record import Record
from floatlens.records.store import has_answers, open_answers, read_manifest, read_records

__all__ = [
    "CLOSED",
    "RAG",
    "Closed",
    "Condition",
    "Edited",
    "Rag",
    "Record",
    "Stressed",
    "answers_frame",
    "has_answers",
    "open_answers",
    "read_manifest",
    "read_records",
]
