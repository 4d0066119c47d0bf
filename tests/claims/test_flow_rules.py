"""The rules about flow on traces whose truth is known, both ways: 20 questions each, all but their noise the same.

Only the rows that decide the answer's words look anywhere; all other rows, those of EOS among them, look at document 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from floatlens.analysis import analyse
from floatlens.claims import CLAIMS, Claim, claims
from floatlens.traces import Trace
from shared.synthetic import EOS, MASK, build, spread

REGIONS = ["bos", *["doc1"] * 2, *["doc2"] * 3, *["doc3"] * 2, "question", *["answer"] * 4]
SIZE, PROMPT, LAYERS, N = len(REGIONS), len(REGIONS) - 4, 3, 20
FINAL = [10 + place for place in range(PROMPT)] + [50, 51, EOS, EOS]
WAYS = ("attention", "rollout")
Where = Callable[[int], int | None]
"""Position of the gold document → the document that the answer looks at; None: all alike."""


def trace(document: int | None, gold: int, sample: int, *, kind: str, extra: float, **more: Any) -> Trace:
    """A diffusion model sees everything and writes all at once; an autoregressive one is causal and grows."""
    random = np.random.default_rng([19, gold, sample, kind == "arm"])
    causal, steps = kind == "arm", 4 if kind == "arm" else 1
    weights = 1 + 0.2 * random.uniform(size=(steps, LAYERS, 1, SIZE, SIZE))
    weights[..., 3:6] += 5.0
    deciding = [PROMPT - 1, PROMPT] if causal else [PROMPT, PROMPT + 1]
    weights[..., deciding, 3:6] -= 5.0
    for row in deciding:
        keys = [place for place, region in enumerate(REGIONS) if region == f"doc{document}"]
        weights[..., row, keys] += extra
    lengths = [PROMPT + step for step in range(steps)] if causal else None
    committed = [(PROMPT + place, place if causal else 0) for place in range(4)]
    given: dict[str, Any] = {"ref": kind, "mask_id": None if causal else MASK, "question": f"question {sample}"}
    given |= {"regions": REGIONS, "final": FINAL, "committed": committed, "gold": gold - 1}
    return build(spread(weights, causal=causal, lengths=lengths), causal=causal, **(given | more))


def looking(at: Where, golds: Sequence[int] = (1, 2, 3), *, kind: str, extra: float = 20.0, **more: Any) -> list[Trace]:
    """For each position of the gold document N questions, in which the answer looks at document `at(gold)`."""
    given = {"kind": kind, "extra": extra, **more}
    return [trace(at(gold), gold, sample, **given) for gold in golds for sample in range(N)]


def judged(traces: Sequence[Trace], id: str) -> Claim:
    (found,) = [one for one in claims(analyse(traces, CLAIMS[id].needs)) if one.id == id]
    return found


def gold_itself(gold: int) -> int:
    return gold


def nowhere(gold: int) -> None:
    return None


EITHER = pytest.mark.parametrize("kind", ["mdm", "arm"])
BOTH = pytest.mark.parametrize("way", WAYS)


# -- flow-follows-gold ------------------------------------------------------------------------------------------------


@EITHER
@pytest.mark.parametrize("extra", [20.0, 1.0])
def test_an_answer_that_looks_at_the_gold_document_wherever_it_is(kind: str, extra: float) -> None:
    traces = looking(gold_itself, kind=kind, extra=extra)
    found = judged(traces, "flow-follows-gold (attention)")
    assert found.verdict == "supported"
    names = [f"ln gold lift over uniform, gold at position {place} of 3" for place in (1, 2, 3)]
    assert [part.name for part in found.parts] == names
    for part in found.parts:  # weights are 1.1 on average: 1.1 + extra against 1.1
        assert part.found.mean == pytest.approx(np.log((1.1 + extra) / 1.1), abs=0.05)
    assert found.n == N


@EITHER
def test_the_rollout_of_such_an_answer_comes_from_the_gold_document(kind: str) -> None:
    assert judged(looking(gold_itself, kind=kind), "flow-follows-gold (rollout)").verdict == "supported"


@BOTH
@EITHER
@pytest.mark.parametrize("place", [1, 2, 3])
def test_an_answer_that_always_looks_at_one_place_does_not_follow(kind: str, place: int, way: str) -> None:
    found = judged(looking(lambda gold: place, kind=kind), f"flow-follows-gold ({way})")
    assert found.verdict == "contradicted"
    if way == "attention":  # in the rollout document 2 comes through the other rows, too
        assert [part.verdict == "supported" for part in found.parts] == [gold == place for gold in (1, 2, 3)]


@EITHER
def test_rows_that_decide_nothing_do_not_count(kind: str) -> None:
    """All rows but those of the words look at document 2, five times as much as at others; EOS rows too."""
    found = judged(looking(nowhere, kind=kind), "flow-follows-gold (attention)")
    assert [float(part.found.mean) for part in found.parts] == pytest.approx([0, 0, 0], abs=0.03)
    assert found.verdict not in ("supported", "contradicted")


@BOTH
@EITHER
def test_one_position_of_the_gold_document_cannot_show_that_flow_follows_it(kind: str, way: str) -> None:
    only_first = judged(looking(lambda gold: 1, [1], kind=kind), f"flow-follows-gold ({way})")
    assert only_first.verdict == "undecided"
    assert "at another position" in only_first.changes
    elsewhere = judged(looking(lambda gold: 1, [3], kind=kind), f"flow-follows-gold ({way})")
    assert elsewhere.verdict == "contradicted"  # which one position can show


def test_traces_without_a_gold_document_say_nothing_of_following_it() -> None:
    traces = looking(gold_itself, [1], kind="mdm")
    for one in traces:
        one.data.attrs["prompt"]["gold"] = None
    assert claims(analyse(traces, ["flow"])) == []


def test_an_answer_of_eos_alone_decides_nothing() -> None:
    silent = looking(gold_itself, kind="mdm", final=[*FINAL[:PROMPT], *[EOS] * 4])
    assert judged(silent, "flow-follows-gold (attention)").verdict == "undecided"


def test_controls_are_not_judged() -> None:
    traces = looking(gold_itself, kind="mdm") + looking(nowhere, kind="arm")
    for one in traces[: 3 * N]:
        one.data.attrs["model"]["control"] = {"of": "mdm", "kind": "shuffled_weights", "seed": 0}
    found = claims(analyse(traces, ["flow"]))
    assert {one.subject for one in found} == {"arm"}
    assert not [one for one in found if one.id.startswith("mdm-flow")]


# -- mdm-flow ---------------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(("mdm", "arm", "verdict"), [(20.0, 2.0, "supported"), (2.0, 20.0, "contradicted")])
def test_the_kind_that_looks_more_at_the_gold_document_is_found(mdm: float, arm: float, verdict: str, way: str) -> None:
    traces = looking(gold_itself, kind="mdm", extra=mdm) + looking(gold_itself, kind="arm", extra=arm)
    found = judged(traces, f"mdm-flow ({way})")
    assert (found.verdict, found.n, found.models) == (verdict, N, {"mdm": 1, "arm": 1})
    if way == "attention":
        assert found.effect == pytest.approx(np.log((1.1 + mdm) / (1.1 + arm)), abs=0.05)


@pytest.mark.parametrize("at", [gold_itself, nowhere])
def test_kinds_that_look_alike_do_not_differ_whatever_their_masks(at: Where) -> None:
    traces = looking(at, kind="mdm") + looking(at, kind="arm")
    found = judged(traces, "mdm-flow (attention)")
    assert found.effect == pytest.approx(0, abs=0.03)
    assert found.verdict not in ("supported", "contradicted")


def test_a_kind_that_prefers_a_position_has_no_advantage_over_all_positions() -> None:
    """ln lifts at three positions: one document is preferred over two, so they do not sum to 0 but stay far below."""
    traces = looking(lambda gold: 1, kind="mdm") + looking(gold_itself, kind="arm")
    assert judged(traces, "mdm-flow (attention)").verdict == "contradicted"


def test_models_of_a_kind_are_pooled_by_question_and_places_count_alike() -> None:
    """Two diffusion models, one of them at two places only; by hand from the lifts of single traces."""
    mdm = looking(gold_itself, kind="mdm", extra=20.0)
    other = looking(gold_itself, (1, 3), kind="mdm", extra=5.0, ref="mdm2")
    arm = looking(gold_itself, kind="arm", extra=2.0)
    results = analyse([*mdm, *other, *arm], ["flow"])
    lifts: dict[str, list[float]] = {"mdm": [], "arm": []}
    for kind, models in (("mdm", ("mdm", "mdm2")), ("arm", ("arm",))):
        for sample in range(N):
            by_place = []
            for gold in (1, 2, 3):
                groups = [g for g in results["flow"].groups if g.model in models and g.keys["gold"] == gold]
                by_place.append(np.mean([g.values("direct_log_lift")[sample] for g in groups]))
            lifts[kind].append(float(np.mean(by_place)))
    (found,) = [one for one in claims(results) if one.id == "mdm-flow (attention)"]
    assert found.effect == pytest.approx(np.mean(lifts["mdm"]) - np.mean(lifts["arm"]))
    assert found.models == {"mdm": 2, "arm": 1}


def test_questions_without_every_position_do_not_count() -> None:
    """Both kinds look alike, and less at position 3, where one of them has 4 of 20 traces."""
    hard = {1: 20.0, 2: 20.0, 3: 2.0}
    mdm, arm = (
        [one for gold, extra in hard.items() for one in looking(gold_itself, [gold], kind=kind, extra=extra)]
        for kind in ("mdm", "arm")
    )
    found = judged([*mdm[: 2 * N + 4], *arm], "mdm-flow (attention)")
    assert found.effect == pytest.approx(0, abs=0.05)
    assert (found.n, found.verdict) == (4, "undecided")
    none = judged([*mdm[: N // 2], *mdm[N + N // 2 : 2 * N], *arm], "mdm-flow (attention)")
    assert "no question has the gold document at every position; trace the same questions" in none.note


def test_one_position_cannot_show_a_difference_between_kinds() -> None:
    traces = looking(gold_itself, [1], kind="mdm") + looking(nowhere, [1], kind="arm")
    found = judged(traces, "mdm-flow (rollout)")
    assert (found.verdict, found.parts) == ("undecided", ())
    assert found.note.startswith("cannot be judged here: the gold document has one position")
    apart = looking(gold_itself, [1], kind="mdm") + looking(nowhere, [2], kind="arm")  # no position in common
    assert not [one for one in claims(analyse(apart, ["flow"])) if one.id.startswith("mdm-flow")]
