"""Verdicts on gains and robustness, on answers that were made to have them or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from floatlens.claims import answer_claims
from floatlens.data.stress import StressSettings, points

SETTINGS = StressSettings(position={"places": (0, 9)})
POINTS = [p for test in ("clean", "noise", "position") for p in points(test, SETTINGS)]


def answers(rates: dict[str, dict[str, float]], n: int = 60, data: str = "d") -> pd.DataFrame:
    """Models named mdm… or arm…, each condition with the share of right answers; the first questions are right."""
    rows: list[dict[str, Any]] = [
        {
            "model": model,
            "kind": model[:3],
            "data": data,
            "condition": condition,
            "id": f"q{i}",
            "accuracy": float(i < round(rate * n)),
        }
        for model, conditions in rates.items()
        for condition, rate in conditions.items()
        for i in np.random.default_rng(0).permutation(n)
    ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize(("diffusion", "verdict"), [(0.9, "supported"), (0.2, "not supported"), (0.4, "undecided")])
def test_gain_is_compared_with_twice_that_of_the_others(diffusion: float, verdict: str) -> None:
    rates = {"mdm": {"closed": 0.0, "rag": diffusion}, "arm": {"closed": 0.1, "rag": 0.3}}
    (found,) = answer_claims(answers(rates))
    assert (found.id, found.verdict) == ("rag-gain", verdict)
    assert float(found.parts[0].found.mean) == pytest.approx(diffusion - 0.4, abs=0.02)
    assert found.subject == "mdm against arm, d"


def test_less_harm_is_no_help() -> None:
    rates = {"mdm": {"closed": 0.5, "rag": 0.4}, "arm": {"closed": 0.8, "rag": 0.2}}  # −0.1 and −0.6
    (found,) = answer_claims(answers(rates))
    assert float(found.parts[0].found.mean) == pytest.approx(-0.1 + 2 * 0.6, abs=0.02)
    assert [part.verdict for part in found.parts] == ["supported", "not supported"]
    assert found.verdict == "not supported"
    assert float(found.parts[1].found.mean) == pytest.approx(-0.1, abs=0.02)


def test_robustness_is_compared_curve_by_curve() -> None:
    noise = {f"noise-{x:g}": rate for x, rate in zip((0, 0.2, 0.4, 0.6, 0.8), (1.0, 0.9, 0.9, 0.9, 0.8), strict=True)}
    worse = {name: rate / 3 for name, rate in noise.items()}
    steady = {"position-0": 0.8, "position-9": 0.8}
    rates = {
        "mdm": {"clean": 1.0, **noise, **steady},
        "arm1": {"clean": 1.0, **worse, **steady},
        "arm2": {"clean": 1.0, **worse, **steady},
    }
    found = {one.id: one for one in answer_claims(answers(rates), POINTS)}
    assert found["robust-noise"].verdict == "supported"
    assert float(found["robust-noise"].parts[0].found.mean) == pytest.approx(0.9 - 0.3, abs=0.02)
    assert found["robust-position"].verdict == "undecided"  # no difference, and no interval on one side of it


def test_only_what_all_models_answered_counts() -> None:
    both = answers({"mdm": {"closed": 0.0, "rag": 1.0}, "arm": {"closed": 0.0, "rag": 0.2}}, n=20)
    (found,) = answer_claims(both[(both["model"] == "mdm") | both["id"].isin([f"q{i}" for i in range(9)])])
    assert int(found.parts[0].found.n) == 9
    assert answer_claims(both[both["model"] == "mdm"]) == []  # nobody to compare with
    assert answer_claims(both[both["condition"] == "rag"]) == []
