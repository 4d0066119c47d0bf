"""Controls in claims: no subjects themselves, but found by the model that they are controls of."""

from __future__ import annotations

from floatlens.analysis import Result, absorption
from floatlens.claims import claims
from floatlens.claims.claim import controls_of, of_kind
from shared.synthetic import as_control, samples


def _result(**analysed) -> Result:
    traces = samples("moving", causal=False, n=3)
    return absorption(
        [*traces, *(as_control(trace, "moving-mdm", seed) for seed in (0, 1) for trace in traces)], **analysed
    )


def test_controls_are_not_among_the_models_of_a_kind():
    found = _result()
    assert len(found.groups) == 3
    assert [group.model for group in of_kind(found, "mdm")] == ["moving-mdm"]
    assert of_kind(found, "arm") == []


def test_controls_are_found_by_their_model():
    found = _result()
    assert [group.control["seed"] for group in controls_of(found, "moving-mdm")] == [0, 1]
    assert controls_of(found, "moving-mdm, weights shuffled (seed 0)") == []
    assert controls_of(found, "another") == []


def test_results_without_controls():
    found = _result()
    assert found.without_controls().models == ("moving-mdm",)
    assert found.without_controls().n == 3
    assert found.without_controls().settings == found.settings
    own = found.without_controls()
    assert own.without_controls() is own


def test_no_claim_is_about_a_control():
    traces = samples("moving", causal=False, n=3)
    judged = claims([*traces, *(as_control(trace, "moving-mdm") for trace in traces)], skipped={})
    assert {claim.model for claim in judged} <= {"moving-mdm", None}
    assert not any("shuffled" in claim.subject for claim in judged)
