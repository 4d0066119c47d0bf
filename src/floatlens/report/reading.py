"""Words of the sections on answers: titles, how to read their figures, and what is measured."""

from __future__ import annotations

__all__ = ["ANSWERS", "READING"]

READING: dict[str, tuple[str, str]] = {
    "qa": (
        "Answers: how much do documents help?",
        "Each line goes from a model's accuracy without documents (closed book, the dash) to its accuracy with them "
        "(RAG, the marker), on the same questions. Its length is the gain; the whisker is the gain's interval.",
    ),
    "stress": (
        "Stress tests: how robust are the models?",
        "Each line is a model's accuracy as one thing gets worse: noise among the documents, the position of the gold "
        "document, misleading documents, their order. A flat line is robust. Where it starts shows how good the model "
        "is, its slope how robust.",
    ),
    "intervene": (
        "Edits: does attention matter?",
        "Attention is edited while the model writes, and its answers are compared with its unedited ones: below 0 the "
        "edit costs answers. Crosses are the random control, the same edit at random positions; only a difference from "
        "the cross is due to the anchors. The second figure shows how far the edit shifts the first token: 0 is not at "
        "all.",
    ),
}
"""By kind of answers: title, and how to read it."""

ANSWERS: dict[str, str] = {
    "qa": "Accuracy: the normalised answer contains a normalised accepted answer. F1: over bags of words. A gain is "
    "the score with documents minus the score closed book, on the questions answered in both.",
    "stress": "Each point is the accuracy on the same questions after one seeded transformation. Robustness is the "
    "area under a curve divided by the width of its axis (the mean where the axis has no scale) and by the accuracy "
    "with the gold documents alone (masks: by that at the fewest masks).",
    "intervene": "Each question is answered unedited, under each edit, and under the edit's matched random control. "
    "Changes are relative to unedited, on the same questions. The KL divergence is that of the first distribution that "
    "the edit can change.",
}
"""By kind of run: what is measured."""
