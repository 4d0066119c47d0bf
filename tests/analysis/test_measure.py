"""Analyses by contribution: the same numbers where the data are the same, and nulls that follow each layer's reach."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from floatlens.analysis import absorption, analyse, anchors, drift, flow, retrieval_heads, token_classes
from floatlens.analysis.kernels import null_share, seen_by, uniform_flow, uniform_mix
from floatlens.analysis.measure import coverage, variable_of
from floatlens.analysis.registry import ANALYSES, with_settings
from floatlens.core.errors import FloatlensError
from shared.synthetic import MASK, build, random_attention
from shared.without_attention import by_contribution

MEASURED = {
    "drift": drift,
    "absorption": absorption,
    "flow": flow,
    "retrieval_heads": retrieval_heads,
    "token_classes": token_classes,
}
REGIONS = ["bos", "question", "doc1", "doc1", "doc2", "doc2", "doc3", "answer", "answer", "answer"]


def drawn(seed=0, layers=3, **more):
    attention = random_attention(seed, 4, layers, 2, 10, causal=False)
    given = {
        "mask_id": MASK,
        "committed": [(7, 0), (8, 1), (9, 2)],
        "regions": REGIONS,
        "gold": 1,
        "evidence": [4, 5],
        "texts": ["<bos>", "Who", "Ann", "built", "Bob", ".", "rain", "Bob", "is", "it"],
        "question": "Who?",
    }
    return build(attention, causal=False, **(given | more))


@pytest.mark.parametrize("name", MEASURED)
@pytest.mark.parametrize("reach", [None, ["all"] * 3, ["mask", "all", "mask"], ["mask", [99, 99], "all"]])
def test_the_same_numbers_give_the_same_results(name, reach):
    trace = drawn()
    by_attention = MEASURED[name](trace)
    found = MEASURED[name](by_contribution(trace, reach), measure="contribution")
    one, other = (result.group().samples for result in (by_attention, found))
    assert set(one.data_vars) == set(other.data_vars)
    for variable in one.data_vars:
        np.testing.assert_allclose(other[variable], one[variable], rtol=1e-9, atol=1e-12, err_msg=str(variable))
    assert found.settings["measure"] == "contribution"
    assert found.provenance["settings"]["measure"] == "contribution"


# -- windows ----------------------------------------------------------------------------------------------------------

WINDOWS = [(0, 0), (1, 1), (2, 0), (0, 3), (50, 50)]


def uniform(present, window):
    """(query, key): uniform over the present keys of the window of a query."""
    size = len(present)
    rows = np.zeros((size, size))
    for i in range(size):
        seen = [j for j in range(max(0, i - window[0]), min(size, i + window[1] + 1)) if present[j]]
        for j in seen:
            rows[i, j] = 1 / len(seen)
    return rows


@pytest.mark.parametrize("window", WINDOWS)
def test_nulls_of_a_window(window):
    present = np.array([1, 1, 1, 0, 1, 1, 1, 1], dtype=bool)
    asking = np.array([0, 1, 1, 0, 0, 1, 0, 1], dtype=bool)
    rows = uniform(present, window)
    wanted = np.where(present, rows[asking].mean(axis=0), 0.0)
    np.testing.assert_allclose(null_share(asking, present, causal=False, window=window), wanted, atol=1e-12)
    count = ((rows > 0) & asking[:, None]).sum(axis=0)
    np.testing.assert_array_equal(seen_by(asking, present, causal=False, window=window), count)
    x = np.random.default_rng(0).normal(size=(8, 3))
    mixed = np.where(present[:, None], rows @ x, 0.0)
    np.testing.assert_allclose(uniform_mix(x, present, causal=False, window=window), mixed, atol=1e-12)
    region_of = np.array([0, 0, 1, 1, 1, 2, 2, 2])
    member = np.eye(3)[region_of] * present[:, None]
    regions = member.T @ rows @ member / member.sum(axis=0)[:, None]
    np.testing.assert_allclose(uniform_flow(region_of, present, 3, causal=False, window=window), regions, atol=1e-12)


def test_each_layer_has_the_null_of_its_reach():
    reach = ["mask", [1, 1], [2, 0]]
    trace = by_contribution(drawn(), reach)
    found = anchors(trace, measure="contribution")
    assert found.null.dims == ("step", "layer", "key")
    here = np.ones(10, dtype=bool)
    for layer, window in enumerate([(99, 99), (1, 1), (2, 0)]):
        np.testing.assert_allclose(found.null.values[:, layer], [uniform(here, window).mean(axis=0)] * 4, atol=1e-12)
    view = absorption(trace, measure="contribution").group().samples["uniform"].sel(view="fixed").values[0]
    np.testing.assert_allclose(view, 100 * found.null.values[:, :, 0].mean(axis=0), atol=1e-9)
    frame = anchors(trace, measure="contribution", rule="top1").to_frame()
    row = frame[frame["layer"] == 2].iloc[0]
    assert row["null"] == pytest.approx(found.null.values[row["step"], 2, row["key"]])


def test_flow_is_divided_by_what_the_reach_of_the_layers_gives():
    reach = ["mask", [1, 1], "all"]
    trace = by_contribution(drawn(), reach)
    found = flow(trace, measure="contribution").group().samples.isel(sample=0)
    here, member = np.ones(10, dtype=bool), np.zeros((10, 7))
    names = list(trace.regions)
    for position, region in enumerate(trace.data["region_of"].values):
        member[position, region] = 1
    mixes = [uniform(here, window) for window in ((99, 99), (1, 1), (99, 99))]
    direct = np.mean([mix[[7, 8, 9]] @ member[:, : len(names)] for mix in mixes], axis=(0, 1))
    through = member[:, : len(names)]
    for mix in mixes:
        through = (mix @ through + through) / 2
    for name, row in (("direct", direct), ("rollout", through[[7, 8, 9]].mean(axis=0))):
        lift = row[names.index("doc2")] / np.mean([row[names.index("doc1")], row[names.index("doc3")]])
        assert float(found[f"{name}_lift_uniform"]) == pytest.approx(lift)


# -- coverage, refusals, words ----------------------------------------------------------------------------------------


def hybrid():
    """Layer 1 has no attention."""
    trace = drawn()
    data = trace.data.copy(deep=True)
    for name, array in data.data_vars.items():
        if "layer" in array.dims and "probe" in trace.data.attrs["variables"].get(name, {}):
            place = tuple(1 if dim == "layer" else slice(None) for dim in array.dims)
            array.values[place] = -1 if array.dtype.kind == "i" else np.nan
    data.attrs["model"] = trace.data.attrs["model"] | {"reach": ["mask", [1, 1], "mask"]}
    return type(trace)(data)


@pytest.mark.parametrize("name", MEASURED)
def test_by_attention_a_hybrid_has_numbers_for_the_layers_that_have_attention(name):
    whole, part = (MEASURED[name](trace).group().samples for trace in (drawn(), hybrid()))
    compared = 0
    for variable in whole.data_vars:
        if "layer" in whole[variable].dims and variable not in ("depth_jaccard_by_layer", "first_strongest_by_layer"):
            one, other = (x[variable].isel(layer=[0, 2]) for x in (whole, part))
            xr.testing.assert_allclose(one, other)
            compared += 1
    assert compared
    assert coverage(hybrid().model) == "layers 0, 2 of 3: the others have no attention"
    assert coverage(drawn().model) == ""


def test_a_hybrid_has_no_rollout_of_attention():
    found = flow(hybrid()).group().samples.isel(sample=0)
    assert np.isfinite(found["direct_lift"])
    assert np.isnan(found["region_rollout"]).all()


def test_a_model_without_attention_is_refused_by_name():
    trace = by_contribution(drawn(), ["all"] * 3)
    for name in MEASURED:
        with pytest.raises(FloatlensError, match=f'synthetic has no attention; give {name} measure="contribution"'):
            MEASURED[name](trace)
    for name in ("qk", "sinks", "extremes"):
        with pytest.raises(FloatlensError, match=f"synthetic has no attention, and {name} is about layers that have"):
            ANALYSES[name](trace)
    skipped = {}
    found = analyse([trace], with_settings(ANALYSES, measure="contribution"), skipped=skipped)
    assert {*MEASURED} <= {*found}
    assert {"qk", "sinks", "extremes"} <= {*skipped}


def test_an_unknown_measure():
    with pytest.raises(FloatlensError, match='measure="contributions"; did you mean "contribution"'):
        drift(drawn(), measure="contributions")
    with pytest.raises(FloatlensError, match="give attention or contribution"):
        with_settings(["drift"], measure="x")


def test_names_of_variables():
    assert variable_of("contribution", "received_masked") == "contribution_masked"
    assert variable_of("attention", "received_masked") == "received_masked"


def test_words_name_the_measure():
    trace = by_contribution(drawn(), None)
    words = absorption(trace, measure="contribution").words
    assert words.variable("absorbed").label == "contribution absorbed"
    assert words.question == "How much contribution do anchors take?"
    assert absorption(drawn()).words.variable("absorbed").label == "attention absorbed"
