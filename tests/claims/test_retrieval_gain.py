"""Verdicts on gains and robustness, on answers that were made to have them or not."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import pytest

from floatlens.claims.registry import answer_claims
from floatlens.records.condition import Condition
from shared import frames
from shared.frames import CLEAN, CLOSED, RAG, stressed


def answers(rates: Mapping[str, Mapping[Condition, float]], n: int = 60) -> pd.DataFrame:
    """Models named mdm… or arm…, each condition with the share of right answers; the first questions are right."""
    made = [
        frames.answers({c: [i < round(r * n) for i in range(n)] for c, r in given.items()}, model=model, kind=model[:3])
        for model, given in rates.items()
    ]
    whole = pd.concat(made, ignore_index=True)
    return whole.iloc[np.random.default_rng(0).permutation(len(whole))].sort_values("model", kind="stable")


@pytest.mark.parametrize(("diffusion", "verdict"), [(0.9, "supported"), (0.05, "contradicted"), (0.4, "undecided")])
def test_gain_is_compared_with_twice_that_of_the_others(diffusion: float, verdict: str) -> None:
    (found,) = answer_claims(answers({"mdm": {CLOSED: 0.0, RAG: diffusion}, "arm": {CLOSED: 0.1, RAG: 0.3}}))
    assert (found.id, found.verdict) == ("rag-gain", verdict)
    assert float(found.parts[0].found.mean) == pytest.approx(diffusion - 0.4, abs=0.02)
    assert found.subject == "mdm against arm, d"


def test_less_harm_is_no_help() -> None:
    rates = {"mdm": {CLOSED: 0.5, RAG: 0.4}, "arm": {CLOSED: 0.8, RAG: 0.2}}  # −0.1 and −0.6
    (found,) = answer_claims(answers(rates))
    assert float(found.parts[0].found.mean) == pytest.approx(-0.1 + 2 * 0.6, abs=0.02)
    assert [part.verdict for part in found.parts] == ["supported", "contradicted"]
    assert found.verdict == "contradicted"
    assert float(found.parts[1].found.mean) == pytest.approx(-0.1, abs=0.02)


def test_robustness_is_compared_curve_by_curve() -> None:
    places = zip((0, 0.2, 0.4, 0.6, 0.8), (1.0, 0.9, 0.9, 0.9, 0.8), strict=True)
    noise = {stressed("noise", x): rate for x, rate in places}
    worse = {point: rate / 3 for point, rate in noise.items()}
    steady = {stressed("position", 0): 0.8, stressed("position", 9): 0.8}
    rates = {
        "mdm": {CLEAN: 1.0, **noise, **steady},
        "arm1": {CLEAN: 1.0, **worse, **steady},
        "arm2": {CLEAN: 1.0, **worse, **steady},
    }
    found = {one.id: one for one in answer_claims(answers(rates))}
    assert found["robust-noise"].verdict == "supported"
    assert float(found["robust-noise"].parts[0].found.mean) == pytest.approx(0.9 - 0.3, abs=0.02)
    assert found["robust-position"].verdict == "undecided"  # no difference, and no interval on one side of it
    without = answers({model: {c: r for c, r in given.items() if c != CLEAN} for model, given in rates.items()})
    assert answer_claims(without) == []  # nothing to compare with


def test_only_what_all_models_answered_counts() -> None:
    both = answers({"mdm": {CLOSED: 0.0, RAG: 1.0}, "arm": {CLOSED: 0.0, RAG: 0.2}}, n=20)
    (found,) = answer_claims(both[(both["model"] == "mdm") | both["id"].isin([f"q{i}" for i in range(9)])])
    assert int(found.parts[0].found.n) == 9
    assert answer_claims(both[both["model"] == "mdm"]) == []  # no model of the other kind
    assert answer_claims(both[both["kind"] == "rag"]) == []
    assert answer_claims(both.iloc[:0]) == []
