"""The gold documents of a question in the order of its reasoning, and a document split into its sentences."""

from __future__ import annotations

import re

from floatlens.data.examples import Example
from floatlens.prompts import Document

__all__ = ["cut", "evidence_order", "sentences"]

_END = re.compile(
    r"[.!?…]+[\"'”’)\]]*\s+(?=[\"'“‘(\[]*[^\W_])"  # a full stop, followed by what may begin a sentence
    r"|[。！？]+[”’」』）]*\s*"
    r"|\s*\n\s*"
)
_LAST_WORD = re.compile(r"(\S+?)[.!?…]+[\"'”’)\]]*\s+$")
_ABBREVIATIONS = frozenset(
    """mr mrs ms dr st prof jr sr vs vol inc ltd co corp gen col capt lt sgt rev hon gov sen rep pres fig approx
    ca cf al etc dept est jan feb mar apr jun jul aug sep sept oct nov dec""".split()  # noqa: SIM905
)


def evidence_order(example: Example) -> list[int]:
    """Indexes of the gold documents: in the order of `meta["gold"]` if it lists just these, else as in the data."""
    standing = [i for i, document in enumerate(example.documents) if document.is_gold]
    listed = example.meta.get("gold")
    if isinstance(listed, list) and all(type(i) is int for i in listed) and sorted(listed) == standing:
        return listed
    return standing


def cut(document: Document) -> list[Document]:
    """A document for each sentence, with the same title and gold mark."""
    return [document.model_copy(update={"text": sentence}) for sentence in sentences(document.text)]


def sentences(text: str) -> list[str]:
    """The sentences of a text; in doubt, a sentence continues.

    A rule for prose, not a parser: nothing is cut after an abbreviation or an initial, or before a small letter.
    Example: `sentences("Dr. Ott lives in Kell. He sings.")  # ["Dr. Ott lives in Kell.", "He sings."]`
    """
    found, start = [], 0
    for end in _END.finditer(text):
        if "\n" in end[0] or end[0][0] in "。！？" or _is_end(text[start : end.end()], text[end.end() :]):
            found.append(text[start : end.end()].strip())
            start = end.end()
    found.append(text[start:].strip())
    return [sentence for sentence in found if sentence]


def _is_end(before: str, after: str) -> bool:
    begins = after.lstrip("\"'“‘([")[:1]
    word = _LAST_WORD.search(before)
    if begins.islower() or word is None:
        return False
    last = word[1].strip("\"'“‘([”’)]").lower()
    if last in ("no", "nos") and begins.isdigit():
        return False
    return last not in _ABBREVIATIONS and "." not in last and not (len(last) == 1 and last.isalpha())
