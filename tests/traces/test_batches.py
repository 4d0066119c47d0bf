"""Traces of many prompts at once: each with the numbers, ids and attributes of a trace alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import floatlens as fl
from floatlens.core.errors import FloatlensError
from floatlens.models.base import LanguageModel, Pass
from floatlens.prompts import Prompt
from floatlens.traces import batches

PROBES = ["received", "entropy", "flow", "answer_rows", "rollout", "qk", "extremes", "contribution"]
PROBES += ["contribution_rows"]  # by fused passes too
ALL_PROBES = [*PROBES, "contribution_rollout"]
IDS = [[5, 9, 12, 33, 21, 8, 30], [7, 6, 40], [11, 12, 13, 14, 15], [7, 41, 22]]


class _Passes:
    """The number of samples of each pass."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def begin(self, info: Pass) -> None:
        self.sizes.append(len(info.ids))

    def end(self) -> None: ...


def alike(ours: fl.Trace, alone: fl.Trace, allowed: float = 1e-6) -> None:
    assert dict(ours.data.sizes) == dict(alone.data.sizes)
    mine, theirs = (dict(one.data.attrs["decoding"]) for one in (ours, alone))
    assert mine.pop("log_likelihood", 0.0) == pytest.approx(theirs.pop("log_likelihood", 0.0), abs=allowed)
    assert {**ours.data.attrs, "decoding": mine} == {**alone.data.attrs, "decoding": theirs}
    assert set(ours.data.variables) == set(alone.data.variables)
    for name, expected in alone.data.variables.items():
        got = ours.data.variables[name]
        assert (got.dims, got.dtype) == (expected.dims, expected.dtype), name
        if expected.dtype.kind != "f":
            assert (got.values == expected.values).all(), name
            continue
        assert (np.isnan(got.values) == np.isnan(expected.values)).all(), name
        unit = max(1.0, np.abs(np.nan_to_num(expected.values)).max(initial=0.0))
        assert np.nan_to_num(np.abs(got.values - expected.values)).max(initial=0.0) <= allowed * unit, name


@pytest.mark.parametrize("backend", ["rows", "fused"])
@pytest.mark.parametrize("name", ["llama", "gpt2", "mistral", "llada", "dream", "a2d-qwen3"])
def test_the_numbers_of_prompts_alone(name: str, backend: str, tiny_model: Callable[[str], LanguageModel]) -> None:
    model, watch = tiny_model(name), _Passes()
    probes = ALL_PROBES if backend == "rows" else PROBES
    how: dict[str, Any] = {"gen_length": 4, "probes": probes, "backend": backend}
    model.observers.append(watch)
    try:
        found = fl.trace_many(model, [{"prompt_ids": one} for one in IDS], batch=3, **how)
    finally:
        model.observers.remove(watch)
    assert sorted(set(watch.sizes)) == [1, 3]
    # the logits of these two reach ±40: rounding that differs with the size of a batch is larger
    allowed = 4e-5 if name in ("llada", "dream") else 1e-6
    for one, ids in zip(found, IDS, strict=True):
        alike(one, fl.trace(model, prompt_ids=ids, **how), allowed)


