"""Claims about where anchors are, on traces whose truth is known, both ways: twenty questions each and a control.

`run` puts chosen shares of the attention on chosen keys, for rows of the prompt and of the answer, and spreads the rest
with log-normal noise. The control is that noise alone, unless a test says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from floatlens.analysis import analyse, drift
from floatlens.claims import CLAIMS, Claim, claims
from floatlens.claims.claim import FEWEST
from floatlens.traces import Trace
from shared.synthetic import MASK, as_control, build, samples, with_control

STEPS, LAYERS, SIZE, N = 8, 3, 70, 20
PROMPT = SIZE - STEPS
Places = Callable[[int, int], Mapping[int, float]]
"""(step, layer) → shares of the attention by key."""


def nowhere(step: int, layer: int) -> dict[int, float]:
    return {}


@cache
def template(kind: str) -> Trace:
    """8 steps that write one token each, from left to right, of even attention. An autoregressive model has a full mask
    and its whole text here, which changes nothing about the rules."""
    written = {"mask_id": MASK, "committed": [(PROMPT + step, step) for step in range(STEPS)]} if kind == "mdm" else {}
    even = np.full((STEPS, LAYERS, 1, SIZE, SIZE), 1 / SIZE)
    return build(even, causal=False, ref=kind, regions=["question"] * PROMPT + ["answer"] * STEPS, **written)


def one(places: Places, sample: int, *, prompt: Places | None = None, kind: str = "mdm", noise: float = 0.1) -> Trace:
    """A trace in which all rows of the answer are alike, and all rows of the prompt, which look at other `prompt`
    places if they are given. Received attention is the mean over rows."""
    random = np.random.default_rng([29, sample])
    rows = np.empty((2, STEPS, LAYERS, 1, SIZE), dtype=np.float32)
    for step, layer in np.ndindex(STEPS, LAYERS):
        for part, look in enumerate((prompt or places, places)):
            held = {key: share * random.uniform(0.9, 1.1) for key, share in look(step, layer).items()}
            row = np.exp(noise * random.normal(size=SIZE))
            row[list(held)] = 0
            row *= (1 - sum(held.values())) / row.sum()
            row[list(held)] = list(held.values())
            rows[part, step, layer, 0] = row
    data = template(kind).data.copy()
    answer = rows[1]
    given = {"received": (PROMPT * rows[0] + STEPS * answer) / SIZE, "received_answer": answer}
    given |= {"received_masked": answer} if kind == "mdm" else {}
    data = data.assign({name: data[name].copy(data=values) for name, values in given.items()})
    return Trace(data.assign_attrs(prompt={**data.attrs["prompt"], "question": f"question {sample}"}))


@cache
def run(places: Places, *, control: Places | None = nowhere, kind: str = "mdm", n: int = N, **more: Any) -> list[Trace]:
    traces = [one(places, sample, kind=kind, **more) for sample in range(n)]
    if control is not None:
        noise = {"noise": more["noise"]} if "noise" in more else {}
        traces += [as_control(one(control, 1000 + sample, kind=kind, **noise), kind) for sample in range(n)]
    return traces


def judged(traces: Sequence[Trace]) -> dict[str, Claim]:
    return {one.id: one for one in claims(analyse(traces, ["drift"]))}


def verdicts(found: Mapping[str, Claim], *ids: str) -> list[str]:
    return [found[id].verdict for id in ids]


def effects(found: Claim) -> list[float]:
    return [float(part.found.mean) for part in found.parts]


MOVES = ("mdm-moves (answer rows)", "mdm-moves (all rows)")


# -- patterns ---------------------------------------------------------------------------------------------------------


def fixed(step: int, layer: int) -> dict[int, float]:
    return {0: 0.45}


def right(step: int, layer: int) -> dict[int, float]:
    return {4 + 3 * step: 0.2, 6 + 3 * step: 0.1}


def left(step: int, layer: int) -> dict[int, float]:
    return {40 - 3 * step: 0.2, 30 - 3 * step: 0.1}


def beside_a_sink(step: int, layer: int) -> dict[int, float]:
    """A fixed sink and two weak floaters, as the models called Dream have them."""
    return {0: 0.45, 4 + 3 * step: 0.05, 12 + 3 * step: 0.05}


def flicker(step: int, layer: int) -> dict[int, float]:
    """Two of the same five keys, in an order without direction."""
    chosen = np.random.default_rng([step, layer]).choice([5, 12, 20, 31, 44], size=2, replace=False)
    return {int(key): 0.15 for key in chosen}


def frontier(step: int, layer: int) -> dict[int, float]:
    return {PROMPT + step: 0.3}


def mirrored(step: int, layer: int) -> dict[int, float]:
    return {SIZE - 1 - step: 0.3}


# -- moving and fixed -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("places", [right, beside_a_sink])
def test_anchors_that_travel_move_and_move_to_the_right(places: Places) -> None:
    found = judged(run(places))
    assert verdicts(found, *MOVES, "mdm-right") == ["supported"] * 3
    mass, beyond, overlap, back = effects(found[MOVES[0]])
    strongest = places(0, 0)[0 if places is beside_a_sink else 4]
    assert mass == pytest.approx(strongest - 1 / SIZE, abs=0.01)
    assert 0 < beyond < mass  # the control's largest key holds a little more than uniform, too
    assert overlap == pytest.approx(1 / 5 if places is beside_a_sink else 0, abs=0.02)
    assert back == pytest.approx(-0.1, abs=0.02)  # no floater comes back
    assert effects(found["mdm-right"])[2] == pytest.approx(3, abs=0.05)
    assert found["layers-differ"].verdict == "contradicted"  # every layer has the same


def test_anchors_that_go_left_move_but_not_to_the_right() -> None:
    found = judged(run(left))
    assert verdicts(found, *MOVES, "mdm-right") == ["supported", "supported", "contradicted"]
    assert effects(found["mdm-right"])[2] == pytest.approx(-3)


def test_a_fixed_sink_does_not_move() -> None:
    found = judged(run(fixed))
    assert verdicts(found, *MOVES) == ["contradicted"] * 2
    assert found[MOVES[0]].deciding.otherwise == "anchors stay in place"  # type: ignore[union-attr]
    assert found["mdm-right"].verdict == "too small"  # a speed of 0 is not to the left
    assert found["mdm-frontier"].verdict == "undecided"  # nothing floats


def test_anchors_that_flicker_neither_move_nor_stay() -> None:
    """Overlap of the quarters is below one half, but so is that of any two steps."""
    found = judged(run(flicker))
    assert not set(verdicts(found, *MOVES)) & {"supported", "contradicted"}
    back = found[MOVES[0]].parts[3]
    assert back.verdict in ("too small", "undecided")
    assert back.found.mean == pytest.approx(_flicker_returns(), abs=0.03)
    assert found["mdm-right"].verdict != "supported"


def _flicker_returns() -> float:
    """By a plain loop: overlap of the first and last two steps, minus that of any two, mean over layers."""
    sets = [[set(flicker(step, layer)) for step in range(STEPS)] for layer in range(LAYERS)]
    pairs = [(a, b) for a in range(STEPS) for b in range(a)]
    ends = [(a, b) for a in (0, 1) for b in (6, 7)]
    mean = [
        np.mean([len(own[a] & own[b]) / len(own[a] | own[b]) for own in sets for a, b in which])
        for which in (ends, pairs)
    ]
    return float(mean[0] - mean[1])


def test_rows_of_the_prompt_that_stay_do_not_hide_rows_of_the_answer_that_move() -> None:
    """7 % of eight rows adds 0.8 % of all rows to the 0.7 % that any key has from the prompt: no anchor there."""
    found = judged(run(lambda step, layer: {4 + 3 * step: 0.07}, prompt=fixed, noise=0.03))
    assert verdicts(found, *MOVES) == ["supported", "contradicted"]


@pytest.mark.parametrize("noise", [0.05, 0.3, 1.0])
def test_noise_without_anchors_supports_nothing(noise: float) -> None:
    """At σ = 1 the largest of 70 keys holds more than the floor, and no more than with shuffled weights."""
    found = judged(run(nowhere, noise=noise))
    ids = (*MOVES, "mdm-right", "mdm-frontier", "layers-differ")
    assert not {"supported"} & set(verdicts(found, *ids))
    assert found[MOVES[0]].verdict in ("too small", "contradicted")


def test_a_model_like_its_control_supports_nothing_whatever_its_anchors_do() -> None:
    found = judged(run(right, control=right))
    ids = (*MOVES, "mdm-right", "mdm-frontier", "layers-differ")
    assert not {"supported"} & set(verdicts(found, *ids))
    assert found[MOVES[0]].parts[1].verdict == "contradicted"


def test_weak_anchors_that_move_are_too_small() -> None:
    """4.5 % is an anchor among 70 keys that hold 1.4 % each; the claim asks for 5 points above that."""
    found = judged(run(lambda step, layer: {4 + 3 * step: 0.045}))
    assert verdicts(found, *MOVES) == ["too small"] * 2
    assert effects(found[MOVES[0]])[2] == 0


# -- controls ---------------------------------------------------------------------------------------------------------


def test_without_a_control_claims_about_anchors_are_undecided_and_say_how_to_get_one() -> None:
    found = judged(run(right, control=None))
    for id in (*MOVES, "mdm-right", "mdm-frontier", "layers-differ"):
        assert (found[id].verdict, found[id].parts) == ("undecided", ())
        assert found[id].changes.startswith(
            "cannot be judged here: there is no control to compare with; trace the model"
        )
        assert "controls: {shuffled_weights: 1}" in found[id].changes
    assert found["shallow-spread"].parts  # needs none


def test_a_control_of_few_questions_is_none() -> None:
    traces = run(right)
    found = judged([*traces[:N], *traces[N : N + FEWEST - 1]])
    assert found["mdm-right"].changes.startswith("cannot be judged here: its control has 19 questions, and at least 20")


def test_the_control_part_is_the_model_minus_the_percentile_of_all_its_controls() -> None:
    traces = [*run(right)]
    traces += [as_control(one(nowhere, 2000 + sample, noise=0.8), "mdm", seed=1) for sample in range(N)]
    results = drift(traces)
    held = [group.values("strongest")[:, 1] for group in results]
    pooled = sorted([*held[1], *held[2]])
    percentile = pooled[37] + 0.05 * (pooled[38] - pooled[37])  # at 0.95 · 39 = 37.05 of the forty
    (found,) = [one for one in claims({"drift": results}) if one.id == "mdm-right"]
    assert effects(found)[1] == pytest.approx(held[0].mean() - percentile)


# -- autoregressive models --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("places", "verdict"),
    [
        (fixed, "supported"),
        (right, "contradicted"),
        (nowhere, "contradicted"),
        (lambda step, layer: {7: 0.45}, "contradicted"),  # a sink, but beside the first position
        (lambda step, layer: {0: 0.3, 20 + layer: 0.35}, "contradicted"),  # the strongest key is another in each layer
        (lambda step, layer: {0: 0.04 + 1 / SIZE}, "too small"),
    ],
)
def test_the_sink_of_an_autoregressive_model(places: Places, verdict: str) -> None:
    found = judged(run(places, kind="arm"))
    assert found["arm-fixed"].verdict == verdict
    assert not {id for id in found if id.startswith("mdm-")}


def test_the_parts_of_a_fixed_anchor() -> None:
    found = judged(run(fixed, kind="arm"))["arm-fixed"]
    mass, beyond, stable, first = effects(found)
    assert mass == pytest.approx(0.45 - 1 / SIZE, abs=0.01)
    assert beyond == pytest.approx(0.45, abs=0.02)  # the control's first position is as any other
    assert (stable, first) == (1, 1)


@pytest.mark.parametrize(
    ("pattern", "causal", "expected"),
    [
        ("fixed", True, {"arm-fixed": "supported"}),
        ("moving", True, {"arm-fixed": "contradicted"}),
        ("uniform", True, {"arm-fixed": "contradicted"}),
        ("fixed", False, {MOVES[0]: "contradicted", MOVES[1]: "contradicted", "mdm-right": "too small"}),
        ("moving", False, {MOVES[0]: "supported", MOVES[1]: "supported", "mdm-right": "supported"}),
        ("uniform", False, {MOVES[0]: "contradicted", MOVES[1]: "contradicted", "mdm-right": "contradicted"}),
    ],
)
def test_the_same_under_a_causal_mask_where_the_sequence_grows(
    pattern: str, causal: bool, expected: dict[str, str]
) -> None:
    found = judged(with_control(samples(pattern, causal=causal, n=N)))
    assert {id: found[id].verdict for id in expected} == expected


# -- layers and frontier ----------------------------------------------------------------------------------------------


def test_layers_with_anchors_of_their_own_differ_whether_or_not_they_move() -> None:
    found = judged(run(lambda step, layer: {10 * layer: 0.4}))
    assert found["layers-differ"].verdict == "supported"
    assert effects(found["layers-differ"])[2] == 0
    assert found[MOVES[0]].verdict == "contradicted"


def test_a_layer_without_anchors_does_not_differ() -> None:
    found = judged(run(lambda step, layer: {0: 0.4} if layer < 2 else {}))
    assert found["layers-differ"].verdict == "contradicted"
    assert effects(found["layers-differ"])[2] == 1


def test_anchors_at_the_frontier_and_away_from_it() -> None:
    assert judged(run(frontier))["mdm-frontier"].verdict == "supported"
    assert judged(run(mirrored))["mdm-frontier"].verdict == "contradicted"
    assert judged(run(right))["mdm-frontier"].verdict == "too small"  # it never comes near


# -- kinds ------------------------------------------------------------------------------------------------------------


def several(step: int, layer: int) -> dict[int, float]:
    return {5: 0.15, 25: 0.15, 45: 0.15}


@pytest.mark.parametrize(
    ("mdm", "arm", "verdict", "effect"),
    [
        (several, fixed, "supported", 2),
        (fixed, several, "contradicted", -2),
        (several, several, "too small", 0),
        (nowhere, fixed, "contradicted", -1),
    ],
)
def test_the_number_of_anchors_of_two_kinds(mdm: Places, arm: Places, verdict: str, effect: float) -> None:
    traces = [*run(mdm, control=None), *run(arm, control=right, kind="arm")]  # a control is of no kind
    found = judged(traces)["mdm-dispersed"]
    assert found.verdict == verdict
    assert effects(found) == pytest.approx([effect], abs=0.05)
    assert dict(found.models) == {"mdm": 1, "arm": 1}


def test_one_kind_alone_is_no_comparison() -> None:
    assert "mdm-dispersed" not in judged(run(several))


def test_limits_are_data() -> None:
    limits = [(one.limit, one.opposite, one.above) for one in CLAIMS["mdm-moves (answer rows)"].limits]
    assert limits == [(0.05, 0.01, True), (0, None, True), (0.5, 0.9, False), (-0.05, float("inf"), False)]
