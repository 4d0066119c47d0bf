"""Values that the attention-floating paper printed in its Table 1, in percent; only those that are known exactly."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["AVERAGES", "PAPER", "VALUES", "Average"]

PAPER = "arXiv 2601.07894, Table 1"


@dataclass(frozen=True)
class Average:
    """A model's average over the table. The gain is the printed one, which was rounded by itself."""

    closed: float
    rag: float
    gain: float


VALUES: dict[tuple[str, str], dict[str, tuple[float, float]]] = {
    ("nq", "accuracy"): {
        "Llama": (15.69, 35.92),
        "Qwen": (14.95, 34.16),
        "LLaDA": (11.77, 55.30),
        "Dream": (17.48, 38.66),
    },
}
"""(data set, metric) → model → (closed book, with retrieved passages)."""

AVERAGES = {
    "Llama": Average(28.89, 36.25, 7.37),
    "Qwen": Average(28.09, 37.74, 9.64),
    "Dream": Average(26.16, 39.39, 13.23),
    "LLaDA": Average(22.52, 48.20, 25.68),
}
