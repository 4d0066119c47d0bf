"""Verdicts on edits of anchors, beside controls and unedited answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import pytest

from floatlens.claims import Claim
from floatlens.claims.registry import answer_claims
from floatlens.records.condition import Condition, Edited
from shared import frames
from shared.frames import RAG, control, edit

DROP, PIN = edit("drop_anchors", k=1), edit("pin_anchors", to="step0", k=5)


def judged(rates: Mapping[Condition, float], kind: str = "mdm", n: int = 100, **columns: Any) -> list[Claim]:
    """From the share of right answers under each condition; the first questions are the right ones."""
    given = {c: [i < round(r * n) for i in range(n)] for c, r in rates.items()}
    frame: pd.DataFrame = frames.answers(given, kind=kind)
    return answer_claims(frame.assign(**columns))


SIGNS = {"supported": "+", "contradicted": "-", "too small": "s", "undecided": "?"}


@pytest.mark.parametrize(
    ("kind", "unedited", "random", "edited", "parts", "verdict"),
    [
        ("arm", 1.0, 0.9, 0.2, "++", "+"),
        ("arm", 1.0, 0.5, 0.5, "s+", "s"),  # what moving attention costs anywhere: 0 ± 0.019 beyond it
        ("arm", 0.5, 1.0, 0.5, "+s", "s"),  # the control gained, the edit cost nothing
        ("arm", 1.0, 1.0, 1.0, "ss", "s"),  # nothing lost
        ("arm", 0.5, 0.2, 0.9, "--", "-"),  # a gain
        ("mdm", 1.0, 1.0, 1.0, "+++", "+"),
        ("mdm", 1.0, 0.9, 0.2, "--+", "-"),
        ("mdm", 1.0, 0.95, 0.95, "+?+", "?"),  # five of a hundred lost: by chance more than 0.05 or not
        ("mdm", 1.0, 0.0, 0.0, "+-+", "-"),  # both collapse
        ("mdm", 0.0, 0.0, 0.0, "++-", "s"),  # nothing there that could be lost; one of three parts is not sure enough
    ],
)
def test_removing_anchors_is_judged_beside_control_and_unedited_answers(
    kind: str, unedited: float, random: float, edited: float, parts: str, verdict: str
) -> None:
    (found,) = judged({RAG: unedited, DROP: edited, control(DROP): random}, kind)
    assert (found.id, found.model, found.subject) == (f"{kind}-without-anchors", "m", "m, d")
    assert "".join(SIGNS[part.verdict] for part in found.parts) == parts
    assert SIGNS[found.verdict] == verdict
    assert [float(part.found.mean) for part in found.parts[:2]] == pytest.approx([random - edited, unedited - edited])


def test_the_control_by_mass_decides_and_that_by_count_is_beside_it() -> None:
    """A control that moves nothing costs nothing; the verdict does not rest on it."""
    rates: dict[Condition, float] = {RAG: 1.0, DROP: 0.5, control(DROP, "count"): 1.0, control(DROP, "mass"): 0.5}
    (found,) = judged(rates, "arm")
    assert [float(part.found.mean) for part in found.parts] == [0.0, 0.5]
    assert "beyond the count control 0.5 [" in found.note
    (alone,) = judged({c: r for c, r in rates.items() if c != control(DROP, "mass")}, "arm")
    assert (alone.parts, alone.verdict) == ((), "undecided")
    assert "without its control by mass" in alone.note


def test_draws_of_a_control_are_averaged_per_question() -> None:
    """Two draws at 1.0 and 0.5: a question of the second half scores one half under the control."""
    rates = {RAG: 1.0, DROP: 0.25, control(DROP, seed=3): 1.0, control(DROP, seed=4): 0.5}
    (found,) = judged(rates, "arm")
    assert float(found.parts[0].found.mean) == pytest.approx(0.75 - 0.25)
    assert int(found.parts[0].found.n) == 100
    assert "(2 draws)" in found.note


def test_only_exposed_questions_count() -> None:
    """Sixty of a hundred answers are complete after step 0; the edit begins in step 1 and loses the others."""
    steps = [(0,) if i % 5 < 3 else (0, 1) for i in range(100)]
    scores = {RAG: 1.0, DROP: 1.0, control(DROP): 1.0}
    frame = frames.answers({c: [1.0] * 100 for c in scores}, kind="arm")
    lost = (frame["condition"] == DROP) & (frame["index"] % 5 >= 3)
    frame = frame.assign(decided_at=[steps[i] for i in frame["index"]], accuracy=frame["accuracy"].where(~lost, 0.0))
    (found,) = answer_claims(frame)
    assert [float(part.found.mean) for part in found.parts] == [1.0, 1.0]
    assert {int(part.found.n) for part in found.parts} == {40}
    assert found.note.startswith("40 of 100 questions exposed")
    (none,) = answer_claims(frame.assign(decided_at=[(0,)] * len(frame)))
    assert (none.parts, none.verdict) == ((), "undecided")
    assert none.note.startswith("cannot be judged here: no answer to any of 100 questions was still open")
    (few,) = judged({RAG: 1.0, DROP: 0.0, control(DROP): 1.0}, "arm", n=19)
    assert few.verdict == "undecided"


def test_an_edit_that_moves_next_to_nothing_tests_nothing() -> None:
    rates: dict[Condition, float] = {RAG: 1.0, PIN: 1.0, control(PIN): 1.0}
    (found,) = judged(rates, moved_share=0.004)
    assert found.parts == ()
    assert found.note == "cannot be judged here: pin_anchors to=step0 k=5 changed 0.4 % of the attention, less than 1 %"
    (enough,) = judged(rates, moved_share=0.02)
    assert len(enough.parts) == 2


def test_a_control_that_moves_other_attention_is_no_match() -> None:
    """Half as much is still a match, less or more than twice as much is not; where it is unknown, it is judged."""
    rates: dict[Condition, float] = {RAG: 1.0, DROP: 0.5, control(DROP): 1.0}
    frame = frames.answers({c: [i < 100 * r for i in range(100)] for c, r in rates.items()}, kind="arm")
    for moved, matched in ((0.08, True), (0.03, False), (0.25, False), (0.04, False), (float("nan"), True)):
        share = frame["moved_share"].where(frame["condition"] != control(DROP), moved)
        (found,) = answer_claims(frame.assign(moved_share=share))
        assert (found.verdict == "supported") == matched
        assert ("which is no match" in found.note) == (not matched)


def test_anchors_are_held_in_the_rows_of_the_answer_where_the_run_has_that() -> None:
    answer = edit("pin_anchors", to="step0", k=1, rows="answer")
    rates: dict[Condition, float] = {RAG: 1.0, PIN: 1.0, control(PIN): 1.0}
    (found,) = judged(rates)
    assert found.note.endswith("anchors of all rows; pin_anchors:rows=answer was not asked")
    (found,) = judged(rates | {answer: 0.2, control(answer): 0.9})
    assert (found.verdict, "rows=answer" in found.statistic) == ("supported", True)
    assert "was not asked" not in found.note


def doses(name: str, *settings: dict[str, Any]) -> list[Edited]:
    return [edit(name, **one) for one in settings]


@pytest.mark.parametrize(
    ("edits", "chosen"),
    [
        (doses("drop_anchors", {"k": 10}, {"k": 5}, {"k": 1}), "drop_anchors k=1"),
        (doses("pin_anchors", *({"to": "step0", "k": k} for k in (1, 5, 10))), "pin_anchors to=step0 k=5"),
        (doses("pin_anchors", {"to": "bos", "k": 5}, {"k": 1, "to": "step0"}), "pin_anchors k=1 to=step0"),
        (
            doses("drop_anchors", *({"k": 1, "strength": s} for s in (0.25, 1.0)), {"k": 1, "on": "0-1"}),
            "drop_anchors k=1 strength=1",
        ),
        (doses("drop_anchors", {"k": 1, "steps": "50-60"}, {"k": 1, "strength": 0.0}, {"k": 5}), "drop_anchors k=5"),
    ],
)
def test_one_dose_is_judged(edits: Sequence[Edited], chosen: str) -> None:
    (found,) = judged({RAG: 1.0} | {c: 1.0 for one in edits for c in (one, control(one))})
    assert found.parts[0].name == f"accuracy lost to {chosen}, beyond its mass control"


@pytest.mark.parametrize(("unedited", "verdict"), [(1.0, "supported"), (0.1, "too small")])
def test_holding_anchors_is_judged_for_diffusion_models(unedited: float, verdict: str) -> None:
    rates: dict[Condition, float] = {RAG: unedited, PIN: 0.1, control(PIN): 0.9}
    (found,) = judged(rates)
    assert (found.id, found.verdict) == ("anchors-held", verdict)
    assert judged(rates, kind="arm") == []
    assert judged({c: 0.1 for c in rates if c != RAG}) == []  # nothing unedited to compare with
