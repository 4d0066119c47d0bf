"""The files of the attention-floating paper, by size and SHA-256, so a user's copy can be recognised as the paper's.

The paper's repository holds only Git LFS pointers to them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PAPER_FILES", "PaperFile", "paper_note", "pointed_at"]


@dataclass(frozen=True)
class PaperFile:
    """A file as the paper used it."""

    name: str
    size: int
    sha256: str


PAPER_FILES = (
    PaperFile("2wiki_500.jsonl", 74_747, "0fb19dee8acbf146d60c699443b1164038727f9597f30f4894bab2da253b2f1a"),
    PaperFile(
        "hotpotqa_dev_psg.jsonl", 1_108_176_051, "8645192e3943463b72fa8be9b516c5c314d56630eef350aa14e4e5b6fe62717a"
    ),
    PaperFile("marco_qa_psg.jsonl", 538_350_021, "fe17c44b4baab5629ed586a43c99e4b414911a234c8b7f7a96d9d2b33bd30b1c"),
    PaperFile("nq_dev_psg.jsonl", 544_297_944, "ffe964bc089ccf4061a9c446d6f768abdc82876cd7eca612f0352e052caae72a"),
    PaperFile("tqa_dev_psg.jsonl", 1_017_892_099, "5978ece784be7da12b82cdf8673a81313e8290ea8bc74486d5295bd5ead502b4"),
    PaperFile("trex_dev_psg.jsonl", 940_521_181, "e632bc07a878d64db8e55cab3ef28589cd8a64a97609c538d0bdacf4c79f27df"),
)
_OID = re.compile(rb"oid sha256:([0-9a-f]{64})")


def paper_note(path: Path, sha256: str) -> str | None:
    """Whether a file is one of the paper's, or only has the name of one."""
    size = path.stat().st_size
    for one in PAPER_FILES:
        if (one.size, one.sha256) == (size, sha256):
            return f"the paper's own {one.name}: size and SHA-256 agree"
        if one.name == path.name:
            return f"named like the paper's {one.name} but a different file ({size:,} bytes, the paper's: {one.size:,})"
    return None


def pointed_at(pointer: bytes) -> str:
    """ " to the paper's NAME (N bytes)" if a Git LFS pointer is to one of the files, else ""."""
    found = _OID.search(pointer)
    digest = found[1].decode() if found else ""
    return next((f" to the paper's {one.name} ({one.size:,} bytes)" for one in PAPER_FILES if one.sha256 == digest), "")
