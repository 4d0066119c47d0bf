"""The data formats: one file each, and one line in `FORMATS`. docs/data.md describes them.

A format is recognised by the first record of a file. Nothing is guessed from file names, but plain text, which has no
fields to know it by, must be named `.txt`. A file that fits two formats is refused, as is one that fits none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from difflib import SequenceMatcher
from itertools import islice
from typing import ClassVar, NoReturn

from floatlens.core.registry import Registry
from floatlens.data.examples import Example
from floatlens.data.fields import LONGEST_NAME, MOST_NAMES, Record, bad

__all__ = ["FORMATS", "Format", "detect"]


class Format(ABC):
    """One format of question files; a derived class needs `name`, `title`, `marks` and `read`.

    What a record does not say (which document is gold, for example) is left open.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    marks: ClassVar[tuple[str, ...]]  # fields that only records of this format have together
    needs: ClassVar[tuple[str, ...] | None] = None  # fields that every record must have; None: the marks
    fallback: ClassVar[bool] = False  # tried after all others
    left_out: ClassVar[str] = "record without a question"  # what a record is that has no parts

    def matches(self, record: Record) -> str | None:
        """Why a file that begins with this record is of this format; None if it is not."""
        return f'it has "{self.marks[-1]}"' if all(mark in record for mark in self.marks) else None

    def parts(self, record: Record) -> list[Record]:
        """The questions of a record, where it may hold several (an article, a page); each is then read by `read`."""
        return [record]

    def setting(self, examples_missing_gold: int) -> str:
        """Which variant of the data set a file is, given how many questions lack a gold document they name."""
        return ""

    @abstractmethod
    def read(self, record: Record, line: int) -> Example:
        """The example of a record; `line` is its line, the id of a record without one."""


FORMATS: Registry[type[Format]] = Registry(
    "data format",
    "floatlens.formats",
    {
        "litm": "floatlens.data.formats.litm:LostInTheMiddle",
        "dpr": "floatlens.data.formats.dpr:DprTraining",
        "passage": "floatlens.data.formats.passage:PassageWithHole",
        "psg": "floatlens.data.formats.psg:RetrievedPassages",
        "rgb": "floatlens.data.formats.rgb:Rgb",
        "ramdocs": "floatlens.data.formats.ramdocs:RamDocs",
        "flashrag": "floatlens.data.formats.flashrag:FlashRag",
        "kilt": "floatlens.data.formats.kilt:Kilt",
        "hotpotqa": "floatlens.data.formats.hotpotqa:HotpotQa",
        "2wiki": "floatlens.data.formats.twowiki:TwoWiki",
        "musique": "floatlens.data.formats.musique:Musique",
        "squad": "floatlens.data.formats.squad:Squad",
        "timeqa": "floatlens.data.formats.timeqa:TimeQa",
        "pubmedqa": "floatlens.data.formats.pubmedqa:PubMedQa",
        "gsm8k": "floatlens.data.formats.gsm8k:Gsm8k",
        "humaneval": "floatlens.data.formats.humaneval:HumanEval",
        "mtbench": "floatlens.data.formats.mtbench:MtBench",
        "qa": "floatlens.data.formats.qa:QuestionAnswer",
        "text": "floatlens.data.formats.text:PlainText",
        "plain": "floatlens.data.formats.plain:Plain",
    },
)
"""Classes by name, in the order in which they are tried."""


def detect(record: Record) -> Format:
    """The format that a record matches. Example: `detect(Record({"question": "Who?"})).name  # "plain"`"""
    formats = [FORMATS[name]() for name in FORMATS]
    found = [one for one in formats if not one.fallback and one.matches(record) is not None]
    if len(found) > 1:
        _refuse_two(found)
    found += [one for one in formats if one.fallback and one.matches(record) is not None]
    if found:
        return found[0]
    if not record:
        bad("question is missing")
    _refuse_unknown(record, formats)


def _refuse_two(found: list[Format]) -> NoReturn:
    one, two = found[:2]
    mark = next((mark for mark in two.marks if mark not in one.marks), two.marks[-1])
    bad(
        f'it fits two formats, {one.name} ({" + ".join(one.marks)}) and {two.name}, which differ first in "{mark}"; '
        "name one of them as the format"
    )


def _refuse_unknown(record: Record, formats: list[Format]) -> NoReturn:
    """Name the nearest format and the first of its fields that is missing or has another content."""
    nearest = max(formats, key=lambda one: sum(_closeness(mark, record) for mark in one.marks) / len(one.marks))
    missing = next((mark for mark in nearest.marks if mark not in record), None)
    has = ", ".join(name[:LONGEST_NAME] for name in islice(record, MOST_NAMES))
    said = f"no known format has just the fields {has[:200]}{'…' if len(has) > 200 else ''}; "
    if missing is None:
        bad(f'{said}nearest is {nearest.name} ({nearest.title}), but "{nearest.marks[-1]}" has another content there')
    bad(
        f'{said}nearest is {nearest.name} ({nearest.title}), which needs "{missing}"; '
        "rename the fields, or name the format (docs/data.md lists them)"
    )


def _closeness(mark: str, record: Record) -> float:
    """1 for a field that is there, less for one that is spelt almost so."""
    if mark in record:
        return 1.0
    names = (name.lower() for name in islice(record, MOST_NAMES) if len(name) <= LONGEST_NAME)
    return max((SequenceMatcher(None, mark.lower(), name).ratio() for name in names), default=0.0) / 2
