"""The benchmark measures the same work in every variant, and reports what it measured. No test looks at a clock."""

from __future__ import annotations

import json

import pytest
import torch

from floatlens.bench import Measured, Plan, as_markdown, run, save
from floatlens.bench.report import rows
from floatlens.bench.subject import GENERATED, VARIANTS, make_model, make_prompt
from floatlens.errors import FloatlensError


@pytest.fixture(scope="module")
def finished():
    model, prompt = make_model(96), make_prompt(96)
    return {name: decode(model, prompt, 4) for name, decode in VARIANTS.items()}, prompt


def test_all_variants_write_the_same_tokens(finished):
    sequences, prompt = finished
    for name, ids in sequences.items():
        assert ids.shape == (1, 96), name
        assert torch.equal(ids, sequences["plain"]), name
        assert torch.equal(ids[0, : len(prompt)], prompt), name
    assert (sequences["plain"][0, -GENERATED:] != 4095).all()


def test_eager_leaves_the_model_on_sdpa():
    model = make_model(64)
    VARIANTS["eager"](model, make_prompt(64), 1)
    assert model.module.config._attn_implementation == "sdpa"


def test_ratios_pair_neighbouring_measurements():
    measured = Measured(512, 32, {"plain": [1.0, 2.0, 4.0], "ours": [1.5, 2.0, 2.0]}, {"lean": 10, "ours": 25})
    assert measured.ratio("ours", "plain") == (1.0, 0.5, 1.5)
    assert measured.ratio("ours", "eager") is None
    assert measured.capture_memory() == 15


def test_a_run_is_reported_and_saved(tmp_path):
    lines: list[str] = []
    results = run(Plan((64,), rounds=2, memory=False, most_steps=2), lines.append)
    assert len(lines) == 2
    assert set(results[0].seconds) == {"plain", "ours", "eager"}
    assert all(len(seconds) == 2 for seconds in results[0].seconds.values())
    table, numbers = save(results, tmp_path / "new")
    assert as_markdown(results) in table.read_text()
    assert json.loads(numbers.read_text())[0]["length"] == 64
    assert rows(results)[0][:2] == ("64", "2")


def test_what_cannot_run_says_why():
    measured = Measured(8192, 2, {"plain": [1.0], "ours": [1.1]}, skipped={"eager": "needs about 22 GiB"})
    assert rows([measured])[0][4] == "not run: eager needs about 22 GiB"


@pytest.mark.parametrize("wrong", [{"rounds": 0}, {"lengths": (32,)}])
def test_a_senseless_plan_is_refused(wrong):
    with pytest.raises(FloatlensError, match="lengths start at 64"):
        Plan(**wrong)
