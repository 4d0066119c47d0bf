"""Evolution: numbers of hand-made results are put in their places, with intervals over questions and the origin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xarray as xr
from scipy import stats

import floatlens as fl
from floatlens.analysis import ANALYSES, Group, Result, Variable, Words
from floatlens.analysis.courses import with_training
from floatlens.analysis.evolution import PUBLISHED, course_steps, evolution, evolution_frame
from floatlens.core.errors import FloatlensError
from floatlens.traces import Trace
from shared.synthetic import ready

LAYERS, VIEWS = (0, 1, 2), ("fixed", "floating")


def course(name: str, step: int, tokens: int | None = None, origin: str | None = None) -> dict[str, Any]:
    return {"name": name, "step": step, "tokens": tokens, "origin": origin}


def group(model: str, values: Any, at: dict[str, Any] | None = None, kind: str = "mdm", **keys: Any) -> Group:
    """A model whose variable `peak` (sample, view, layer) is given, and `spread` (sample) is its mean."""
    values = np.asarray(values, dtype=float)
    coords = {"view": list(VIEWS), "layer": list(LAYERS), "question": ("sample", [f"q{i}" for i in range(len(values))])}
    data = {"peak": (("sample", "view", "layer"), values), "spread": ("sample", values.mean(axis=(1, 2)))}
    facts = {"kind": kind, "layers": len(LAYERS)} | ({} if at is None else {"course": at})
    return Group({"model": model, **keys}, facts, xr.Dataset(data, coords))


def some(seed: int, samples: int = 4) -> Any:
    return np.random.default_rng(seed).normal(5, 1, (samples, len(VIEWS), len(LAYERS)))


WORDS = Words("Peaks", variables={"peak": Variable("peak", "The peak.", "%")})
BASE, LATE, EARLY, OTHER = some(0), some(1), some(2), some(3)
RESULT = Result(
    "absorption",
    {"rule": "top1"},
    (
        group("base", BASE, kind="arm"),
        group("a, step 25", LATE, course("a", 25, 900, "base")),
        group("a, step 0", EARLY, course("a", 0, 0, "base")),
        group("b, step 7", OTHER, course("b", 7)),
        group("bystander", some(4)),
    ),
    words=WORDS,
)


def test_numbers_are_by_course_step_and_layer() -> None:
    found = evolution(RESULT, "peak", view="floating")
    assert dict(found.data.sizes) == {"course": 2, "training_step": 3, "layer": 3}
    assert found.courses == ("a", "b")
    assert (found.steps("a"), found.steps("b")) == ((0, 25), (7,))
    for name, step, values in (("a", 0, EARLY), ("a", 25, LATE), ("b", 7, OTHER)):
        here = found.data.sel(course=name, training_step=step)
        np.testing.assert_allclose(here["mean"], values[:, 1].mean(axis=0))
        np.testing.assert_allclose(here["std"], values[:, 1].std(axis=0, ddof=1))
        assert (here["n"] == 4).all()
    np.testing.assert_allclose(found.origin["mean"].sel(course="a"), BASE[:, 1].mean(axis=0))
    assert np.isnan(found.origin["mean"].sel(course="b")).all()
    assert np.isnan(found.data["mean"].sel(course="a", training_step=7)).all()
    assert found.data["model"].sel(course="a").values.tolist() == ["a, step 0", "", "a, step 25"]
    assert found.data["kind"].sel(course="a", training_step=0).item() == "mdm"
    assert (found.origin["model"].values.tolist(), found.origin["kind"].values.tolist()) == (["base", ""], ["arm", ""])
    tokens = found.data["tokens"].sel(course="a", training_step=[0, 25]).values
    assert tokens.tolist() == [0.0, 900.0]
    assert np.isnan(found.data["tokens"].sel(course="b", training_step=7))
    assert found.words.axis == "peak (%)"


def test_the_mean_over_layers_is_taken_within_each_trace() -> None:
    """Its interval is that of the questions' means, which no interval of a layer gives."""
    inner = evolution(RESULT, "peak", view="fixed").layer_mean
    assert inner is not None
    means = LATE[:, 0].mean(axis=1)  # by question
    here = inner.data.sel(course="a", training_step=25)
    assert "layer" not in inner.data.dims
    assert float(here["mean"]) == pytest.approx(means.mean())
    # not skewed enough to matter: close to Student's interval
    low, high = stats.t.interval(0.95, 3, means.mean(), means.std(ddof=1) / 2)
    assert float(here["low"]) == pytest.approx(low, abs=0.3 * (high - low))
    assert float(here["low"]) < means.mean() < float(here["high"])


