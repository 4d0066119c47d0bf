"""`claims` on run folders of every command: traces, answers and edits in one list; traces are not needed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from floatlens.claims import claims
from floatlens.claims.registry import CLAIMS
from floatlens.core.errors import FloatlensError
from floatlens.records import Record
from floatlens.records.store import FORMAT, write_records
from floatlens.traces import Trace
from shared.answering import condition_of
from shared.synthetic import ready, samples, with_control

KINDS = {"moving-mdm": "mdm", "fixed-arm": "arm"}
ASKED = {"rag-gain": "supported", "rag-gain (headroom)": "undecided", "rag-accuracy": "undecided"}
"""The autoregressive model knows everything, so it has no headroom; both answer everything with documents."""
MOVES = "mdm-moves (answer rows)"
EDIT = ("drop_anchors k=1", "drop_anchors k=1 (mass control)")


def run(folder: Path, conditions: Iterable[str], **more: Any) -> Path:
    """A run of 100 questions, all answered rightly but closed book and, by the autoregressive model, with the edit."""
    folder.mkdir()
    models = {name: {"kind": one} for name, one in KINDS.items()}
    (folder / "manifest.json").write_text(json.dumps({"format": FORMAT, "models": models, "data": {"d": {}}, **more}))
    wrong = {("moving-mdm", "closed"), ("fixed-arm", EDIT[0])}
    records = [
        Record.model_validate(
            {"what": "answer", "index": i, "id": f"q{i}", "status": "done", "data": "d", "model": model}
            | {"condition": condition_of(condition), "accuracy": float((model, condition) not in wrong)}
            | {"decided_at": (0, 1), "earliest_step": 1 if condition in EDIT else None}
        )
        for model in KINDS
        for condition in conditions
        for i in range(100)
    ]
    write_records(folder, records)
    return folder


def controlled(pattern: str, causal: bool) -> list[Trace]:
    return with_control(samples(pattern, causal=causal, n=20))


def by_id(run: Any, **more: Any) -> dict[str, str]:
    return {one.id: one.verdict for one in claims(run, **more)}


def test_runs_of_answers_need_no_traces(tmp_path: Path) -> None:
    asked = run(tmp_path / "qa", ["closed", "rag"])
    edited = run(tmp_path / "edits", ["plain", *EDIT])
    assert by_id(asked) == by_id(str(asked)) == ASKED
    held = {"rag-accuracy": "undecided", "arm-without-anchors": "supported", "mdm-without-anchors": "supported"}
    assert by_id(edited) == held
    assert by_id([asked, edited]) == by_id(asked) | by_id(edited)


@pytest.mark.slow
@pytest.mark.ci
def test_a_study_gives_the_claims_of_all_it_holds(tmp_path: Path) -> None:
    study = run(tmp_path / "study", ["closed", "rag", *EDIT])
    answered = ASKED | {"arm-without-anchors": "supported", "mdm-without-anchors": "supported"}
    assert by_id(study) == answered
    traces = [one for name, causal in (("moving", False), ("fixed", True)) for one in controlled(name, causal)]
    for number, trace in enumerate(traces):
        trace.save(study / "traces" / f"{number:02d}")
    seen: list[str] = []
    found = by_id(study, each=lambda trace: seen.append(trace.model["ref"]))
    assert found == by_id(traces) | answered
    assert (found[MOVES], found["arm-fixed"]) == ("supported", "supported")
    assert seen == [trace.model["ref"] for trace in traces]


def test_only_analyses_of_the_study_are_made(tmp_path: Path) -> None:
    """What it left out is not analysed (here it could not be), and the claims that need it are named."""
    study = run(tmp_path / "study", ["closed", "rag"], study={"analyses": ["drift"]})
    for number, trace in enumerate(samples("moving", causal=False, n=8)):
        Trace(trace.data.drop_vars("qk_dot")).save(study / "traces" / f"{number:02d}")
    skipped: dict[str, str] = {}
    found = by_id(study, skipped=skipped)
    assert by_id(study) == found
    judged = {id for id, one in CLAIMS.items() if set(one.needs) <= {"drift"}} & set(found)
    assert judged | set(ASKED) == set(found)
    assert set(skipped) == {id for id, one in CLAIMS.items() if set(one.needs) - {"drift", "answers"}}
    assert len(set(skipped.values())) == 1
    assert skipped["qk-split"].startswith("the study left out analyses they need (absorption, qk, token_classes, ")
    other = run(tmp_path / "other", ["closed", "rag"], study={"analyses": None})
    assert by_id([study, other], skipped=(more := {})).keys() >= judged
    assert not [one for one in more.values() if "the study left out" in one]  # the other one left nothing out


@pytest.mark.slow
@pytest.mark.ci
def test_runs_of_two_data_sets_say_whether_anchors_depend_on_the_task(tmp_path: Path) -> None:
    """A run for each data set: anchors that move over words, and one that stays on the first token."""
    for pattern, name in (("moving", "nq"), ("fixed", "trex")):
        for i in range(100):
            one = ready(pattern, causal=False, sample=i, ref="m", question=f"{name} {i}", data_set=name)
            one.save(tmp_path / name / "traces" / f"{i}")
    assert by_id([tmp_path / "nq", tmp_path / "trex"])["anchors-by-task"] == "supported"
    assert by_id(tmp_path / "nq")["anchors-by-task"] == "undecided"


def test_a_rule_is_that_of_every_analysis() -> None:
    traces = controlled("moving", False)
    assert by_id(traces)[MOVES] == "supported"
    assert by_id(traces, rule="topk(30)")[MOVES] == "contradicted"  # every key is an anchor: no set ever changes


def test_nothing_to_judge_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FloatlensError, match="no traces to analyse"):
        claims([])
    with pytest.raises(FloatlensError, match="no traces in it"):
        claims(tmp_path)
