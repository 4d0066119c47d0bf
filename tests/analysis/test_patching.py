"""Statistics of activation patching, against means worked out from the rule that made the effects."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from floatlens.analysis.headline import headline
from floatlens.analysis.intervals import estimate
from floatlens.analysis.patching import (
    patching_differences,
    patching_effects,
    patching_means,
    patching_tables,
    without_effect,
)
from floatlens.records import open_patching, patching_frame
from shared.patched import KINDS, LAYERS, QUESTIONS, effect, make_patched, patch_record

MDM, ARM = KINDS
COUNTS = {MDM: QUESTIONS, ARM: QUESTIONS - 1}


@pytest.fixture(scope="module")
def frame(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    return open_patching(make_patched(tmp_path_factory.mktemp("runs") / "patched"))


def test_effects_by_layer(frame: pd.DataFrame) -> None:
    found = patching_effects(frame)
    assert len(found) == len(KINDS) * 2 * 2 * len(LAYERS)
    for row in found.itertuples():
        values = [effect(row.what, row.patched, row.layer, q) for q in range(COUNTS[row.model])]
        assert row.effect == pytest.approx(np.mean(values))
        assert row.n == len(values)
        assert row.low < row.effect < row.high
        assert row.kind == KINDS[row.model]
    one = found[(found["model"] == ARM) & (found["what"] == "kv")]
    assert one[one["patched"] == "anchors"]["mass"].tolist() == [0.5, 0.25, 0.25]
    assert one[one["patched"] == "control"]["keys"].tolist() == [9, 5, 4]


def test_differences_are_paired(frame: pd.DataFrame) -> None:
    """The control does a quarter of what anchors do, question by question: the interval is that of three quarters."""
    found = patching_differences(frame)
    one = found[(found["model"] == MDM) & (found["what"] == "residual")].set_index("layer")
    for layer in LAYERS:
        expected = estimate(np.array([0.75 * effect("residual", "anchors", layer, q) for q in range(QUESTIONS)]))
        assert one["difference"][layer] == pytest.approx(float(expected.mean))
        assert one["low"][layer] == pytest.approx(float(expected.low))
        assert one["high"][layer] == pytest.approx(float(expected.high))


def test_means_over_layers(frame: pd.DataFrame) -> None:
    found = patching_means(frame).set_index(["model", "what", "part"])
    for model, count in COUNTS.items():
        questions = [np.mean([effect("kv", "anchors", layer, q) for layer in LAYERS]) for q in range(count)]
        expected = estimate(np.array(questions))
        row = found.loc[model, "kv", "anchors"]
        assert row["effect"] == pytest.approx(float(expected.mean))
        assert (row["low"], row["high"]) == pytest.approx((float(expected.low), float(expected.high)))
        assert found.loc[model, "kv", "control"]["effect"] == pytest.approx(row["effect"] / 4)
        assert found.loc[model, "kv", "difference"]["effect"] == pytest.approx(row["effect"] * 3 / 4)
        assert found.loc[model, "residual", "anchors"]["effect"] == pytest.approx(row["effect"] * 2)


def test_questions_without_an_effect_are_told(frame: pd.DataFrame) -> None:
    assert without_effect(frame) == [(ARM, "people", 1, QUESTIONS)]


def test_nothing_patched_and_nothing_defined() -> None:
    models = {MDM: {"kind": "mdm"}}
    assert patching_tables(patching_frame([], models)) == {}
    lost = patching_tables(patching_frame([patch_record(MDM, 0, defined=False)], models))["patching_mean"]
    assert lost["n"].tolist() == [0] * 6
    assert all(math.isnan(one) for one in lost["effect"])


def test_data_sets_are_apart() -> None:
    models = {MDM: {"kind": "mdm"}}
    records = [patch_record(MDM, 1, data="a"), patch_record(MDM, 2, data="a"), patch_record(MDM, 3, data="b")]
    found = patching_effects(patching_frame(records, models))
    own = found[(found["what"] == "kv") & (found["patched"] == "anchors") & (found["layer"] == 0)].set_index("data")
    assert own["effect"].to_dict() == pytest.approx({"a": 0.015, "b": 0.03})
    assert own["n"].to_dict() == {"a": 2, "b": 1}
    assert math.isnan(own["low"]["b"])


def test_headline_is_the_difference(frame: pd.DataFrame) -> None:
    kv, residual = headline({}, None, list(KINDS), frame)
    assert kv.title == "Effect of patching anchors (kv), people"
    assert kv.section == residual.section == "patch"
    questions = [np.mean([0.75 * effect("kv", "anchors", layer, q) for layer in LAYERS]) for q in range(QUESTIONS)]
    assert float(kv.values[MDM].mean) == pytest.approx(np.mean(questions))
    assert list(kv.values) == list(KINDS)


def test_a_run_gives_its_tables(tmp_path: Path) -> None:
    from floatlens.runs.opened import open_run
    from floatlens.runs.outputs import publish_answers

    run = make_patched(tmp_path / "run")
    publish_answers(run, run, formats=["png"])
    opened = open_run(run)
    assert len(opened.patching) == len(KINDS) * QUESTIONS * 2 * 2 * len(LAYERS)
    assert set(opened.tables) >= {"patching", "patching_difference", "patching_mean"}
    pd.testing.assert_frame_equal(opened.tables["patching"], patching_effects(opened.patching), check_dtype=False)
    assert (run / "figures" / "patching.png").is_file()