def test_a_variable_without_layers_is_a_line() -> None:
    found = evolution(RESULT, "spread")
    assert found.layer_mean is None
    assert found.data["mean"].dims == ("course", "training_step")
    assert float(found.data["mean"].sel(course="b", training_step=7)) == pytest.approx(OTHER.mean())


def test_traces_of_one_question_count_once() -> None:
    values = np.stack([LATE[0], LATE[0] + 2, LATE[1]])
    twice = group("c, step 1", values, course("c", 1))
    twice = Group(twice.keys, twice.facts, twice.samples.assign_coords(question=("sample", ["q", "q", "r"])))
    found = evolution(Result("absorption", {}, (twice,)), "peak", view="fixed").data.sel(course="c", training_step=1)
    assert (found["n"] == 2).all()
    np.testing.assert_allclose(found["mean"], ((LATE[0] + 1) + LATE[1])[0] / 2)


def test_heads_are_averaged_unless_one_is_given() -> None:
    values = np.random.default_rng(0).random((3, 2, 4))  # (sample, layer, head)
    coords = {"layer": [0, 1], "head": range(4), "question": ("sample", list("abc"))}
    samples = xr.Dataset({"rate": (("sample", "layer", "head"), values)}, coords)
    result = Result("sinks", {}, (Group({"model": "m"}, {"kind": "mdm", "course": course("c", 0)}, samples),))
    mean = evolution(result, "rate").data["mean"].sel(course="c", training_step=0)
    np.testing.assert_allclose(mean, values.mean(axis=(0, 2)))
    one = evolution(result, "rate", head=2).data["mean"].sel(course="c", training_step=0)
    np.testing.assert_allclose(one, values[:, :, 2].mean(axis=0))


def test_conditions_are_chosen_by_label_and_controls_left_out() -> None:
    groups = [group("c, step 1", some(i), course("c", 1), gold=i) for i in (1, 2)]
    shuffled = group("c, step 1, weights shuffled (seed 0)", some(9), course("c", 1), gold=1)
    shuffled = Group(shuffled.keys, {**shuffled.facts, "control": {"of": "c, step 1"}}, shuffled.samples)
    result = Result("absorption", {}, (*groups, shuffled))
    found = evolution(result, "peak", view="fixed", gold=2)
    np.testing.assert_allclose(found.data["mean"].values[0, 0], some(2)[:, 0].mean(axis=0))
    with pytest.raises(FloatlensError, match="c, step 1 has several groups; choose by gold="):
        evolution(result, "peak", view="fixed")
    with pytest.raises(FloatlensError, match="no group fits"):
        evolution(result, "peak", view="fixed", gold=3)


@pytest.mark.parametrize(
    ("variable", "labels", "says"),
    [
        ("peek", {}, 'no variable "peek"; did you mean "peak"'),
        ("peak", {}, "choose one view of peak: view= fixed, floating"),
        ("peak", {"view": "x"}, "view='x'; peak has fixed, floating"),
        ("peak", {"layer": 1}, "peak has no layer to choose; known: view"),
        ("spread", {"view": "fixed"}, "spread has no view to choose"),
    ],
)
def test_a_wrong_choice_is_one_line(variable: str, labels: dict[str, Any], says: str) -> None:
    with pytest.raises(FloatlensError) as error:
        evolution(RESULT, variable, **labels)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_models_without_a_course_have_no_evolution() -> None:
    plain = Result("absorption", {}, (group("base", BASE),))
    with pytest.raises(FloatlensError, match="none of these models is a snapshot of a training course"):
        evolution(plain, "peak", view="fixed")
    assert (course_steps(plain), evolution_frame({"absorption": plain})) == ({}, None)
    assert plain.last_steps() is plain


# -- results ------------------------------------------------------------------------------------------------------


