"""Studies: runs that write into a folder and continue where they stopped.

A run folder holds `manifest.json` (what was asked for), `records.jsonl` (one line per item) and `traces/`. Killing a
run loses at most the item under way.
"""

from floatlens.study.folder import RunFolder
from floatlens.study.records import AnswerRecord, Record

__all__ = ["AnswerRecord", "Record", "RunFolder"]
