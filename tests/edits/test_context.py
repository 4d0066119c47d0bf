"""`fl.edit`: the same for decoding, tracing and single passes; runs are told apart; everything is put back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import floatlens as fl
from floatlens.attention.edit import Site
from floatlens.attention.softmax import Workspace
from floatlens.core.errors import FloatlensError
from shared.capture import capture

PROMPT = [5, 9, 12, 33, 21, 8, 30]
HOW: dict[str, dict[str, Any]] = {"llada": {"gen_length": 4, "steps": 4}, "llama": {"gen_length": 4}}


def received(trace: fl.Trace) -> np.ndarray:
    return np.nan_to_num(trace.data["received"].values)


@pytest.mark.parametrize("name", ["llada", "llama"])
def test_tracing_and_decoding_alike(name: str, tiny_model: Any) -> None:
    model = tiny_model(name)
    given = fl.trace(model, prompt_ids=PROMPT, probes=["received"], edits=[fl.edits.DropAnchors(k=2)], **HOW[name])
    plain = fl.trace(model, prompt_ids=PROMPT, probes=["received"], **HOW[name])
    dropped = fl.edits.DropAnchors(k=2)
    with fl.edit(model, dropped) as editing:
        decoded = fl.decode(model, PROMPT, **HOW[name])
        report = editing.report()
        traced = fl.trace(model, prompt_ids=PROMPT, probes=["received"], **HOW[name])
        again = fl.decode(model, PROMPT, **HOW[name])
    assert decoded.sequence[0].tolist() == given.data["final"].values.tolist() == again.sequence[0].tolist()
    assert np.array_equal(received(traced), received(given))
    assert not np.array_equal(received(given), received(plain))
    assert [c.rows for c in dropped.report()] == [3 * c.rows for c in report]  # three runs of the same
    after = fl.trace(model, prompt_ids=PROMPT, probes=["received"], **HOW[name])
    assert np.array_equal(received(after), received(plain))
    assert model.observers == []


def test_without_an_active_edit_nothing_is_installed(tiny_model: Any) -> None:
    model, ids = tiny_model("llama"), torch.tensor([PROMPT])
    plain, before = model.forward(ids), model.module.config._attn_implementation
    with (
        fl.edit(model),
        fl.edit(model, fl.edits.DropAnchors(k=2, strength=0), fl.edits.PinAnchors(strength=0)) as editing,
    ):
        assert model.module.config._attn_implementation == before
        assert torch.equal(model.forward(ids), plain)
    assert editing.report() == []


def test_nested_contexts_add_up(tiny_model: Any) -> None:
    model = tiny_model("llada")

    def final(*edits: fl.Edit) -> np.ndarray:
        return received(fl.trace(model, prompt_ids=PROMPT, probes=["received"], edits=edits, **HOW["llada"]))

    both = final(fl.edits.DropAnchors(k=1), fl.edits.SinkToken(logit=2.0), fl.edits.PinAnchors("bos"))
    with fl.edit(model, fl.edits.DropAnchors(k=1)):
        with fl.edit(model, fl.edits.SinkToken(logit=2.0)):
            assert np.array_equal(final(fl.edits.PinAnchors("bos")), both)
        outer = final()
    assert np.array_equal(outer, final(fl.edits.DropAnchors(k=1)))
    with (
        capture(model, ["received"]),
        pytest.raises(FloatlensError, match="captured already"),
        fl.edit(model, fl.Edit()),
    ):
        pass


def test_runs_are_told_apart(tiny_model: Any) -> None:
    """Steps of every run from 0, whether runs follow with other prompts, the same one, or with and without a cache."""
    steps: list[int] = []

    class Note(fl.Edit):
        edits_weights = True
        select = fl.Select(layers=0, heads=0)

        def begin_layer(self, layer: Any) -> None:
            assert layer.state.step == layer.state.position.step
            steps.append(layer.state.step)

    for name, runs in (
        ("llada", [(PROMPT, 4), (PROMPT, 4), (PROMPT[::-1], 4), (PROMPT[:4], 2), (PROMPT, 1)]),
        ("llama", [(PROMPT, 4), (PROMPT, 4), ([*PROMPT, 7], 4), (PROMPT[:4], 2), (PROMPT, 1)]),
    ):
        model = tiny_model(name)
        for use in (True, False):
            with fl.edit(model, Note(), workspace=Workspace(kernel="torch")):
                for prompt, count in runs:
                    steps.clear()
                    how = {"steps": count, "block_length": count} if name == "llada" else {"use_cache": use}
                    done = fl.decode(model, prompt, gen_length=count, **how)
                    assert steps == list(range(len(done.steps)))


def test_restart_says_what_tokens_cannot(tiny_model: Any) -> None:
    """The same single pass twice looks like a run of two passes, the second of which drops what the first attended."""
    model, ids = tiny_model("llada"), torch.tensor([PROMPT])
    dropped = fl.edits.DropAnchors(k=2)
    with fl.edit(model, dropped) as editing:
        first = model.forward(ids)
        editing.restart()
        again = model.forward(ids)
        second = model.forward(ids)
    assert torch.equal(first, again)
    assert not torch.equal(again, second)
    assert {c.step for c in dropped.report()} == {1}


def test_a_failure_inside_leaves_the_model_as_it_was(tiny_model: Any) -> None:
    model, ids = tiny_model("llada"), torch.tensor([PROMPT])
    plain = model.forward(ids)

    class Broken(fl.Edit):
        edits_logits = True

        def logits(self, site: Site, logits: torch.Tensor) -> torch.Tensor | None:
            raise RuntimeError("broken")

    with (
        pytest.raises(RuntimeError, match="broken"),
        fl.edit(model, fl.edits.DropAnchors(k=1)),
        fl.edit(model, Broken()),
    ):
        model.forward(ids)
    assert torch.equal(model.forward(ids), plain)
    assert model.observers == []


def test_the_recorder_knows_its_edits(tiny_model: Any) -> None:
    model, inner, outer = tiny_model("llada"), fl.edits.PinAnchors(), fl.edits.DropAnchors(k=1)
    with fl.edit(model, outer), capture(model, ["received"], edits=[inner]) as recorder:
        pass
    assert recorder.edits == (outer, inner)


def test_what_cannot_be(tiny_model: Any) -> None:
    model, ids = tiny_model("llada"), torch.tensor([PROMPT])

    def passes(edit: Any) -> None:
        with fl.edit(model, edit):
            for _ in range(2):
                model.forward(ids)

    for wrong, message in (
        (lambda: fl.edits.DropAnchors(k=0), r"DropAnchors\(k=0\): k is a number of keys; give a whole number from 1"),
        (lambda: fl.edits.DropAnchors(k=2, rule="top1"), "both say which keys"),
        (lambda: fl.edits.DropAnchors(rule="topq(2)"), 'no anchor rule "topq.*did you mean "topk"'),
        (lambda: fl.edits.DropAnchors(rule="topk(1.5)"), "give topk"),
        (lambda: fl.edits.DropAnchors(of="past"), "of="),  # type: ignore[arg-type]
        (lambda: fl.edits.DropAnchors(strength=1.5), "give a number from 0 to 1"),
        (lambda: fl.edits.PinAnchors("step1"), 'did you mean "step0"'),  # type: ignore[arg-type]
        (lambda: passes(fl.edits.DropAnchors(k=7)), r"DropAnchors\(k=7\): k=7 of 7 keys would leave none"),
        (lambda: passes(fl.edits.DropRandom(k=4)), "too few keys are left next to the anchors"),
        (lambda: passes(fl.edits.SwapAnchors(k=4)), "too few keys are left next to the anchors"),
        (lambda: passes(fl.edits.DropAnchors(select=fl.Select(layers=9))), "9 is outside"),
        (lambda: passes(fl.edits.DropAnchors(select=fl.Select(steps=-1))), "count from the first"),
        (lambda: passes(fl.edits.DropAnchors), "is not an edit; give instances"),
    ):
        with pytest.raises(FloatlensError, match=message) as error:
            wrong()
        assert "\n" not in str(error.value)
    assert model.observers == []
