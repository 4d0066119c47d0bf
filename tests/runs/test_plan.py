"""A study planned: conditions by name, items counted, models with their own settings, and what is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from floatlens.core.errors import FloatlensError
from floatlens.edits import EDITS
from floatlens.records import CLOSED, RAG, Edited, Record, Stressed
from floatlens.runs.conditions import choose
from floatlens.runs.counts import count, forecast, group_of
from floatlens.runs.items import trace_file, trace_items
from floatlens.runs.manifest import manifest_of
from floatlens.runs.plan import Plan, make_plan
from floatlens.runs.presets import intervene_study, qa_study, stress_study, trace_study
from floatlens.runs.study import Study
from floatlens.runs.study_file import read_study

Planned = Callable[..., Plan]


@pytest.fixture
def planned(tmp_path: Path) -> Planned:
    """A plan over five questions with a gold document; `planned(conditions=[…])` changes the study."""
    rows = [
        {
            "id": f"q{i}",
            "question": f"who built house {i}?",
            "answers": [f"Ann{i}"],
            "documents": [{"text": f"Ann{i} built house {i}.", "is_gold": i < 4}, {"text": f"It rained on day {i}."}],
        }
        for i in range(5)
    ]
    path = tmp_path / "d.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def plan(say: Callable[[str], Any] = lambda message: None, **change: Any) -> Plan:
        values = {"models": ["scale:llada", "scale:qwen"], "data": [str(path)], "traces": {"questions": 0}}
        return make_plan(read_study({**values, **change}), say)

    return plan


def rows(plan: Plan) -> dict[tuple[str, str], dict[str, int]]:
    return {(r.data, r.what): {m.split(":")[1]: c.total for m, c in r.by_model.items()} for r in count(plan).rows}


def test_names_become_modes_tests_and_edits() -> None:
    wrong: list[tuple[int, str]] = []
    chosen = choose(["noise", "drop_anchors:k=1,5", "closed", "closed"], wrong)
    assert (chosen.modes, chosen.tests) == (("closed",), ("noise",))
    assert [spec.label for spec in chosen.edits] == ["drop_anchors k=1", "drop_anchors k=5"]
    assert wrong == []
    choose(["nois", "rag", "drop_anchors:z=1"], wrong)
    assert [place for place, _ in wrong] == [0, 2]
    assert wrong[0][1].startswith('no condition "nois"; did you mean "noise"')
    assert 'drop_anchors has no setting "z"' in wrong[1][1]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("drop_anchor:k=1", 'no edit "drop_anchor"; did you mean "drop_anchors"?'),
        ("sink_tokens", 'no edit "sink_tokens"; did you mean "sink_token"?'),
        ("raise:strength=2", f'no edit "raise"; known: {", ".join(sorted(EDITS))}'),
        ("nose", 'no condition "nose"; did you mean "noise"?'),
    ],
)
def test_a_misspelt_edit_is_called_an_edit(name: str, said: str, planned: Planned) -> None:
    with pytest.raises(FloatlensError, match=rf"conditions\[1\]: {re.escape(said)}$"):
        planned(conditions=["rag", name])


def test_all_wrong_conditions_are_named_with_their_lines(planned: Planned, tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(
        "models: [scale:llada]\ndata:\n  - ref: d.jsonl\n    conditions:\n      - nois\n  - ref: d.jsonl\n"
        "conditions:\n  - rag\n  - rga\n"
    )
    with pytest.raises(FloatlensError) as caught:
        make_plan(read_study(path))
    assert f'{path}:5: data[0].conditions[0]: no condition "nois"' in str(caught.value)
    assert f'{path}:9: conditions[1]: no condition "rga"' in str(caught.value)


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("data: [none.jsonl]\nmodels: [scale:llada]", "1: data[0]: "),
        ("data: [d.jsonl]\nmodels:\n  - scale:llama2", "3: models[0]: "),
        ("data: [d.jsonl]\nmodels: [scale:llada]\ndecoding:\n  settings: {stpes: 3}", "3: decoding: "),
        ("data: [d.jsonl]\nmodels: [scale:llada]\ntraces:\n  probes: [recieved]", "4: traces.probes: "),
    ],
)
def test_what_is_wrong_inside_a_file_has_its_line(planned: Planned, tmp_path: Path, line: str, place: str) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(line + "\n")
    with pytest.raises(FloatlensError) as caught:
        make_plan(read_study(path))
    assert str(caught.value).startswith(f"{path}:{place}")


def test_words_outside_a_small_vocabulary_are_told_before_anything_is_asked(planned: Planned) -> None:
    said: list[str] = []
    plan = planned(said.append)
    assert any("are outside the vocabulary of scale:llada (485 tokens)" in line for line in said)
    assert set(plan.notes) <= set(said)
    quiet: list[str] = []
    planned(quiet.append, data=[{"ref": "scale:rag:documents=2", "limit": 3}])
    assert quiet == []


@pytest.mark.parametrize("preset", [qa_study, stress_study, intervene_study, trace_study])
def test_every_command_says_what_the_data_lacks(preset: Callable[..., Study], tmp_path: Path) -> None:
    """One line for no gold in all of them; one for no answers in traces, which need none."""
    lines = [{"question": "Who?", "documents": [{"text": "Ada zorbs."}], "answers": ["Ada"]}] * 2
    lines += [{"question": "Why?", "documents": [{"text": "Ada zorbs."}]}] if preset is trace_study else []
    file = tmp_path / "x.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in lines))
    options: dict[Any, dict[str, Any]] = {
        stress_study: {"tests": ["masks"]},
        intervene_study: {"edits": ["sink_token"]},
    }
    said: list[str] = []
    make_plan(read_study(preset(["scale:llada"], [str(file)], **options.get(preset, {}))), said.append)
    told = [line for line in said if line.startswith("x: ")]
    answers = ["x: 1 of 3 questions has no accepted answer"] if preset is trace_study else []
    gold = 'x: no document is marked as gold; gold "answer" marks those that contain an accepted answer'
    assert told == [*answers, gold]
    assert sum("different words in x are outside the vocabulary of scale:llada" in line for line in said) == 1


def test_gold_by_the_answer_in_a_study(planned: Planned, tmp_path: Path) -> None:
    """Of five questions four mark their gold document, and all five have one that holds the answer."""
    asked = {"conditions": ["noise"], "stress": {"noise": {"ratios": [0.0, 0.2]}}}
    ref = str(tmp_path / "d.jsonl")
    marked, by_answer = planned(**asked), planned(data=[{"ref": ref, "gold": "answer"}], **asked)
    assert [rows(plan)["d", "noise"]["llada"] for plan in (marked, by_answer)] == [2 * 4, 2 * 5]
    assert manifest_of(by_answer)["data"]["d"]["gold"] == "answer"
    assert manifest_of(by_answer)["study"]["data"][0]["gold"] == "answer"
    assert manifest_of(marked)["study"]["data"][0]["gold"] is None


@pytest.mark.parametrize(("own", "expected"), [(None, [0.0, 1.0]), ([1], [1.0]), ([], [])])
def test_places_of_a_data_set_go_before_those_of_the_study(
    planned: Planned, tmp_path: Path, own: list[int] | None, expected: list[float]
) -> None:
    data = [{"ref": str(tmp_path / "d.jsonl"), "places": own}]
    plan = planned(data=data, traces={"questions": 3, "places": [0, 1], "documents": 2})
    ways = [one.condition for one in plan.data[0].trace_conditions]
    assert [one.x for one in ways if isinstance(one, Stressed)] == expected
    assert bool(expected) or ways == [RAG]
    assert (manifest_of(plan)["places"] is not None) == bool(expected)


def test_places_that_a_data_set_cannot_have_are_named(planned: Planned, tmp_path: Path) -> None:
    data = [{"ref": str(tmp_path / "d.jsonl"), "places": [7]}]
    with pytest.raises(FloatlensError, match=r"data\[0\]\.places"):
        planned(data=data, traces={"questions": 3, "documents": 2})


def test_every_item_is_counted_once(planned: Planned) -> None:
    said: list[str] = []
    plan = planned(
        said.append,
        conditions=["closed", "noise", "masks", "drop_anchors", "sink_token:logit=2"],
        stress={"noise": {"ratios": [0, 0.5], "documents": 2}, "masks": {"counts": [1, 2]}},
        traces={"questions": 3, "places": [0, 1], "documents": 2},
    )
    assert rows(plan) == {
        ("d", "trace"): {"llada": 6, "qwen": 6},
        ("d", "closed"): {"llada": 5, "qwen": 5},
        ("d", "rag"): {"llada": 5, "qwen": 5},
        ("d", "drop_anchors k=1"): {"llada": 15, "qwen": 15},
        ("d", "sink_token logit=2"): {"llada": 5, "qwen": 5},
        ("d", "clean"): {"llada": 4, "qwen": 4},
        ("d", "noise"): {"llada": 8, "qwen": 8},
        ("d", "masks"): {"llada": 20},  # masks and dots, for models that have masks
    }
    assert "noise: 1 of 5 questions of d do not fit" in said[0]
    assert said[0] in plan.notes
    files = [trace_file(item, 0) for item in trace_items(plan.models[0], plan.data[0])]
    assert len(set(files)) == 6
    assert all(file.startswith("traces/1-scale-llada/d-position-") for file in files)


def test_a_data_set_may_have_its_own_conditions_and_traces(planned: Planned) -> None:
    data = [{"ref": "scale:known:documents=2", "limit": 2, "conditions": ["rag"], "traces": 1}]
    assert rows(planned(data=[*data, {"ref": "scale:rag:documents=2", "limit": 3}])) == {
        ("scale:known:documents=2", "trace"): {"llada": 1, "qwen": 1},
        ("scale:known:documents=2", "rag"): {"llada": 2, "qwen": 2},
        ("scale:rag:documents=2", "closed"): {"llada": 3, "qwen": 3},
        ("scale:rag:documents=2", "rag"): {"llada": 3, "qwen": 3},
    }


def test_a_models_own_settings_go_before_those_of_the_study(planned: Planned) -> None:
    own = {"ref": "scale:llada", "decoding": {"settings": {"steps": 2}}}
    plan = planned(
        models=[own, "scale:dream"], decoding={"settings": {"gen_length": 8, "steps": 4}}, seeds={"decoding": 5}
    )
    llada, dream = (one.ask.decoding.settings for one in plan.models)
    assert (llada["steps"], llada["gen_length"], llada["seed"]) == (2, 8, 5)
    assert (dream["steps"], dream["gen_length"], dream["seed"]) == (4, 8, 5)
    other = {"ref": "scale:llada", "decoding": {"sampler": "threshold"}}
    (model,) = planned(models=[other]).models
    assert model.ask.decoding.sampler == "threshold"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"conditions": ["ragg"]}, 'study: conditions[0]: no condition "ragg"; did you mean "rag"'),
        ({"analyses": ["drif"]}, 'analyses[0]: no analysis "drif"; did you mean "drift"'),
        ({"stress": {"seed": 1}}, "goes into seeds.stress"),
        ({"decoding": {"settings": {"seed": 1}}}, "goes into seeds.decoding"),
        ({"decoding": {"settings": {"stpes": 1}}}, 'no setting "stpes"'),
        ({"conditions": ["ablate_heads:top=2"]}, "retrieval heads are chosen from the study's traces"),
        (
            {"conditions": ["ablate_heads"], "traces": {"questions": 1, "probes": ["received", "flow"]}},
            "which need the probe answer_rows; add it to traces.probes",
        ),
        ({"conditions": ["freeze_layers:layers=0-99"]}, "edit freeze_layers layers=0-99: layer 8 is"),
        ({"conditions": ["drop_anchors:k=0"]}, "study: conditions[0]: edit drop_anchors:k=0: DropAnchors(k=0): k is"),
        ({"conditions": ["ablate_heads:heads=1.99"]}, "there is no head (1, 99)"),
        ({"data": ["scale:rag", "scale:rag"]}, 'its name "scale:rag" is that of scale:rag'),
        ({"data": ["scale:closed-known"]}, "no documents, which this task needs"),
        ({"traces": {"probes": ["recieved"]}}, "received"),
        ({"traces": {"layers": [99]}}, "99"),
        ({"models": ["scale:llama2"]}, "scale:llama2"),
    ],
)
def test_what_cannot_be_done_is_refused_before_any_weights(planned: Planned, change: Any, message: str) -> None:
    with pytest.raises(FloatlensError) as caught:
        planned(**change)
    assert message in str(caught.value)


def test_conditions_have_a_line_of_the_plan() -> None:
    drop = Edited(name="drop_anchors", settings={"k": 1}, control="count", seed=0)
    topic = Stressed(test="distractor", series="topic", x=4, point="4")
    assert [group_of("answer", one) for one in (CLOSED, topic, drop)] == ["closed", "distractor", "drop_anchors k=1"]
    assert [group_of("trace", one) for one in (RAG, topic)] == ["trace", "trace"]


def test_time_is_told_from_records_where_there_are_some(planned: Planned) -> None:
    plan = planned(models=["scale:llada"], conditions=["closed"])
    counts = count(plan)
    by_rule = forecast(plan, counts, [], 1, 1)
    assert by_rule.seconds is not None
    assert "rule of thumb" in by_rule.basis
    done = Record(
        what="answer",
        index=0,
        id="q0",
        status="done",
        seconds=10.0,
        model="scale:llada",
        data="d",
        condition=CLOSED,
    )
    known = forecast(plan, counts, [done], 2, 1)
    assert known.basis == "from the 1 items on record"
    assert known.seconds == pytest.approx(5 * 10.0 / 2 + 6.0)
    assert forecast(plan, counts, [], 1, 1, elsewhere=True).seconds is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"conditions": ["noise", "position"]}, r"nothing to do for d: no document is marked as gold; .*--gold answer"),
        ({"conditions": [], "traces": {"questions": 2, "places": [0]}}, "nothing to do for d: no document is"),
        ({"conditions": ["masks"], "models": ["scale:qwen"]}, "nothing to do for d: masks .* for mdm models"),
        ({"conditions": []}, "nothing to do: no conditions and no traces"),
    ],
)
def test_a_study_with_nothing_to_do_is_refused(
    planned: Planned, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text(path.read_text().replace('"is_gold": true', '"is_gold": false'))
    with pytest.raises(FloatlensError, match=message):
        planned(**{"traces": {"questions": 0}} | change)
