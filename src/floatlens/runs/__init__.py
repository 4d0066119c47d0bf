"""Studies: runs that write into a folder and continue where they stopped.

A run folder holds `manifest.json` (what was asked for), `records.jsonl` (one line per item) and `traces/`. Killing a
run loses at most the item under way. What a study is stands in `spec`, what it comes to in `plan`; `driving` runs it by
way of `workers` or `ray_workers`, `results` writes what came out, and `runs` is the way in from Python.
"""

from floatlens.runs.folder import RunFolder
from floatlens.runs.records import AnswerRecord, Record, StudyRecord

__all__ = ["AnswerRecord", "Record", "RunFolder", "StudyRecord"]