def test_results_have_course_and_step_as_coordinates() -> None:
    found = RESULT["peak"]
    assert found.data["course"].values.tolist() == ["", "a", "a", "b", ""]
    np.testing.assert_array_equal(found.data["training_step"], [np.nan, 25, 0, 7, np.nan])
    np.testing.assert_allclose(found.sel(course="a", training_step=0).mean[0], EARLY.mean(axis=0))
    assert RESULT.data["course"].values.tolist() == [name for name in ["", "a", "a", "b", ""] for _ in range(4)]
    assert "training_step" in RESULT.data.coords
    frame = RESULT.to_frame()
    assert list(frame.columns[:4]) == ["model", "course", "training_step", "variable"]
    assert set(frame[frame["course"] == "a"]["training_step"]) == {0, 25}
    assert frame[frame["model"] == "base"]["training_step"].isna().all()


def test_results_without_courses_are_as_they_were() -> None:
    plain = Result("absorption", {}, (group("base", BASE),))
    assert not {"course", "training_step"} & {*plain.data.coords, *plain["peak"].data.coords, *plain.to_frame()}
    frame = plain.to_frame()
    assert with_training(frame, plain.courses) is frame


def test_the_last_step_stands_for_the_model() -> None:
    assert RESULT.last_steps().models == ("base", "a, step 25", "b, step 7", "bystander")
    assert course_steps(RESULT) == {"a": 2, "b": 1}


# -- tables and traces --------------------------------------------------------------------------------------------


def test_the_table_has_the_origin_first_and_the_mean_over_layers() -> None:
    frame = evolution(RESULT, "peak", view="fixed").to_frame()
    own = frame[frame["course"] == "a"]
    assert len(own) == 3 * (len(LAYERS) + 1)
    first = own[own["training_step"].isna()]
    assert set(first["model"]) == {"base"}
    overall = own[(own["training_step"] == 25) & own["layer"].isna()]
    assert overall["mean"].item() == pytest.approx(LATE[:, 0].mean())
    assert overall["tokens"].item() == 900
    assert set(frame["view"]) == {"fixed"}
    assert "mean over layers" in repr(evolution(RESULT, "peak", view="fixed"))


def snapshots(steps: tuple[int, ...] = (0, 25)) -> list[Trace]:
    """Synthetic traces of a causal base with a fixed sink and of a course whose anchors move."""
    made = [ready("fixed", causal=True, sample=sample) for sample in range(3)]
    for trace in made:
        trace.data.attrs["model"] |= {"ref": "base"}
    for step in steps:
        for sample in range(3):
            trace = ready("moving", causal=False, sample=sample + step)
            trace.data.attrs["model"] |= {"ref": f"twin, step {step}", "course": course("twin", step, None, "base")}
            made.append(trace)
    return made


def test_traces_are_analysed_by_the_analysis_that_has_the_variable() -> None:
    traces = snapshots()
    found = fl.evolution(traces, "absorbed", view="fixed")
    for step in (0, 25):
        alone = fl.absorption([one for one in traces if one.model["ref"] == f"twin, step {step}"])
        mean = found.data["mean"].sel(course="twin", training_step=step)
        np.testing.assert_array_equal(mean, alone.group().estimate("absorbed").mean[0])
    base = fl.absorption(traces[:3]).group().estimate("absorbed")
    np.testing.assert_array_equal(found.origin["mean"].sel(course="twin"), base.mean[0])
    with pytest.raises(FloatlensError, match='"anchors" is a variable of absorption and token_classes; say which'):
        fl.evolution(traces, "anchors")
    with pytest.raises(FloatlensError, match='no analysis has a variable "absorbd"; did you mean "absorbed"'):
        fl.evolution(traces, "absorbd")


def test_what_is_published_exists_in_the_analyses() -> None:
    found = fl.analyse(snapshots(), sorted({name for name, *_ in PUBLISHED}))
    frame = evolution_frame(found)
    assert frame is not None
    assert len(frame.groupby(["analysis", "variable", *frame.columns[2:5]], dropna=False)) == len(PUBLISHED)
    assert {name for name, *_ in PUBLISHED} <= set(ANALYSES)
    assert evolution_frame(fl.analyse(snapshots((5,)), ["absorption"])) is None  # one step is no course to draw
