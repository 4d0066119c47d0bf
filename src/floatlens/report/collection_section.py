"""The section on changing collections: what models answer as documents are added, corrected and withdrawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from floatlens.analysis.collection import collection_agreement, collection_rates, of_collection
from floatlens.report.answer_sections import AnswerSection, Content

if TYPE_CHECKING:
    import pandas as pd

    from floatlens.report.inputs import RunAnswers

__all__ = ["COLLECTION"]

_TERMS = [
    ("accuracy", "The answer contains one that is right at the snapshot; over the questions that have one then."),
    (
        "stale",
        "The answer contains one that was right before and none that is right now; over the questions for which "
        "documents have stated another answer before.",
    ),
    ("withdrawn", "The same for answers that only withdrawn documents have stated."),
    ("recall", "Documents that state a current answer: the share of them that was retrieved."),
    (
        "agreement",
        "The same answer at two successive snapshots between which no document that answers the question has changed; "
        "apart for pairs with the same prompt, and for those in which retrieval gave other documents.",
    ),
]


def _content(own: pd.DataFrame, run: RunAnswers) -> Content:
    rates = collection_rates(own)
    tables = [
        ("collection-agreement", "Agreement where nothing relevant changed", collection_agreement(own)),
        ("collection-rates", "Rates by snapshot, and over all snapshots", rates),
    ]
    return Content({"collection": rates}, tables, _TERMS)


COLLECTION = AnswerSection(
    "stress",
    "Changing collection",
    "Changing collection: do answers follow the documents?",
    "The same questions are asked at successive snapshots of a collection whose documents are added, corrected and "
    "withdrawn. Models that follow the documents are accurate at every snapshot and give no stale answers. Accuracy "
    "cannot exceed recall by much: what is not retrieved is not shown.",
    "The prompt has the best documents by BM25 in the collection as of the snapshot's date; what is right is what "
    "the documents of that date state. Withdrawn and superseded versions are never shown, so a stale answer comes from "
    "what the model remembers, or from another document that says the same.",
    of_collection,
    _content,
)
