"""Traces of forced texts and of passages with holes, on the bundled scale models and on tiny ones without words."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import floatlens as fl
from floatlens.core.errors import FloatlensError, FloatlensWarning

PASSAGE = "Today Ada Frost has a house in Lorvik. The profession of Ada Frost is baker. Ada Frost plays the flute."
QUESTION = "What is the profession of Ada Frost?"
MODELS = ("scale:llada", "scale:dream", "scale:llama", "scale:qwen")


@pytest.fixture(scope="module")
def load() -> Callable[[str], Any]:
    made: dict[str, Any] = {}

    def get(ref: str) -> Any:
        if ref not in made:
            made[ref] = fl.load(ref)
        return made[ref]

    return get


def share(row: torch.Tensor, token: int) -> float:
    values = row.double().tolist()
    return math.exp(values[token]) / math.fsum(map(math.exp, values))


@pytest.mark.parametrize("ref", MODELS)
def test_a_target_after_a_question(ref: str, load: Callable[[str], Any], tmp_path: Path) -> None:
    """Every model writes the same words in the same number of steps, and says how likely it found each."""
    model = load(ref)
    trace = fl.trace(model, question=QUESTION, documents=[PASSAGE], gold=0, target="flute of Ada Frost")
    data, ids = trace.data, model.tokenizer("flute of Ada Frost", add_special_tokens=False).input_ids
    assert trace.forced
    assert trace.answer == "flute of Ada Frost"
    assert data.attrs["decoding"]["forced"] is True
    assert data.attrs["decoding"]["answer_ids"] == ids == data["final"].values[-len(ids) :].tolist()
    assert data.attrs["decoding"]["settings"]["gen_length"] == len(ids) == data.sizes["step"] == data.sizes["token"]
    probability = data["token_probability"]
    assert (probability.dims, probability.dtype) == (("token",), np.float32)
    expected = []
    for step, position, row, token in zip(
        *(data[f"token_{name}"].values.tolist() for name in ("step", "position", "row", "id")), strict=True
    ):
        before = data["sequence"].values[step]
        logits = model.forward(torch.tensor([before[before >= 0].tolist()]))[0, row]
        expected.append(share(logits, token))
        assert token == data["final"].values[position]
    assert probability.values.tolist() == pytest.approx(expected, rel=1e-3)
    mean = math.fsum(map(math.log, expected)) / len(expected)
    assert trace.log_likelihood == pytest.approx(mean, abs=1e-3)
    assert json.loads(json.dumps(data.attrs)) == data.attrs
    opened = fl.open_trace(trace.save(tmp_path / "one"))
    assert opened.data["token_probability"].values.tolist() == probability.values.tolist()
    assert "forced 'flute of Ada Frost'" in repr(opened)


@pytest.mark.parametrize("ref", MODELS)
def test_a_free_trace_says_that_it_is(ref: str, load: Callable[[str], Any]) -> None:
    trace = fl.trace(load(ref), question=QUESTION, gen_length=3, probes=[])
    assert (trace.forced, trace.log_likelihood) == (False, None)
    assert trace.data.attrs["decoding"]["forced"] is False
    assert "log_likelihood" not in trace.data.attrs["decoding"]
    with pytest.raises(FloatlensError, match="only those of a forced text do"):
        trace.require("token_probability")
    del trace.data.attrs["decoding"]["forced"]  # as in files from before
    assert not fl.Trace(trace.data).forced


def test_tracing_forces_what_decoding_forces(tiny_model: Callable[[str], Any]) -> None:
    for name in ("llada", "dream", "qwen2", "bert"):
        model, prompt, target = tiny_model(name), [5, 9, 12, 33], [7, 8, 20, 21]
        plain = fl.decode(model, prompt, target_ids=target)
        for given in (target, torch.tensor(target), [target], np.array([target])):
            data = fl.trace(model, prompt_ids=prompt, target_ids=given, probes=["received"]).data
            assert data["final"].values.tolist() == prompt + target
            assert data["token_position"].values.tolist() == [p for s in plain.steps for p in s.position.tolist()]
            written = [p for s in plain.steps for p in s.probability.tolist()]
            assert data["token_probability"].values.tolist() == pytest.approx(written, rel=1e-3)
            assert data.attrs["decoding"]["log_likelihood"] == pytest.approx(plain.log_likelihood()[0], abs=1e-4)


def test_a_forced_end_of_text_is_part_of_the_answer(tiny_model: Callable[[str], Any]) -> None:
    model = tiny_model("llada")
    target = [7, model.eos_ids[0], 8]
    data = fl.trace(model, prompt_ids=[5, 6], target_ids=target, probes=[]).data
    assert data.attrs["decoding"]["answer_ids"] == target


# -- holes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hole", [6, (46, 75)], ids=str)
@pytest.mark.parametrize("ref", MODELS)
def test_a_hole(ref: str, hole: Any, load: Callable[[str], Any]) -> None:
    model = load(ref)
    ids = model.tokenizer(PASSAGE).input_ids
    trace = fl.trace(model, passage=PASSAGE, hole=hole)
    data, cut = trace.data, trace.data.attrs["prompt"]["hole"]
    seen = model.kind == "mdm"
    stop = cut["start"] + cut["tokens"]
    assert set(cut) == {"start", "tokens", "after_seen"}
    assert cut["after_seen"] is seen
    assert data["final"].values.tolist() == (ids if seen else ids[:stop])
    assert trace.answer == model.tokenizer.decode(ids[cut["start"] : stop])
    assert trace.forced
    assert data.sizes["step"] == data.sizes["token"] == cut["tokens"]
    where = [trace.regions[i] for i in data["region_of"].values]
    after = ["question"] * (len(ids) - stop) if seen else []
    assert where == ["bos", *["question"] * (cut["start"] - 1), *["answer"] * cut["tokens"], *after]
    if hole == 6:
        assert cut["start"] == 1 + (len(ids) - 1 - 6) // 2
    else:
        assert PASSAGE[46:75] == "fession of Ada Frost is baker"  # and is widened to whole words
        assert trace.answer == "profession of Ada Frost is baker"


@pytest.mark.parametrize("ref", MODELS)
def test_a_hole_that_a_model_fills_by_itself(ref: str, load: Callable[[str], Any]) -> None:
    model = load(ref)
    ids = model.tokenizer(PASSAGE).input_ids
    trace = fl.trace(model, passage=PASSAGE, hole=3, forced=False, probes=["received"])
    start = 1 + (len(ids) - 1 - 3) // 2
    final = trace.data["final"].values.tolist()
    assert not trace.forced
    assert "token_probability" not in trace.data
    assert final[:start] == ids[:start]
    if model.kind == "mdm":
        assert final[start + 3 :] == ids[start + 3 :]
        assert trace.data.sizes["step"] == 3
        few = {"steps": 2}
        assert fl.trace(model, passage=PASSAGE, hole=3, forced=False, probes=[], **few).data.sizes["step"] == 2
    else:
        assert len(final) <= start + 3


def test_analyses_take_traces_with_holes(load: Callable[[str], Any]) -> None:
    """Every model's trace of one passage counts as the same question, and answer rows are those of the hole."""
    traces = [fl.trace(load(ref), passage=PASSAGE, hole=5) for ref in ("scale:llada", "scale:llama")]
    skipped: dict[str, str] = {}
    found = fl.analyse(traces, ["drift", "absorption", "qk", "flow", "extremes", "token_classes"], skipped=skipped)
    assert set(found) == {"drift", "absorption", "qk", "flow", "extremes", "token_classes"}, skipped
    asked = {str(q) for group in found["drift"].groups for q in group.samples["question"].values}
    assert asked == {f"passage {traces[0].data.attrs['prompt']['passage']}"}
    received = traces[0].data["received_answer"].values
    assert np.abs(received.sum(-1) - 1).max() < 1e-4