def _prompt(ids: list[int], names: list[str], marked: int | None) -> Prompt:
    """A prompt whose regions take turns, as long as there are tokens; one token may be evidence."""
    regions = [*names, "answer", "template"]
    region_of = np.array([number * len(names) // len(ids) for number in range(len(ids))], dtype=np.int16)
    evidence = np.arange(len(ids)) == (-1 if marked is None else marked)
    return Prompt(ids, regions, region_of, "", np.zeros((len(ids), 2), dtype=np.int64), evidence)


@pytest.mark.parametrize("name", ["llama", "a2d-qwen3"])
def test_prompts_with_other_documents(name: str, tiny_model: Callable[[str], LanguageModel]) -> None:
    """Regions differ from prompt to prompt; prompts with and without evidence are not decoded together."""
    model = tiny_model(name)
    prompts = [
        _prompt(IDS[0], ["bos", "question", "doc1", "doc2", "doc3"], 4),
        _prompt(IDS[1], ["question", "doc1"], 2),
        _prompt(IDS[2], ["doc2", "question", "doc1"], None),
        _prompt(IDS[3], ["question"], None),
    ]
    how: dict[str, Any] = {"gen_length": 3, "probes": ALL_PROBES, "select": fl.Select(layers=[0, 1], heads=[1, 3])}
    for ours, one in zip(fl.trace_many(model, [{"prompt": one} for one in prompts], **how), prompts, strict=True):
        alike(ours, fl.trace(model, prompt=one, **how))
        assert list(ours.data.attrs["regions"]) == one.regions


def test_prompts_that_end_at_different_steps(tiny_model: Callable[[str], LanguageModel]) -> None:
    """The first token that a prompt writes is made an end of text, so others go on after it."""
    model = tiny_model("llama")
    first = [fl.decode(model, one, gen_length=6).answers()[0] for one in IDS]
    before = model.eos_ids
    model.eos_ids = (first[1][1],)
    try:
        alone = [fl.trace(model, prompt_ids=one, gen_length=6) for one in IDS]
        found = fl.trace_many(model, [{"prompt_ids": one} for one in IDS], gen_length=6)
    finally:
        model.eos_ids = before
    assert len({one.data.sizes["step"] for one in alone}) > 1
    for ours, theirs in zip(found, alone, strict=True):
        alike(ours, theirs)


def test_thresholds_and_forced_texts(tiny_model: Callable[[str], LanguageModel]) -> None:
    model = tiny_model("a2d-qwen3")
    given: dict[str, Any] = {"sampler": "threshold", "threshold": 0.02, "gen_length": 6}
    many = fl.trace_many(model, [{"prompt_ids": one} for one in IDS], **given)
    for ours, ids in zip(many, IDS, strict=True):
        alike(ours, fl.trace(model, prompt_ids=ids, **given))
    forced = [{"prompt_ids": one, "target_ids": [9, 8, number + 5]} for number, one in enumerate(IDS)]
    for ours, one in zip(fl.trace_many(model, forced), forced, strict=True):
        alike(ours, fl.trace(model, **one))


def test_what_goes_one_at_a_time(tiny_model: Callable[[str], LanguageModel]) -> None:
    model, watch = tiny_model("llada"), _Passes()
    prompts = [{"prompt_ids": one} for one in IDS[:2]]
    model.observers.append(watch)
    try:
        for how in ({"probes": ["lens"]}, {"edits": [fl.edits.DropAnchors(1)]}, {"seed": (3,)}):
            fl.trace_many(model, prompts, gen_length=2, steps=2, **how)
    finally:
        model.observers.remove(watch)
    assert set(watch.sizes) == {1}


def test_edits_of_spans_are_shown_each_prompt(tiny_model: Callable[[str], LanguageModel]) -> None:
    """Alone, together, and inside `edit`, where prompts are given in another order than they are decoded in."""
    model = tiny_model("a2d-qwen3")
    prompts = [_prompt(IDS[0], ["question", "doc1", "doc2"], 4), _prompt(IDS[1], ["question", "doc1"], 2)]
    how: dict[str, Any] = {"gen_length": 3, "steps": 2, "probes": ["received"]}
    given = [{"prompt": one} for one in prompts]
    alone = [fl.trace(model, prompt=one, edits=[fl.edits.Boost(gain=5)], **how) for one in prompts]
    for ours, expected in zip(fl.trace_many(model, given, edits=[fl.edits.Boost(gain=5)], **how), alone, strict=True):
        alike(ours, expected)
    with fl.edit(model, fl.edits.Boost(gain=5), prompts=prompts):
        inside = fl.trace_many(model, given, **how)
    for ours, expected, one in zip(inside, alone, prompts, strict=True):
        alike(ours, expected)
        plain = fl.trace(model, prompt=one, **how).data["received"]
        assert float(abs(plain - ours.data["received"]).max()) > 0.01


def test_halves_where_memory_runs_out(
    tiny_model: Callable[[str], LanguageModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, sizes, plain = tiny_model("llama"), [], batches.trace_together

    def limited(model: Any, batch: Any, how: Any) -> Any:
        sizes.append(len(batch))
        if len(batch) > 2:
            raise torch.OutOfMemoryError
        return plain(model, batch, how)

    monkeypatch.setattr(batches, "trace_together", limited)
    found = fl.trace_many(model, [{"prompt_ids": one} for one in IDS], gen_length=1, probes=["received"])
    assert sizes == [4, 2, 2]
    assert [one.data.attrs["decoding"]["prompt_length"] for one in found] == [len(one) for one in IDS]


def test_what_is_wrong_is_one_line(tiny_model: Callable[[str], LanguageModel]) -> None:
    model = tiny_model("llama")
    assert fl.trace_many(model, []) == []
    with pytest.raises(FloatlensError, match="prompt 0: heads is the same for all prompts; give it beside them"):
        fl.trace_many(model, [{"prompt_ids": [5], "heads": "mean"}])
    with pytest.raises(FloatlensError, match="batch=0; give at least 1"):
        fl.trace_many(model, [{"prompt_ids": [5]}], batch=0)
