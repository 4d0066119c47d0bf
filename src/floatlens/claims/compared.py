"""Answers of diffusion and autoregressive models side by side, on the questions that all of them answered.

Intervals are over questions, not models: they say what other questions of this kind would give with the same models.
How many models of each kind a claim rests on is said beside its verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from floatlens.analysis.kernels import Floats
from floatlens.claims.claim import Finding
from floatlens.claims.verdict import Part
from floatlens.records.condition import Condition

__all__ = ["CEILING", "FLOOR", "KINDS", "Comparison", "comparisons", "percent"]

CEILING = 0.99
"""Kinds that both answer this share of the questions cannot be told apart."""
FLOOR = 0.05
"""A kind that answers less than this share of the questions has nothing to lose."""
KINDS = ("diffusion", "autoregressive")


@dataclass(frozen=True, eq=False)
class Comparison:
    """The models of both kinds that answered the same data sets, and their answers by data set."""

    mdms: tuple[str, ...]
    arms: tuple[str, ...]
    sets: Mapping[str, pd.DataFrame]

    def paired(self, conditions: Sequence[Condition]) -> dict[str, Floats]:
        """(question, model, condition) by data set: accuracy on the questions that every model answered in every
        condition, diffusion models first. Data sets without such a question are left out."""
        wanted = [(model, condition) for model in (*self.mdms, *self.arms) for condition in conditions]
        found = {}
        for name, own in self.sets.items():
            kept = own[own["condition"].isin(list(conditions))].dropna(subset=["accuracy"])
            wide = kept.pivot(index="id", columns=["model", "condition"], values="accuracy")
            if all(column in wide.columns for column in wanted):
                values = wide[wanted].dropna().to_numpy(dtype=np.float64)
                if len(values):
                    found[name] = values.reshape(len(values), -1, len(conditions))
        return found

    def by_kind(self, values: Floats) -> tuple[Floats, Floats]:
        """Means over the diffusion and over the autoregressive models; models are the second axis."""
        return values[:, : len(self.mdms)].mean(axis=1), values[:, len(self.mdms) :].mean(axis=1)

    def finding(self, parts: tuple[Part, ...], sets: Sequence[str], note: str = "") -> Finding:
        return Finding(self._subject(sets), parts, note, models=self._models)

    def unjudged(self, reason: str, sets: Sequence[str]) -> Finding:
        return Finding.unjudged(self._subject(sets), reason, models=self._models)

    @property
    def _models(self) -> dict[str, int]:
        return {"mdm": len(self.mdms), "arm": len(self.arms)}

    def _subject(self, sets: Sequence[str]) -> str:
        return f"{' + '.join(self.mdms)} against {' + '.join(self.arms)}, {' + '.join(sets)}"


def comparisons(answers: pd.DataFrame) -> Iterator[Comparison]:
    """One for each combination of models; data sets that the same models answered are together."""
    together: dict[tuple[tuple[str, ...], tuple[str, ...]], dict[str, pd.DataFrame]] = {}
    models = list(dict.fromkeys(answers["model"]))
    for data, own in answers.groupby("data", sort=False):
        kinds = dict(zip(own["model"], own["model_kind"], strict=True))
        mdms, arms = (tuple(m for m in models if kinds.get(m) == side) for side in ("mdm", "arm"))
        if mdms and arms:
            together.setdefault((mdms, arms), {})[str(data)] = own
    for (mdms, arms), sets in together.items():
        yield Comparison(mdms, arms, sets)


def percent(share: float) -> str:
    return f"{100 * share:.3g} %"
