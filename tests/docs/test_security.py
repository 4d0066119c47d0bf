"""Every promise of SECURITY.md names tests that exist, and every place that is fuzzed is in it."""

from __future__ import annotations

import re
from pathlib import Path

from floatlens_lab.fuzz.subject import SUBJECTS, load_subject

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "SECURITY.md").read_text()


def test_every_promise_names_tests_that_exist() -> None:
    rows = [line for line in TEXT.splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 18
    for row in rows:
        named = re.findall(r"`(tests/[^`]+)`", row.split("|")[3])
        assert named, row
        assert all((ROOT / name).is_file() for name in named), row


def test_the_numbers_of_cases_are_those_of_the_fuzzer() -> None:
    said = " ".join(TEXT.split())
    for name, word in zip(SUBJECTS, ("traces", "data files", "folders of models", "adapters", "studies"), strict=True):
        assert f"{load_subject(name).count:,} {word}" in said