def test_masks_in_ids_are_the_answer(tiny_model: Callable[[str], Any]) -> None:
    model = tiny_model("llada")
    prompt = [5, model.mask_id, model.mask_id, 9]
    trace = fl.trace(model, prompt_ids=prompt, target_ids=[7, 8], probes=["flow"])
    assert [trace.regions[i] for i in trace.data["region_of"].values] == ["question", "answer", "answer", "question"]
    assert trace.data.attrs["decoding"]["answer_ids"] == [7, 8]


# -- room and mistakes --------------------------------------------------------------------------------------------


def test_documents_make_room_for_the_target(load: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """What is cut to fit leaves the target whole, and it is said once."""
    model = load("scale:llada")
    monkeypatch.setattr(model, "max_length", 90)
    target = "Ada Frost plays the flute and Ada Frost plays the harp"
    with pytest.warns(FloatlensWarning) as caught:
        trace = fl.trace(model, question=QUESTION, documents=[PASSAGE] * 4, target=target, probes=[])
    assert len(caught) == 1
    assert trace.answer == target
    assert trace.data.sizes["key"] <= 90


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"prompt": "a", "target": "b", "target_ids": [5]}, "give target or target_ids, not both"),
        ({"prompt": "a", "target": " "}, "target: expected a text that is not empty"),
        ({"prompt": "a", "target": "b", "gen_length": 9}, "does not fit gen_length=9; leave gen_length out"),
        ({"prompt": "a", "target": "b", "forced": False}, "forced=False, but a target is given"),
        ({"prompt": "a", "forced": True}, "forced=True needs a target"),
        ({"prompt": "a", "hole": 3}, "hole goes with a passage, not with prompt"),
        ({"prompt": "a", "passage": "b"}, "got prompt and passage"),
        ({"passage": PASSAGE}, "a passage needs a hole"),
        ({"passage": PASSAGE, "hole": 3, "target": "b"}, "cut out of a passage is its target; leave target out"),
        ({"passage": PASSAGE, "hole": 3, "gen_length": 3}, "a hole has a length of its own; leave gen_length out"),
        ({"passage": PASSAGE, "hole": 3, "documents": ["b"]}, "go with a question, not with passage"),
        ({"passage": PASSAGE, "hole": 99}, "hole=99: the passage has"),
        ({"prompt_ids": [5], "target_ids": [[6], [7]]}, "a trace has one prompt, got 2 targets; give one"),
        ({"prompt_ids": [5], "target_ids": "b"}, "target_ids must be token ids, not text"),
        ({"prompt_ids": [5], "target_ids": [10**6]}, "the model's vocabulary ends at"),
    ],
)
def test_mistakes_are_one_line(arguments: dict[str, Any], message: str, load: Callable[[str], Any]) -> None:
    with pytest.raises(FloatlensError, match=message) as caught:
        fl.trace(load("scale:llada"), **arguments)
    assert "\n" not in str(caught.value)


def test_text_without_a_tokenizer(tiny_model: Callable[[str], Any]) -> None:
    with pytest.raises(FloatlensError, match="has no tokenizer, so text cannot be used; give target_ids"):
        fl.trace(tiny_model("llada"), prompt_ids=[5], target="a")
    with pytest.raises(FloatlensError, match="has no tokenizer, so a passage cannot be used"):
        fl.trace(tiny_model("llada"), passage=PASSAGE, hole=3)


def test_a_context_that_is_too_short_counts_the_whole_prompt() -> None:
    model = fl.load("scale:llada")
    ids = fl.trace(model, question="Who is Ada Frost?", gen_length=1, probes=[]).data.sizes["key"] - 1
    with pytest.raises(
        FloatlensError, match=rf"a prompt of {ids} tokens and gen_length=5000 need {ids + 5000} positions"
    ):
        fl.trace(model, question="Who is Ada Frost?", gen_length=5000)
