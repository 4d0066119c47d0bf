"""The answer in one sentence follows from the verdicts."""

from __future__ import annotations

import numpy as np
import pytest

from floatlens.analysis import Estimate
from floatlens.claims import Claim, Part, claims, floating_sentence
from floatlens.claims.claim import STRONGEST
from shared.synthetic import samples


def part(verdict: str, name: str = "x") -> Part:
    low, high = {"supported": (2, 3), "not supported": (-1, 0), "undecided": (0, 2)}[verdict]
    found = Estimate(*(np.asarray(float(x)) for x in ((low + high) / 2, 0.5, low, high)), np.asarray(8))
    return Part(name, found, 1.0)


def claim(id: str, model: str, verdict: str, name: str = "x") -> Claim:
    return Claim(id, "", model, (part(verdict, name),), "", model=model)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ([claim("mdm-moves", "a", "supported")], "Yes in a, whose anchors move from step to step."),
        (
            [claim("mdm-moves", m, "not supported") for m in "abc"],
            "No in a, b and c, whose anchors stay in place.",
        ),
        ([claim("mdm-moves", "a", "not supported", STRONGEST.name)], "No in a, where no key is an anchor."),
        (
            [claim("arm-fixed", "q", "supported"), claim("mdm-moves", "a", "undecided")],
            "Undecided in a; q (autoregressive): a fixed anchor on the first position.",
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
    found = claims(samples("moving", causal=False, n=8))
    assert floating_sentence(found, {"moving-mdm": "llada"}) == "Yes in llada, whose anchors move from step to step."
