"""Results: by model, sample by sample, as frames, with what they rest on."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from floatlens import __version__
from floatlens.analysis import Estimates, Group, Result, absorption, drift, flow, retrieval_heads
from floatlens.core.errors import FloatlensError
from shared.synthetic import ready, samples


def group_of(model="m", **variables):
    """A group from (dims, values) with the samples first."""
    data = {name: (("sample", *dims), np.asarray(values, dtype=float)) for name, (dims, values) in variables.items()}
    return Group({"model": model}, {}, xr.Dataset(data, coords={"layer": [0, 4]}))


@pytest.fixture(scope="module")
def two():
    """Two models: three samples and two."""
    return absorption([*samples("moving", causal=False, n=3), *samples("fixed", causal=True, n=2)])


def test_estimates_have_one_shape_whatever_the_number_of_models(two):
    one = drift(ready("moving", causal=False))
    assert isinstance(one.slope, Estimates)
    assert isinstance(two.absorbed, Estimates)
    assert one.slope.mean.dims == one["slope"].low.dims == ("model", "queries")
    assert float(one.slope.sel(queries="all")) == float(one["slope"].sel(model="moving-mdm", queries="all").mean) == 2
    assert two.absorbed.mean.dims == ("model", "view", "layer")
    assert two.absorbed.mean["model"].values.tolist() == ["moving-mdm", "fixed-arm"]
    expected = two.group("fixed-arm").estimate("absorbed")
    for part in ("mean", "std", "low", "high", "n"):
        assert np.array_equal(getattr(two["absorbed"].sel(model="fixed-arm"), part), getattr(expected, part)), part


def test_estimates_of_finer_groups_are_found_by_their_conditions():
    found = flow([ready("fixed", causal=False, gold=gold) for gold in (0, 1)]).direct_lift
    assert found.mean.dims == ("group",)
    assert found.mean["gold"].values.tolist() == [1, 2]
    assert found.sel(gold=2).mean.shape == (1,)
    assert found.sel(gold=2).to_frame()[["model", "gold"]].to_numpy().tolist() == [["fixed-mdm", 2]]


def test_models_of_unlike_depth_are_padded():
    found = Result("x", {}, (group_of("a", b=(("layer",), [[1, 2]])), _deep()))
    assert found.b.mean.sel(model="a").values.tolist() == [1, 2, pytest.approx(np.nan, nan_ok=True)]
    assert found.b.mean.sel(model="deep").values.tolist() == [1, 2, 3]
    assert found.data.b.sel(layer=9).values.tolist() == [pytest.approx(np.nan, nan_ok=True), 3]


def _deep():
    data = xr.Dataset({"b": (("sample", "layer"), [[1.0, 2, 3]])}, coords={"layer": [0, 4, 9]})
    return Group({"model": "deep"}, {}, data)


def test_the_samples_are_one_dataset(two):
    assert two.data.sizes == {"sample": 5, "view": 2, "layer": 4}
    assert two.data["model"].values.tolist() == ["moving-mdm"] * 3 + ["fixed-arm"] * 2
    mean = two.data["absorbed"].groupby("model").mean()
    assert np.allclose(mean.sel(model="fixed-arm"), two.group("fixed-arm").estimate("absorbed").mean)
    single = drift(ready("moving", causal=False))
    assert "step" in single.data["track_by_layer"].dims


def test_results_show_themselves_as_tables(two):
    shown = repr(drift(ready("moving", causal=False)))
    assert shown.startswith("drift · Do anchors stay where they are? · rule robust(ε=3.5), measure attention\n")
    assert "moving-mdm" in shown
    assert "slope (queries) " in shown
    assert "steps (queries) " in shown
    assert "8 to 8" in shown
    assert "nan" not in shown
    assert "track_by_layer (queries × step × layer)" in shown
    many = repr(two)
    assert "absorbed (view × layer)" in many
    assert "fixed-arm" in many
    assert max(map(len, many.splitlines())) <= 100
    assert two._repr_html_().count("<table") == 1
    assert repr(Result("x", {}, ())) == "x: no groups"
    assert repr(two.absorbed).splitlines()[0] == "absorbed"
    assert "moving-mdm" in two.absorbed._repr_html_()


def test_the_frame_has_a_row_for_every_group_variable_and_coordinate(two):
    frame = two.to_frame()
    assert list(frame.columns) == ["model", "variable", "view", "layer", "mean", "std", "low", "high", "n"]
    assert len(frame) == 2 * 4 * 2 * 4
    row = frame[
        (frame["model"] == "moving-mdm")
        & (frame["variable"] == "excess")
        & (frame["view"] == "floating")
        & (frame["layer"] == 2)
    ]
    found = two.group("moving-mdm").estimate("excess")
    assert len(row) == 1
    for column in ("mean", "std", "low", "high", "n"):
        assert row[column].item() == getattr(found, column)[1, 2]


def test_variables_of_fewer_dimensions_leave_coordinates_open():
    frame = Result("test", {}, (group_of(a=((), [1, 3]), b=(("layer",), [[1, 2], [3, 4]])),)).to_frame()
    assert frame["variable"].tolist() == ["a", "b", "b"]
    assert frame["mean"].tolist() == [2, 2, 3]
    assert np.isnan(frame["layer"][0])
    assert frame["layer"][1:].tolist() == [0, 4]
    assert frame["std"].tolist() == [pytest.approx(np.sqrt(2))] * 3


def test_a_frame_is_the_callers_own(two):
    frame = two.to_frame()
    frame.loc[:, "mean"] = 0
    assert not (two.to_frame()["mean"] == 0).all()
    assert isinstance(frame, pd.DataFrame)


def test_provenance_says_what_numbers_rest_on(two):
    expected = {
        "analysis": "absorption",
        "settings": {"rule": "top1", "group": "all", "measure": "attention"},
        "questions": {"moving-mdm": 3, "fixed-arm": 2},
        "traces": {"moving-mdm": 3, "fixed-arm": 2},
        "versions": {"python": "3", "floatlens": "synthetic", "analysis": __version__},
    }
    assert two.provenance == expected
    assert json.loads(two.to_frame().attrs["provenance"]) == expected
    assert two.n == 5
    assert two.models == ("moving-mdm", "fixed-arm")


def test_samples_in_which_nothing_is_defined_are_left_out():
    """Two traces with evidence and one without: n is 2, mean and interval are those of the two."""
    good = samples("fixed", causal=False, n=2)
    found = retrieval_heads([*good, ready("fixed", causal=False, sample=2, evidence=())])
    alone = retrieval_heads(good)
    assert found.n == 3
    for name in ("copy", "focus", "mass"):
        assert (found[name].n == 2).all()
        for part in ("mean", "std", "low", "high"):
            assert np.allclose(getattr(found[name], part), getattr(alone[name], part)), (name, part)
    assert (found["qr"].n == 3).all()


def test_intervals_are_the_same_in_two_calls(two):
    again = absorption([*samples("moving", causal=False, n=3), *samples("fixed", causal=True, n=2)])
    assert two.to_frame().equals(again.to_frame())
    for group in two:
        found = group.estimate("absorbed")
        assert (found.low <= found.mean + 1e-12).all()
        assert (found.mean <= found.high + 1e-12).all()


T1 = 12.7062047
"""The 97.5 % quantile of t with one degree of freedom, for two samples; their error is half of what they are apart."""


def test_what_is_counted_are_questions_not_traces():
    """Six traces of two questions, by hand: means 2 and 5, so mean 3.5, error 1.5, n 2."""
    data = xr.Dataset({"a": ("sample", [1.0, 4, 2, 5, 3, 6])}, coords={"question": ("sample", ["one", "two"] * 3)})
    group = Group({"model": "m"}, {}, data)
    assert (group.n, group.traces) == (2, 6)
    found = group.estimate("a")
    assert (float(found.mean), int(found.n)) == (3.5, 2)
    assert (float(found.low), float(found.high)) == pytest.approx((3.5 - 1.5 * T1, 3.5 + 1.5 * T1))
    other = Group({"model": "other"}, {}, data)
    assert Result("x", {}, (group, other)).n == 2


def test_traces_carry_their_question_into_the_result():
    """By its text; a bare prompt by its tokens; a trace that says neither stands for itself."""
    asked = [ready("fixed", causal=True, sample=i, question=f"question {i % 2}") for i in range(4)]
    found = drift(asked).groups[0]
    assert found.questions == ("question 0", "question 1", "question 0", "question 1")
    assert (found.n, found.traces) == (2, 4)
    bare = [ready("fixed", causal=True, sample=i) for i in range(3)]
    assert drift(bare).groups[0].n == 3
    for trace, length in zip(bare, (20, 20, 21), strict=True):
        trace.data.attrs["decoding"] = {**trace.data.attrs["decoding"], "prompt_length": length}
    assert drift(bare).groups[0].n == 2


def test_a_dimension_is_averaged_within_each_sample_first():
    """By hand: heads (1, 3) and (5, NaN) of two samples give 2 and 5."""
    found = group_of(a=(("layer", "head"), [[[1, 3]] * 2, [[5, np.nan]] * 2])).estimate("a", over="head")
    assert found.mean.tolist() == [3.5] * 2
    assert found.high == pytest.approx(np.full(2, 3.5 + 1.5 * T1))
    assert found.n.tolist() == [2, 2]


def test_groups_of_a_model_are_pooled_by_question():
    """Gold at 1 and at 2 of the same two questions: (1 + 3) / 2 and (5 + 7) / 2."""

    def at(gold, model, values):
        coords = {"layer": [4], "question": ("sample", ["one", "two"])}
        data = xr.Dataset({"a": (("sample", "layer"), values), "other": ("sample", [0.0, 0])}, coords=coords)
        return Group({"model": model, "gold": gold}, {"kind": "mdm"}, data)

    result = Result("x", {}, (at(1, "m", [[1.0], [5]]), at(1, "n", [[9.0], [9]]), at(2, "m", [[3.0], [7]])))
    found = result.pooled("m", "a")
    assert (found.n, found.traces, found.model) == (2, 4, "m")
    assert found.coordinate("a", "layer") == [4]
    assert float(found.estimate("a").mean[0]) == 4
    assert float(found.estimate("a").low[0]) == pytest.approx(4 - 2 * T1)


def test_groups_are_found_by_model_and_condition(two):
    assert two.group("fixed-arm").model == "fixed-arm"
    assert [group.model for group in two] == ["moving-mdm", "fixed-arm"]
    with pytest.raises(FloatlensError, match="absorption: 2 groups fit no condition; there are moving-mdm; fixed-arm"):
        two.group()
    with pytest.raises(FloatlensError, match=r"absorption: 0 groups fit \{'model': 'gpt2'\}; there are"):
        two.group("gpt2")
    assert drift(ready("fixed", causal=True)).group().model == "fixed-arm"


def test_unknown_variables_are_refused_with_a_hint(two):
    with pytest.raises(
        FloatlensError, match=r'no variable "absorbd"; did you mean "absorbed"\?; there are absorbed, uniform'
    ):
        two["absorbd"]
    with pytest.raises(AttributeError, match="no attribute 'absorbd'"):
        two.absorbd  # noqa: B018
    with pytest.raises(AttributeError):
        two._nothing  # noqa: B018


def test_values_keep_samples_apart_and_coordinates_their_labels(two):
    group = two.group("moving-mdm")
    assert group.values("absorbed").shape == (3, 2, 4)
    assert group.coordinate("absorbed", "view") == ["fixed", "floating"]
    assert group.coordinate("absorbed", "layer") == [0, 1, 2, 3]
    single = absorption(ready("moving", causal=False, sample=1)).group().values("absorbed")
    assert np.array_equal(group.values("absorbed")[1], single[0])
