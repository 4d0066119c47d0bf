"""Analyses by name: one walk for several, what they need, what they say when a name is wrong, and adding one."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

import floatlens.analysis as room
from floatlens.analysis import ANALYSES, Analysis, Group, Result, absorption, analyse, analysis, drift, flow, qk
from floatlens.analysis.description import Variable, Words
from floatlens.analysis.registry import with_settings
from floatlens.core.errors import FloatlensError
from floatlens.core.registry import Registry
from floatlens.traces import Trace
from shared.synthetic import ready


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
        assert all(one.words.variables[variable].definition in one.__doc__ for variable in one.words.variables)


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
    assert found["flow"].pooled("moving-mdm", "direct_lift").data_sets == ("nq", "", "trex")


def test_settings_are_recorded_with_their_defaults(traces):
    assert dict(drift(traces[0]).settings) == {"rule": "robust(ε=3.5)", "measure": "attention"}
    assert dict(absorption(traces[0], group="answer").settings) == {
        "rule": "top1",
        "group": "answer",
        "measure": "attention",
    }
    assert dict(analyse(traces[0], {"drift": {"rule": "topk(2)"}})["drift"].settings) == {
        "rule": "topk(k=2)",
        "measure": "attention",
    }
    with pytest.raises(TypeError, match="rul"):
        drift(traces[0], rul="top1")


def test_an_unknown_analysis_suggests_a_name(traces):
    with pytest.raises(FloatlensError, match=r'no analysis "drfit"; did you mean "drift"\?') as caught:
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
        drift(without)


WORDS = Words("Peak", "How large?", variables={"peak": Variable("largest share", "The largest share.", "share")})


@analysis("peak", requires=("received",), words=WORDS)
def peak(trace, *, times=1.0):
    """The largest share, by layer."""
    share = np.nanmax(trace.data["received"].values.astype(float), axis=(0, 2, 3))
    return xr.Dataset({"peak": (("layer",), times * share)}, coords={"layer": trace.data["layer"].values})


def test_an_analysis_is_one_function_with_its_words(traces):
    assert peak.__doc__ == "The largest share, by layer.\n\npeak  The largest share. [share]"
    found = peak(traces, times=2.0)
    assert isinstance(found, Result)
    assert dict(found.settings) == {"times": 2.0}
    assert found.words.variable("peak").axis == "largest share (share)"
    expected = [2 * np.nanmax(trace.data["received"].values, axis=(0, 2, 3)) for trace in traces[1:]]
    assert np.allclose(found.group("moving-mdm").values("peak"), expected)
    with pytest.raises(FloatlensError, match='holds no "received"'):
        peak(Trace(traces[0].data.drop_vars("received")))


def test_an_analysis_that_was_added_works_from_analyse_to_the_tables(traces):
    ANALYSES.add("peak", peak)
    try:
        assert np.allclose(analyse(traces[0], ["peak"])["peak"].peak.mean, peak(traces[0])["peak"].mean)
        everything = analyse(traces, with_settings(ANALYSES, "top1"), skipped={})
        assert dict(everything["peak"].settings) == {"times": 1.0}
        assert everything["drift"].settings["rule"] == "top1"
        assert set(everything["peak"].to_frame()["variable"]) == {"peak"}
    finally:
        ANALYSES.remove("peak")
    assert "peak" not in ANALYSES


def test_an_analysis_of_another_package_comes_by_its_entry_point(traces, tmp_path, monkeypatch):
    """A package with one module, installed as far as importlib sees it."""
    (tmp_path / "sharpness.py").write_text(
        "import numpy as np, xarray as xr\n"
        "from floatlens.analysis import analysis\n"
        "@analysis('sharpness', requires=('received',))\n"
        "def sharpness(trace):\n"
        "    return xr.Dataset({'top': ((), float(np.nanmax(trace.data['received'].values)))})\n"
    )
    info = tmp_path / "sharpness-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sharpness\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[floatlens.analyses]\nsharpness = sharpness:sharpness\n")
    monkeypatch.syspath_prepend(tmp_path)
    fresh = Registry(ANALYSES.what, ANALYSES.group)
    monkeypatch.setattr("floatlens.analysis.registry.ANALYSES", fresh)
    found = analyse(traces[0], ["sharpness"])["sharpness"]
    assert float(found.top) == pytest.approx(float(np.nanmax(traces[0].data["received"].values)))
    assert found.words.title == "Sharpness"
    assert found.to_frame()["variable"].tolist() == ["top"]


def test_every_variable_has_words(traces):
    """A label, and a definition that is one sentence."""
    for name, result in analyse(traces[0], list(ANALYSES)).items():
        words = ANALYSES[name].words
        assert result.words is words
        assert words.title
        assert words.question.endswith("?")
        assert words.reading.endswith(".")
        told = {words.aliases.get(one, one) for one in {*result.variables, *result.to_frame()["variable"]}}
        assert told <= set(words.variables), name
        for one in words.variables.values():
            assert one.label
            assert one.definition.endswith(".")
            assert "\n" not in one.definition


def test_an_analysis_can_say_what_its_samples_are():
    @analysis(
        "count", requires=(), groups=lambda trace: {"model": trace.model["ref"], "causal": trace.data.attrs["causal"]}
    )
    def count(trace):
        return xr.Dataset({"keys": ((), float(trace.data.sizes["key"]))})

    found = count([ready("fixed", causal=causal, ref="one") for causal in (True, False, True)])
    assert [(group.label, group.n) for group in found] == [("one, causal True", 2), ("one, causal False", 1)]
    assert isinstance(found.group(causal=False), Group)
    assert float(found.group(causal=True).estimate("keys").mean) == 30
