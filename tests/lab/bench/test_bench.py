"""The benchmark measures the same work in every variant, and reports what it measured. No test looks at a clock."""

from __future__ import annotations

import json

import pytest
import torch

from floatlens.core.errors import FloatlensError
from floatlens_lab.bench import (
    ContributionMeasured,
    ContributionPlan,
    DigestPlan,
    DigestsMeasured,
    EditPlan,
    EditsMeasured,
    Measured,
    Plan,
    as_markdown,
    contribution_as_markdown,
    digests_as_markdown,
    edits_as_markdown,
    run,
    run_contribution,
    run_digests,
    run_edits,
    save,
    save_contribution,
    save_digests,
    save_edits,
)
from floatlens_lab.bench.edits import EDITS
from floatlens_lab.bench.report import edit_rows, rows
from floatlens_lab.bench.subject import GENERATED, VARIANTS, captured, make_model, make_prompt


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


def test_an_edit_is_measured_beside_the_capture_it_edits(tmp_path):
    """Both models, every edit; the ratio of one round each, and the table that is saved."""
    lines: list[str] = []
    found = run_edits(EditPlan((64,), rounds=1, most_passes=2), lines.append)
    assert [(m.kind, m.length, m.passes) for m in found] == [("mdm", 64, 2), ("arm", 64, 2)]
    assert len(lines) == 2
    for measured in found:
        assert list(measured.later) == ["captured", *EDITS]
        assert all(len(seconds) == 1 for seconds in (*measured.first.values(), *measured.later.values()))
    assert [row[0] for row in edit_rows(found)] == list(EDITS)
    table, numbers = save_edits(found, tmp_path / "new")
    assert (table.name, numbers.name) == ("edits.md", "edits.json")
    assert edits_as_markdown(found) in table.read_text()
    assert json.loads(numbers.read_text())[1]["kind"] == "arm"


def test_what_an_edit_costs_is_a_ratio_of_one_round():
    first, later = {"captured": [8.0, 2.0], "pin": [10.0, 2.0]}, {"captured": [2.0, 2.0], "pin": [4.0, 3.0]}
    mdm, arm = (EditsMeasured(kind, 512, 4, first, later) for kind in ("mdm", "arm"))
    assert mdm.ratio("pin") == (1.75, 1.5, 2.0)
    assert arm.ratio("pin") == (1.325, 1.25, 1.4)
    assert arm.per_token("pin") == 1.75
    assert edit_rows([mdm, arm]) == [("pin", "**1.75 (1.50–2.00)**", "**1.32 (1.25–1.40); 1.75**")]
    assert "0 of 2 are at most 1.3 ×" in edits_as_markdown([mdm, arm])


def test_edits_of_the_benchmark_do_something():
    """Each is at work in the decode that is timed, on both models; nothing is timed that was left out."""
    for kind in ("mdm", "arm"):
        model, prompt = make_model(64, kind), make_prompt(64)
        for name, make in EDITS.items():
            edit = make()
            ids, took = captured(model, prompt, 2, [edit])
            assert len(took) == 2, name
            assert sum(change.mass for change in edit.report()) > 0, (kind, name)
            assert torch.equal(ids[0, : len(prompt)], prompt)


def test_the_cost_of_digests_is_a_share_of_the_trace_without_them():
    measured = DigestsMeasured(512, 8, 2**20, [1.01, 2.0], [0.01, 0.0], [0.01, 0.1])
    assert measured.ratio() == pytest.approx((0.035, 0.02, 0.05))
    assert "**3.50% (2.00%–5.00%)**" in digests_as_markdown([measured])
    assert "| 512 | 8 | 1.0 MiB | 1.50 | 5.0 | 55.0 |" in digests_as_markdown([measured])


def test_digests_are_measured_and_saved(tmp_path):
    lines: list[str] = []
    results = run_digests(DigestPlan((64,), rounds=2, most_steps=2), lines.append)
    assert len(lines) == 2
    assert [len(part) for part in (results[0].traced, results[0].written, results[0].checked)] == [2, 2, 2]
    assert results[0].size > 1000
    table, numbers = save_digests(results, tmp_path)
    assert table.read_text().startswith("# Cost of digests")
    assert json.loads(numbers.read_text())[0]["length"] == 64
    with pytest.raises(FloatlensError, match="lengths start at 64"):
        DigestPlan((32,))


def test_the_cost_of_contributions_is_a_ratio_of_rounds():
    measured = ContributionMeasured(512, 8, [0.1, 0.2, 0.1], [0.11, 0.21, 0.2], [1.5, 2.0, 9.0], 3 * 2**20)
    assert measured.ratio() == pytest.approx((1.1, 1.05, 2.0))
    assert "| 512 | 8 | 100 | 200 | 1.10 (1.05–2.00) | 2.00 | 3 MiB |" in contribution_as_markdown([measured])


def test_contributions_are_measured_and_saved(tmp_path):
    lines: list[str] = []
    results = run_contribution(ContributionPlan((64,), rounds=2, memory=False, most_steps=2), lines.append)
    assert len(lines) == 2
    assert [len(part) for part in (results[0].without, results[0].with_it, results[0].mamba)] == [2, 2, 2]
    table, numbers = save_contribution(results, tmp_path)
    assert table.read_text().startswith("# Cost of contributions")
    assert json.loads(numbers.read_text())[0]["length"] == 64
    with pytest.raises(FloatlensError, match="lengths start at 64"):
        ContributionPlan((32,))
