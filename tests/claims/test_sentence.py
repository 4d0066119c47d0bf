"""The answer in one sentence follows from the verdicts."""

from __future__ import annotations

import numpy as np
import pytest

from floatlens.analysis import Estimate
from floatlens.claims import Claim, Limit, claims, floating_sentence
from shared.synthetic import samples, with_control

INTERVALS = {"supported": (2, 3), "too small": (0.5, 0.9), "contradicted": (-1, 0), "undecided": (0.5, 2)}


def claim(id: str, model: str, verdict: str, otherwise: str = "") -> Claim:
    low, high = INTERVALS[verdict]
    found = Estimate(*(np.asarray(float(x)) for x in ((low + high) / 2, 0.5, low, high)), np.asarray(20))
    made = Claim(id, "", model, (Limit("x", 1.0, opposite=0.4, otherwise=otherwise)(found),), "", model=model)
    assert made.verdict == verdict
    return made


def moves(model: str, answer: str, all_rows: str, otherwise: str = "") -> list[Claim]:
    ids = ("mdm-moves (answer rows)", "mdm-moves (all rows)")
    return [claim(id, model, verdict, otherwise) for id, verdict in zip(ids, (answer, all_rows), strict=True)]


STAY = "anchors stay in place"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (moves("a", "supported", "supported"), "Yes in a, whose anchors move."),
        (
            [one for m in "abc" for one in moves(m, "contradicted", "contradicted", STAY)],
            "No in a, b and c, where anchors stay in place.",
        ),
        (moves("a", "contradicted", "contradicted"), "No in a."),
        (moves("a", "too small", "too small", STAY), "Less than claimed in a."),
        (moves("a", "undecided", "undecided", STAY), "Undecided in a."),
        (
            moves("a", "supported", "contradicted", STAY) + moves("b", "supported", "too small", STAY),
            "On answer rows yes in a and b, whose anchors move; on all rows no in a, where anchors stay in place; "
            "on all rows less than claimed in b.",
        ),
        (moves("a", "supported", "undecided")[:1], "On answer rows yes in a, whose anchors move."),
        (
            [claim("arm-fixed", "q", "supported"), *moves("a", "undecided", "undecided")],
            "Undecided in a; q (autoregressive): a fixed anchor on the first position.",
        ),
        (
            [claim("arm-fixed", "q", "too small"), claim("arm-fixed", "r", "contradicted", STAY)],
            "R (autoregressive): no fixed anchor on the first position; q (autoregressive): an anchor on the first "
            "position that is weaker or less fixed than claimed.",
        ),
        (
            [claim("qk-split", "a", "supported")],
            "Not known: drift and absorption of traces were not analysed in these runs.",
        ),
    ],
)
def test_the_sentence_follows_from_the_verdicts(given: list[Claim], sentence: str) -> None:
    assert floating_sentence(given) == sentence


def test_models_have_their_short_names() -> None:
    found = claims(with_control(samples("moving", causal=False, n=20)))
    assert floating_sentence(found, {"moving-mdm": "llada"}) == "Yes in llada, whose anchors move."


def test_what_is_not_shown_to_stay_is_not_said_to_stay() -> None:
    for verdict in ("supported", "too small", "undecided"):
        assert STAY not in floating_sentence(moves("a", verdict, verdict, STAY))
