"""Analyses by name: one walk for several, what they need, what they say when a name is wrong, and adding one."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

import floatlens.analysis as room
from floatlens.analysis import ANALYSES, Analysis, Group, Result, absorption, analyse, analysis, drift, flow, qk
from floatlens.core.errors import FloatlensError
from floatlens.traces import Trace
from shared.synthetic import ready


@pytest.fixture
def registry():
    """The registry, as it was again afterwards."""
    before = dict(ANALYSES)
    yield ANALYSES
    ANALYSES.clear()
    ANALYSES.update(before)


@pytest.fixture(scope="module")
def traces():
    return [
        ready(pattern, causal=causal) for pattern, causal in (("fixed", True), ("moving", False), ("moving", False))
    ]


def test_every_public_analysis_is_registered_under_its_name():
    public = {name: getattr(room, name) for name in room.__all__ if isinstance(getattr(room, name), Analysis)}
    assert set(public) <= set(ANALYSES)
    assert {"drift", "absorption", "qk", "extremes", "token_classes", "retrieval_heads", "flow"} <= set(public)
    for name, one in public.items():
        assert one is ANALYSES[name]
        assert one.name == one.__name__ == name
        assert "Example:" in one.__doc__


def test_several_analyses_in_one_walk_give_what_each_gives_alone(traces):
    walked = []

    def stream():
        for trace in traces:
            walked.append(trace.model["ref"])
            yield trace

    found = analyse(stream(), {"drift": {"rule": "top1"}, "absorption": {}, "flow": {}})
    assert walked == ["fixed-arm", "moving-mdm", "moving-mdm"]
    for name, alone in (
        ("drift", drift(traces, rule="top1")),
        ("absorption", absorption(traces)),
        ("flow", flow(traces)),
    ):
        assert [dict(group.keys) for group in found[name]] == [dict(group.keys) for group in alone]
        for one, other in zip(found[name], alone, strict=True):
            xr.testing.assert_identical(one.samples, other.samples)
    assert list(analyse(traces[0], ["flow", "drift"])) == ["flow", "drift"]


def test_traces_are_grouped_by_model(traces):
    found = drift([traces[1], traces[0], traces[2]])
    assert found.models == ("moving-mdm", "fixed-arm")
    assert [group.n for group in found] == [2, 1]
    assert found.n == 3
    assert found.group("fixed-arm").facts["kind"] == "arm"
    assert found.group("fixed-arm").facts["causal"] is True
    assert found.group("moving-mdm").facts["causal"] is False


def test_samples_know_their_data_set():
    """Also where groups are pooled; a trace that does not say has none."""
    named = [ready("moving", causal=False, sample=i, data_set=name) for i, name in enumerate(("nq", None, "trex"))]
    found = analyse(named, ["drift", "flow"])
    assert found["drift"].group().data_sets == ("nq", "", "trex")
    assert found["flow"].pooled("moving-mdm", "gold_lift").data_sets == ("nq", "", "trex")


def test_settings_are_recorded_with_their_defaults(traces):
    assert dict(drift(traces[0]).settings) == {"rule": "zscore(ε=3)", "group": "all"}
    assert dict(absorption(traces[0], group="answer").settings) == {"rule": "top1", "group": "answer"}
    assert dict(analyse(traces[0], {"drift": {"rule": "topk(2)"}})["drift"].settings) == {
        "rule": "topk(k=2)",
        "group": "all",
    }
    with pytest.raises(TypeError, match="rul"):
        drift(traces[0], rul="top1")


def test_an_unknown_analysis_suggests_a_name(traces):
    with pytest.raises(
        FloatlensError, match=r'no analysis "drfit"; did you mean "drift"\?; there are .*absorption'
    ) as caught:
        analyse(traces, ["absorption", "drfit"])
    assert "\n" not in str(caught.value)


def test_an_unknown_analysis_is_refused_before_any_trace_is_read():
    def stream():
        raise AssertionError("a trace was asked for")
        yield

    with pytest.raises(FloatlensError, match="no analysis"):
        analyse(stream(), ["drfit"])


@pytest.mark.parametrize(
    ("run", "missing", "probe"),
    [
        (drift, "received", "received"),
        (flow, "flow", "flow"),
        (qk, "qk_cos", "qk"),
        (room.extremes, "residual_norm", "extremes"),
        (room.retrieval_heads, "answer_argmax", "answer_rows"),
        (room.retrieval_heads, "question_flow", "flow"),
    ],
)
def test_a_missing_variable_names_the_probe_to_switch_on(run, missing, probe, traces):
    without = Trace(traces[0].data.drop_vars(missing))
    with pytest.raises(
        FloatlensError, match=f'fixed-arm holds no "{missing}"; trace again with the probe "{probe}" on'
    ):
        run(without)


def test_a_missing_group_of_queries_names_its_probe_too(traces):
    without = Trace(traces[0].data.drop_vars("received_answer"))
    with pytest.raises(FloatlensError, match='holds no "received_answer"; trace again with the probe "received" on'):
        drift(without, group="answer")


def test_an_analysis_is_one_function_and_one_registration(registry, traces):
    @analysis("peak", requires=("received",))
    def peak(trace, *, times=1.0):
        """The largest share, by layer."""
        share = np.nanmax(trace.data["received"].values.astype(float), axis=(0, 2, 3))
        return xr.Dataset({"peak": (("layer",), times * share)}, coords={"layer": trace.data["layer"].values})

    assert registry["peak"] is peak
    assert peak.__doc__ == "The largest share, by layer."
    found = peak(traces, times=2.0)
    assert isinstance(found, Result)
    assert dict(found.settings) == {"times": 2.0}
    expected = [2 * np.nanmax(trace.data["received"].values, axis=(0, 2, 3)) for trace in traces[1:]]
    assert np.allclose(found.group("moving-mdm").values("peak"), expected)
    assert np.allclose(analyse(traces[0], ["peak"])["peak"].peak.mean, peak(traces[0])["peak"].mean)
    with pytest.raises(FloatlensError, match='holds no "received"'):
        peak(Trace(traces[0].data.drop_vars("received")))


def test_an_analysis_can_say_what_its_samples_are(registry):
    @analysis(
        "count", requires=(), groups=lambda trace: {"model": trace.model["ref"], "causal": trace.data.attrs["causal"]}
    )
    def count(trace):
        return xr.Dataset({"keys": ((), float(trace.data.sizes["key"]))})

    found = count([ready("fixed", causal=causal, ref="one") for causal in (True, False, True)])
    assert [(group.label, group.n) for group in found] == [("one, causal True", 2), ("one, causal False", 1)]
    assert isinstance(found.group(causal=False), Group)
    assert float(found.group(causal=True).estimate("keys").mean) == 30


def test_the_registry_is_clean():
    assert not {"peak", "count"} & set(ANALYSES)
