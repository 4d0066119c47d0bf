"""What stands beside an answer under an edit: absorption with its null, and what was moved by step and layer."""

from __future__ import annotations

import pytest

import floatlens as fl
from floatlens.attention.memory_budget import MemoryBudget
from floatlens.decoding.settings import DecodingConfig
from floatlens.edits.spec import parse_edit
from floatlens.evaluation.answers import AskConfig, Asked
from floatlens.runs import measurement
from floatlens.runs.measurement import measure
from floatlens.subjects.scale import questions

CONFIG = AskConfig(decoding=DecodingConfig(settings={"gen_length": 4, "steps": 2}))
(EXAMPLE,) = questions("rag", 1, documents=2)


@pytest.fixture(scope="module")
def model() -> fl.LanguageModel:
    return fl.load("scale:llada")


def test_absorption_comes_with_its_null_and_what_was_moved_with_its_place(model: fl.LanguageModel) -> None:
    plain = measure(model, Asked(EXAMPLE), CONFIG)
    assert plain.moved is None
    assert "moved" not in plain.values
    for name in ("first position", "strongest key"):
        null = plain.values[name] - plain.values[f"{name}, above uniform"]
        assert 0 < null < 5  # percent of one among some dozens of keys
    edited = measure(model, Asked(EXAMPLE, None, parse_edit("drop_anchors:k=1")[0]), CONFIG)
    assert edited.moved is not None
    assert [(step, layer) for step, layer, _, _ in edited.moved] == [(1, layer) for layer in range(model.num_layers)]
    rows, mass = (sum(change[i] for change in edited.moved) for i in (2, 3))
    assert edited.values["moved"] == pytest.approx(mass / rows, abs=1e-4)


def test_memory_that_runs_out_halves_the_blocks(model: fl.LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    trace, tried = measurement.trace, []

    def tight(*args: object, **named: object) -> object:
        tried.append(named["workspace"].block_bytes)  # type: ignore[attr-defined]
        if tried[-1] > 4 << 20:
            raise MemoryError
        return trace(*args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(measurement, "trace", tight)
    room = MemoryBudget()
    found = measure(model, Asked(EXAMPLE, None, parse_edit("drop_anchors")[0]), CONFIG, room)
    assert tried == [8 << 20, 4 << 20]
    assert found.said == ("out of memory with blocks of 8192 KiB; from now on 4096 KiB",)
    assert room.block_bytes == 4 << 20
    assert found.values["moved"] > 0
