"""What a claim is: verdicts from intervals, of a part and of the whole, the part that decides, tables, registration."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from scipy.special import stdtr

from floatlens.analysis import Estimate, Result, analyse
from floatlens.analysis.intervals import estimate
from floatlens.claims import CLAIMS, Claim, Finding, Limit, Part, claim, claims, claims_frame
from shared.synthetic import ready, samples, with_control

MOVES = "mdm-moves (answer rows)"

COLUMNS = [
    *("claim", "subject", "verdict", "statement", "statistic", "effect", "low", "high", "limit", "n", "figure"),
    *("what would change it", "parts", "models", "p", "survives Holm", "note"),
]


def part(
    low: float, high: float, limit: float = 1.0, *, above: bool = True, opposite: float | None = None, name: str = "x"
) -> Part:
    """A part with this interval; its mean is the middle, of 20 samples."""
    mean, std = np.asarray((low + high) / 2), np.asarray(0.5)
    return Part(name, Estimate(mean, std, np.asarray(low), np.asarray(high), np.asarray(20)), limit, above, opposite)


YES, NO, OPEN = part(2, 3, name="yes"), part(-1, 0, name="no"), part(0, 2, name="open")


def whole(*parts: Part, note: str = "") -> Claim:
    return Claim("id", "it is so", "some model", parts, "drift", note)


# -- one part ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "above", "verdict"),
    [
        (1.1, 1.2, True, "supported"),
        (0.8, 0.9, True, "contradicted"),
        (0.9, 1.1, True, "undecided"),
        (1.0, 1.1, True, "undecided"),
        (0.9, 1.0, True, "undecided"),
        (1.1, 1.2, False, "contradicted"),
        (0.8, 0.9, False, "supported"),
        (0.9, 1.1, False, "undecided"),
        (1.0, 1.1, False, "undecided"),
        (0.9, 1.0, False, "undecided"),
        (1.1, 1.1, True, "supported"),
        (np.nan, np.nan, True, "undecided"),
        (np.nan, np.nan, False, "undecided"),
        (1.1, np.nan, True, "undecided"),
        (np.nan, 0.9, True, "undecided"),
        (1.1, np.inf, True, "supported"),
    ],
)
def test_a_part_needs_its_whole_interval_on_one_side(low: float, high: float, above: bool, verdict: str) -> None:
    assert part(low, high, above=above).verdict == verdict


@pytest.mark.parametrize("above", [True, False])
def test_limits_may_be_negative(above: bool) -> None:
    assert part(-1.5, -1.2, limit=-1.0, above=above).verdict == ("contradicted" if above else "supported")
    assert part(-0.9, -0.8, limit=-1.0, above=above).verdict == ("supported" if above else "contradicted")
    assert part(-1.5, -0.8, limit=-1.0, above=above).verdict == "undecided"


def test_a_part_says_its_number_its_limit_and_its_verdict() -> None:
    assert str(part(2, 3)) == "x 2.5 [2, 3] (n=20), above 1: supported"
    assert str(part(2, 3, limit=0.5, above=False)) == "x 2.5 [2, 3] (n=20), below 0.5: contradicted"


# -- the whole --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "verdict", "deciding"),
    [
        ([YES], "supported", "yes"),
        ([part(4, 5, name="first"), YES], "supported", "first"),
        ([YES, NO], "contradicted", "no"),
        ([NO, YES], "contradicted", "no"),
        ([OPEN, NO], "contradicted", "no"),
        ([NO, part(-9, -8, name="worse")], "contradicted", "worse"),
        ([YES, OPEN], "undecided", "open"),
        ([OPEN, YES], "undecided", "open"),
        ([YES, part(np.nan, np.nan, name="unknown")], "undecided", "unknown"),
        ([part(np.nan, np.nan, name="unknown"), NO], "contradicted", "no"),
    ],
)
def test_every_part_must_hold_and_one_refutes(parts: list[Part], verdict: str, deciding: str) -> None:
    found = whole(*parts)
    assert found.verdict == verdict
    assert found.deciding is not None
    assert found.deciding.name == deciding


def test_without_parts_nothing_was_measured() -> None:
    found = whole(note="no model of this kind")
    assert (found.verdict, found.deciding, found.changes) == ("undecided", None, "no model of this kind")


def test_a_claim_has_the_numbers_of_its_deciding_part() -> None:
    found = whole(YES, NO)
    assert (found.statistic, found.effect, found.low, found.high, found.limit, found.n) == ("no", -0.5, -1, 0, 1, 20)
    blank = whole(note="why")
    assert (blank.statistic, blank.n) == ("", 0)
    assert np.isnan([blank.effect, blank.low, blank.high, blank.limit]).all()


@pytest.mark.parametrize(
    ("one", "changes"),
    [
        (part(2, 3), "a shift of 1 or more: that is how far the interval ends from 1"),
        (part(-1, 0.75), "a shift of 0.25 or more: that is how far the interval ends from 1"),
        (part(2, 3, above=False), "a shift of 1 or more: that is how far the interval ends from 1"),
        (
            part(0.9, 1.3),
            "about 80 questions instead of 20, if the effect stays 1.1; "
            "20 questions show an effect above 1.29 with 80 % power",
        ),
        (
            part(0.9, 1.3, above=False),
            "about 80 questions instead of 20, if the effect stays 1.1; "
            "20 questions show an effect below 0.714 with 80 % power",
        ),
        (
            part(0, 2),
            "a larger difference: the effect is too close to the limit for more questions to decide; "
            "20 questions show an effect above 2.43 with 80 % power",  # 1 + (1.96 + 0.8416) / 1.96
        ),
        (
            part(0.2, 0.8, opposite=0.0),
            "a shift of 0.2 or more: that is how far the interval ends from 1",
        ),
        (part(-2, -0.7, opposite=0.0), "a shift of 0.7 or more: that is how far the interval ends from 0"),
        (part(np.nan, np.nan), "a run that measures it: x is undefined here"),
    ],
)
def test_what_would_change_a_verdict(one: Part, changes: str) -> None:
    assert whole(one).changes == changes


def test_what_would_change_it_is_about_the_part_that_decides() -> None:
    assert whole(YES, OPEN).changes == OPEN.change_needed
    assert whole(YES, OPEN, NO).changes == NO.change_needed


# -- as a table -------------------------------------------------------------------------------------------------------


def test_a_table_has_one_row_per_claim_with_the_numbers_of_its_deciding_part() -> None:
    frame = claims_frame([whole(YES, NO), whole(YES)])
    assert list(frame.columns) == COLUMNS
    assert frame["statistic"].tolist() == ["no", "yes"]
    assert frame.iloc[0].to_dict() == {
        "claim": "id",
        "subject": "some model",
        "verdict": "contradicted",
        "statement": "it is so",
        "statistic": "no",
        "effect": -0.5,
        "low": -1.0,
        "high": 0.0,
        "limit": 1.0,
        "n": 20,
        "figure": "drift",
        "what would change it": "a shift of 1 or more: that is how far the interval ends from 1",
        "parts": "yes 2.5 [2, 3] (n=20), above 1: supported; no -0.5 [-1, 0] (n=20), above 1: contradicted",
        "models": "",
        "p": pytest.approx(2 * 2 * stdtr(19, -3 * 2.093024), rel=1e-3),  # two-sided, of two parts; 1.5 is 3 half widths
        "survives Holm": "",
        "note": "",
    }


def test_a_table_of_what_was_not_measured_has_no_numbers() -> None:
    row = claims_frame([whole(note="why")]).iloc[0]
    assert row[["effect", "low", "high", "limit"]].isna().all()
    assert (row["n"], row["statistic"], row["what would change it"]) == (0, "", "why")


def test_a_table_of_no_claims_still_has_its_columns() -> None:
    frame = claims_frame([])
    assert isinstance(frame, pd.DataFrame)
    assert (len(frame), list(frame.columns)) == (0, COLUMNS)


# -- registered and judged --------------------------------------------------------------------------------------------


SHORT = Limit("length of {what}", 0.5, above=False)


@claim(
    "short-values",
    title="Short values",
    statement="anchors have short values",
    family="attention",
    needs=("extremes",),
    figure="extremes",
    limits=(SHORT,),
)
def short(extremes: Result) -> Iterator[Finding]:
    for group in extremes:
        one = SHORT(estimate(group.values("value_ratio").mean(axis=1)), what="values")
        yield Finding(group.model, (one,), model=group.model)


def test_a_claim_is_one_function_and_one_line_in_the_registry() -> None:
    CLAIMS.add("short-values", short)
    try:
        found = [one for one in claims(samples("fixed", causal=True, n=20)) if one.id == "short-values"]
    finally:
        CLAIMS.remove("short-values")
    assert [(one.subject, one.verdict, one.model) for one in found] == [("fixed-arm", "supported", "fixed-arm")]
    assert found[0].statistic == "length of values"
    assert found[0].parts[0].found.mean == pytest.approx(0.1, rel=0.2)  # how the trace was made
    assert found[0].rule is short
    assert short.rule == "Supported if, with the whole 95 % interval: length of what below 0.5."


def test_every_claim_describes_itself() -> None:
    from floatlens.analysis import ANALYSES

    for id, one in CLAIMS.items():
        assert one.id == id
        assert one.title
        assert one.statement
        assert one.family in ("attention", "mechanism", "answers", "edits")
        assert one.limits
        assert set(one.needs) <= {*ANALYSES, "answers"}
        assert all("{" in limit.name or f"{limit.name} " in one.rule for limit in one.limits)


def test_claims_whose_results_are_absent_are_not_judged() -> None:
    results = analyse(samples("moving", causal=False, n=2), ["drift", "absorption"])
    about_drift = {"mdm-moves (answer rows)", "mdm-moves (all rows)", "mdm-right", "mdm-frontier", "layers-differ"}
    assert {one.id for one in claims(results)} == {*about_drift, "shallow-spread"}
    assert claims({"absorption": results["absorption"]}) == []  # of one kind of models
    assert claims({}) == []


def test_claims_about_another_kind_of_model_are_not_made() -> None:
    about_arms = {one.id for one in claims(samples("fixed", causal=True, n=2))}
    assert about_arms == {
        "arm-fixed",
        "arm-angular",
        *(f"flow-follows-gold ({way})" for way in ("attention", "rollout")),
    }


def test_results_given_are_used_as_they_are() -> None:
    traces = with_control(samples("moving", causal=False, n=20))
    by_id = {one.id: one for one in claims(analyse(traces, {"drift": {"rule": "topk(30)"}}))}
    assert by_id[MOVES].verdict == "contradicted"  # every key is an anchor, so that no set ever changes
    assert next(one for one in claims(traces) if one.id == MOVES).verdict == "supported"


def test_too_few_samples_decide_nothing() -> None:
    few, enough = (claims(with_control(samples("moving", causal=False, n=n))) for n in (19, 20))
    assert {one.verdict for one in few} == {"undecided"}
    assert next(one for one in enough if one.id == MOVES).verdict == "supported"


def test_traces_of_one_question_are_one_sample_of_it() -> None:
    """Twenty traces of 19 questions are 19 samples: the guard counts questions, and says so."""
    traces = [ready("moving", causal=False, sample=i, question=f"question {i % 19}") for i in range(20)]
    found = claims([*traces, *with_control(samples("moving", causal=False, n=20))[20:]])
    assert {one.verdict for one in found} == {"undecided"}
    (moves,) = [one for one in found if one.id == MOVES]
    assert {int(part.found.n) for part in moves.parts} == {19}
    assert moves.changes == "more questions: 19 so far, and at least 20 are needed"


def test_a_comparison_of_kinds_draws_whole_questions_of_all_models_of_a_kind() -> None:
    """Two models of each kind on four questions: n is 4, not 8; each side is the mean over questions of both models."""
    traces = [
        ready(pattern, causal=causal, sample=i + 4 * model, question=f"question {i}", ref=f"{causal} {model}")
        for pattern, causal in (("fixed", True), ("moving", False))
        for model in range(2)
        for i in range(4)
    ]
    result = analyse(traces, ["absorption"])
    part, anchored = next(one for one in claims(result) if one.id == "mdm-absorbs-less (absorbed)").parts
    assert int(part.found.n) == 4
    both = {kind: [g for g in result["absorption"] if g.facts["kind"] == kind] for kind in ("arm", "mdm")}
    means = {kind: np.mean([g.values("absorbed")[:, 1].mean() for g in of]) for kind, of in both.items()}
    assert float(part.found.mean) == pytest.approx(means["arm"] - means["mdm"])
    excess = np.mean([g.values("excess")[:, 1].mean() for g in both["arm"]])
    assert (float(anchored.found.mean), int(anchored.found.n)) == (pytest.approx(excess), 4)


def test_one_trace_has_no_interval_and_so_no_verdict() -> None:
    assert {one.verdict for one in claims(ready("moving", causal=False))} == {"undecided"}
