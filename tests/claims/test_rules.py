"""Rules of claims about absorption and mechanism where the truth is known, both ways: twenty samples each.

`trace` puts extra weight on chosen keys of otherwise even attention, so that what a verdict should say is plain from
how the traces were made. Kind and mask are apart here: a diffusion model can be causal and an ARM bidirectional.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from floatlens.analysis import analyse
from floatlens.claims import CLAIMS, Claim, claims
from floatlens.traces import Trace
from shared.synthetic import MASK, REGIONS, TEXTS, Array, build, spread

STEPS, LAYERS, HEADS, SIZE, N = 6, 4, 2, len(REGIONS), 20
ANSWER = [place for place, region in enumerate(REGIONS) if region == "answer"]
COLON, DOG = TEXTS.index(":"), TEXTS.index("dog")
Places = Callable[[int, int], Mapping[int, float]]
"""(step, layer) → extra weight by key; every other key has the weight 1."""


def trace(
    places: Places, sample: int, *, kind: str = "mdm", causal: bool = False, noise: float = 0.2, **more: Any
) -> Trace:
    """One sample: all positions are there from the start, the answer is written from left to right."""
    random = np.random.default_rng([11, sample])
    weights = 1 + noise * random.uniform(-1, 1, size=(STEPS, LAYERS, HEADS, SIZE, SIZE))
    for step, layer in np.ndindex(STEPS, LAYERS):
        for key, extra in places(step, layer).items():
            weights[step, layer, ..., key] += extra * random.uniform(0.9, 1.1)
    return from_weights(weights, kind=kind, causal=causal, **more)


def from_weights(weights: Array, *, kind: str = "mdm", causal: bool = False, **more: Any) -> Trace:
    given: dict[str, Any] = {"ref": kind, "regions": REGIONS, "texts": TEXTS}
    if kind == "mdm":
        given |= {"mask_id": MASK, "committed": [(ANSWER[step], step) for step in range(STEPS)]}
    return build(spread(weights, causal=causal), causal=causal, **(given | more))


def several(places: Places, **more: Any) -> list[Trace]:
    return [trace(places, sample, **more) for sample in range(N)]


def judged(traces: Sequence[Trace], id: str) -> Claim:
    """The one claim of this id."""
    (found,) = [one for one in claims(analyse(traces, CLAIMS[id].needs)) if one.id == id]
    return found


def effects(found: Claim) -> list[float]:
    return [float(part.found.mean) for part in found.parts]


# -- patterns ---------------------------------------------------------------------------------------------------------


def fixed(step: int, layer: int) -> dict[int, float]:
    return {0: 70.0}


def right(step: int, layer: int) -> dict[int, float]:
    return {2 + 2 * step: 70.0}


def even(step: int, layer: int) -> dict[int, float]:
    return {}


# -- absorption -------------------------------------------------------------------------------------------------------


def test_diffusion_models_that_absorb_less_do_so_in_both_ways() -> None:
    traces = [*several(fixed, kind="arm", causal=True), *several(even)]
    assert judged(traces, "mdm-absorbs-less (absorbed)").verdict == "supported"
    assert judged(traces, "mdm-absorbs-less (excess)").verdict == "supported"


def test_diffusion_models_that_absorb_more_do_so_in_both_ways() -> None:
    traces = [*several(even, kind="arm", causal=True), *several(right)]
    assert judged(traces, "mdm-absorbs-less (absorbed)").verdict == "contradicted"
    assert judged(traces, "mdm-absorbs-less (excess)").verdict == "contradicted"


def test_what_the_causal_mask_alone_gives_is_measured_but_shows_nothing_of_anchors() -> None:
    traces = [*several(even, kind="arm", causal=True), *several(even)]
    for variable in ("absorbed", "excess"):
        found = judged(traces, f"mdm-absorbs-less ({variable})")
        assert (found.verdict, found.parts) == ("undecided", ())
        assert found.note.startswith("cannot be judged here: the strongest key of either kind holds less than 5 %")
    moving = judged([*traces[:-N], *several(right)], "mdm-absorbs-less (absorbed)")
    assert [part.verdict for part in moving.parts] == ["contradicted", "too small"]


def test_weak_anchors_of_the_other_kind_are_measured_but_too_small() -> None:
    """The first position of an autoregressive model holds what the mask gives it, which is 0 above uniform."""
    traces = [*several(even, kind="arm", causal=True), *several(right)]
    first = sum(1 / (i + 1) for i in range(SIZE)) / SIZE  # what key 0 gets when every query spreads over what it sees
    measured, excess = (judged(traces, f"mdm-absorbs-less ({name})") for name in ("absorbed", "excess"))
    mask = effects(measured)[0] - effects(excess)[0]
    assert mask == pytest.approx(100 * (first - 1 / SIZE), abs=0.5)
    assert effects(measured)[1] == effects(excess)[1] == pytest.approx(0, abs=0.5)


def test_absorption_of_one_kind_alone_is_no_comparison() -> None:
    assert claims(analyse(several(right), ["absorption"])) == []


# -- by depth ---------------------------------------------------------------------------------------------------------


def test_shallow_layers_that_spread_are_told_from_deep_ones_that_do() -> None:
    deep_sink = several(lambda step, layer: {0: 70.0} if layer >= 2 else {})
    shallow_sink = several(lambda step, layer: {0: 70.0} if layer < 2 else {})
    assert judged(deep_sink, "shallow-spread").verdict == "supported"
    assert judged(shallow_sink, "shallow-spread").verdict == "contradicted"
    assert judged(several(fixed), "shallow-spread").verdict == "too small"
    assert judged(several(even), "shallow-spread").verdict == "too small"


def qk_trace(sample: int, shallow: tuple[float, float], deep: tuple[float, float], **more: Any) -> Trace:
    """Key 5 is the anchor; (length, share of its direction along the queries) by half. Others: length 1, share 0.1."""
    random = np.random.default_rng([13, sample])
    shape = (STEPS, LAYERS, HEADS, SIZE, 4)
    q = np.eye(4)[0] + 0.05 * random.normal(size=shape)
    k = np.empty(shape)
    k[:] = _key(1.0, 0.1)
    for layers, (length, along) in ((slice(0, 2), shallow), (slice(2, 4), deep)):
        k[:, layers, :, 5] = _key(length, along)
    k += 0.05 * random.normal(size=shape)
    return trace(lambda step, layer: {5: 70.0}, sample, q=q, k=k, **more)


def _key(length: float, along: float) -> Array:
    return length * np.array([along, np.sqrt(1 - along**2), 0.0, 0.0])


@pytest.mark.parametrize(
    ("shallow", "deep", "verdict", "refuted"),
    [
        ((3, 0.8), (1, 0.8), "supported", []),
        ((1, 0.8), (3, 0.8), "contradicted", ["share of the norm, shallow minus deep"]),
        ((3, 0.8), (1, -0.5), "contradicted", ["angle part of q·k in deep layers"]),
        ((3, -0.2), (1, 0.8), "contradicted", ["angle part of q·k in shallow layers"]),
    ],
)
def test_what_wins_the_product_is_told_by_depth(
    shallow: tuple[float, float], deep: tuple[float, float], verdict: str, refuted: list[str]
) -> None:
    found = judged([qk_trace(sample, shallow, deep) for sample in range(N)], "qk-split")
    assert found.verdict == verdict
    assert set(refuted) <= {part.name for part in found.parts if part.verdict == "contradicted"}


@pytest.mark.parametrize(
    ("anchor", "share", "verdict"),
    [
        ((1, 0.8), 1.0, "supported"),  # as long as the others, and turned to the queries
        ((8, 0.1), 0.0, "contradicted"),  # turned as the others, and longer
        ((1, -0.8), -1.0, "contradicted"),  # its angle is all there is, and works against it
    ],
)
def test_whether_autoregressive_anchors_win_by_angle(anchor: tuple[float, float], share: float, verdict: str) -> None:
    found = judged([qk_trace(sample, anchor, anchor, kind="arm") for sample in range(N)], "arm-angular")
    assert found.verdict == verdict
    assert found.effect == pytest.approx(share, abs=0.1)


def test_the_angle_of_diffusion_anchors_is_another_claim() -> None:
    results = analyse([qk_trace(sample, (1, 0.8), (1, 0.8)) for sample in range(2)], ["qk"])
    assert {one.id for one in claims(results)} == {"qk-split"}


@pytest.mark.parametrize(
    ("shallow", "deep", "verdict"),
    [
        (COLON, DOG, "supported"),
        (DOG, COLON, "contradicted"),
        (COLON, COLON, "contradicted"),
        (DOG, DOG, "contradicted"),
    ],
)
def test_anchors_on_structure_and_on_content_are_told_by_depth(shallow: int, deep: int, verdict: str) -> None:
    found = judged(several(lambda step, layer: {shallow if layer < 2 else deep: 70.0}), "structure-then-content")
    assert found.verdict == verdict


# -- evidence ---------------------------------------------------------------------------------------------------------


def copying(sample: int, chance: Sequence[float]) -> Trace:
    """Each head of a layer copies with this chance: while "green" and "cat" are written it looks at them in doc2."""
    random = np.random.default_rng([17, sample])
    weights = 1 + 0.2 * random.uniform(size=(STEPS, LAYERS, HEADS, SIZE, SIZE))
    evidence = [TEXTS.index("green"), TEXTS.index("cat")]
    for layer, head in np.ndindex(LAYERS, HEADS):
        for step, key in enumerate(evidence):
            looks_at = key if random.uniform() < chance[layer] else 0
            weights[step, layer, head, ANSWER[step], looks_at] += 70.0
    ids = [100 + TEXTS.index(text) for text in TEXTS]  # the same words have the same ids
    committed = [(ANSWER[0], 0), (ANSWER[1], 1)]
    return from_weights(weights, final=ids, evidence=evidence, gold=1, committed=committed)


@pytest.mark.parametrize(
    ("chance", "verdict"),
    [
        ((0.1, 0.1, 0.8, 0.9), "supported"),
        ((0.9, 0.8, 0.1, 0.1), "contradicted"),
        ((0.1, 0.9, 0.9, 0.1), "undecided"),
        ((0.0, 0.0, 0.0, 0.0), "undecided"),
    ],
)
def test_heads_that_copy_are_found_where_they_are(chance: tuple[float, ...], verdict: str) -> None:
    assert judged([copying(sample, chance) for sample in range(N)], "retrieval-deep").verdict == verdict


# -- data sets --------------------------------------------------------------------------------------------------------


def of_sets(counts: Mapping[str | None, Sequence[int]]) -> list[Trace]:
    """A trace for every number: in so many of the six steps the anchor of all layers is a colon, else a word."""
    made = []
    for name, colons in counts.items():
        for sample, count in enumerate(colons):

            def places(step: int, layer: int, count: int = count) -> dict[int, float]:
                return {COLON if step < count else DOG: 70.0}

            made.append(trace(places, sample, data_set=name, question=f"{name} {sample}"))
    return made


def test_anchors_that_differ_between_data_sets_depend_on_the_task() -> None:
    """Five colons of six against one of six: total variation 4/6 in every layer."""
    found = judged(of_sets({"nq": [5] * N, "trex": [1] * N}), "anchors-by-task")
    assert (found.verdict, found.subject, found.n, found.limit) == ("supported", "mdm", N, 0.05)
    assert effects(found) == pytest.approx([4 / 6])
    three = judged(of_sets({"nq": [5] * N, "trex": [1] * N, "hotpot": [5] * N}), "anchors-by-task")
    assert effects(three) == pytest.approx([(4 / 6 + 0 + 4 / 6) / 3])  # over the pairs
    assert three.statistic == "distance between the anchors of 3 data sets"


def test_anchors_of_one_distribution_do_not_depend_on_the_task() -> None:
    """Three or four steps of six: shares vary by a twelfth, so the means of 40 questions by a seventieth."""
    random = np.random.default_rng(5)
    colons = {name: random.integers(3, 5, size=40).tolist() for name in ("nq", "trex")}
    found = judged(of_sets(colons), "anchors-by-task")
    assert found.verdict == "too small"
    assert found.n == 40
    assert abs(found.effect) < 0.03
    same = judged(of_sets({"nq": [3] * N, "trex": [3] * N}), "anchors-by-task")
    assert (same.verdict, same.effect) == ("too small", pytest.approx(0))


def test_random_anchors_of_few_questions_decide_nothing_about_the_task() -> None:
    random = np.random.default_rng(6)
    found = judged(
        of_sets({name: random.integers(0, 7, size=N).tolist() for name in ("nq", "trex")}), "anchors-by-task"
    )
    assert found.verdict == "undecided"
    assert "questions" in found.changes
    assert found.statistic.startswith("distance between the anchors of 2")


@pytest.mark.parametrize(
    ("counts", "reason"),
    [
        ({"nq": [3] * N}, "these are all of nq"),
        ({"nq": [3] * N, None: [3] * 2}, "these are all of nq, except 2 that do not name theirs"),
        ({None: [3] * 2 * N}, "these do not name theirs"),  # as traces were before they named it
    ],
)
def test_fewer_than_two_data_sets_say_nothing_of_the_task(counts: dict[str | None, list[int]], reason: str) -> None:
    found = judged(of_sets(counts), "anchors-by-task")
    assert (found.verdict, found.parts, found.subject) == ("undecided", (), "mdm")
    needed = "traces of two or more data sets that name their set, with at least 20 questions of each"
    assert found.changes == f"{needed}; {reason}"


def test_too_few_questions_of_one_data_set_leave_it_open_however_many_traces() -> None:
    few = judged(of_sets({"nq": [5] * N, "trex": [1] * (N - 1)}), "anchors-by-task")
    assert (few.verdict, few.parts) == ("undecided", ())
    assert few.changes == "at least 20 questions with anchors of each data set; trex has 19"
    twice = of_sets({"nq": [5] * N, "trex": [1] * 9}) + of_sets({"trex": [1] * 9})
    assert judged(twice, "anchors-by-task").changes.endswith("; trex has 9")
    silent = of_sets({"nq": [5] * N, "trex": [1] * (N - 1), None: [1] * 9})  # who does not say counts for no set
    assert judged(silent, "anchors-by-task").verdict == "undecided"


def test_the_task_is_asked_of_diffusion_models_alone() -> None:
    arms = several(fixed, kind="arm", causal=True, data_set="nq")
    assert claims(analyse(arms, ["token_classes"])) == []
