"""Records of a run: conditions, records, how they are stored, and frames of them. It runs no models."""

from floatlens.records.condition import CLOSED, RAG, Closed, Condition, Edited, Patched, Rag, Stressed
from floatlens.records.frame import answers_frame, patching_frame
from floatlens.records.record import PatchEffects, Record
from floatlens.records.store import has_answers, open_answers, open_patching, read_manifest, read_records

__all__ = [
    "CLOSED",
    "RAG",
    "Closed",
    "Condition",
    "Edited",
    "PatchEffects",
    "Patched",
    "Rag",
    "Record",
    "Stressed",
    "answers_frame",
    "has_answers",
    "open_answers",
    "open_patching",
    "patching_frame",
    "read_manifest",
    "read_records",
]
