"""The contract between probes and traces: what is declared is written, what is written is declared."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from floatlens.core.errors import FloatlensError
from floatlens.probes import PROBES, make_probes
from floatlens.traces import SCHEMA_VERSION, Trace, schema
from floatlens.traces.schema import ALWAYS, BLOCKS, FORCED, probe_of, validate

SCHEMA = schema()
BY_PROBE = {name: {one.name: one for one in probe.variables} for name, probe in PROBES.items()}

DIMS = {
    "received": "step layer head key",
    "received_masked": "step layer head key",
    "received_committed": "step layer head key",
    "received_answer": "step layer head key",
    "contribution": "step layer head key",
    "contribution_masked": "step layer head key",
    "contribution_committed": "step layer head key",
    "contribution_answer": "step layer head key",
    "contribution_flow": "step layer from_region region",
    "contribution_question_flow": "step layer head region",
    "contribution_argmax": "token layer head",
    "contribution_peak": "token layer head",
    "contribution_evidence": "token layer head",
    "contribution_answer_flow": "token layer region",
    "contribution_rollout": "token layer region",
    "entropy": "step layer head query",
    "flow": "step layer from_region region",
    "question_flow": "step layer head region",
    "answer_argmax": "token layer head",
    "answer_peak": "token layer head",
    "answer_evidence": "token layer head",
    "answer_flow": "token layer region",
    "answer_rollout": "token layer region",
    "lens_rank": "lens_before token layer",
    "lens_logp": "lens_before token layer",
    "lens_peak": "lens_before token layer",
    "state_cosine": "step layer",
    "masked_cosine": "step layer",
    "effective_rank": "step layer",
    "row_distance": "step layer head",
    "key_reuse": "step layer key",
    "value_reuse": "step layer key",
    "state_reuse": "step layer key",
    "top_reuse": "step layer",
    "keys_90": "step layer head",
    "keys_95": "step layer head",
    "keys_99": "step layer head",
    "mass_ahead": "step layer distance",
    "qk_dot": "step layer head key",
    "qk_cos": "step layer head key",
    "qk_norm": "step layer head key",
    "key_norm": "step layer kv_head key",
    "query_norm": "step layer head query",
    "qk_matrix": "qk_matrix_step qk_matrix_layer qk_matrix_head query key",
    "value_norm": "step layer kv_head key",
    "residual_norm": "step layer key",
    "matrix": "matrix_step matrix_layer matrix_head query key",
    "sequence": "step key",
    "final": "key",
    "region_of": "key",
    "evidence": "key",
    "token_position": "token",
    "token_id": "token",
    "token_step": "token",
    "token_row": "token",
    "token_confidence": "token",
    "token_probability": "token",
    "block_of": "step key",
}
"""Written down again on purpose: the schema is a promise to readers of files, so a change must be made twice."""


def test_the_schema_is_what_was_promised() -> None:
    assert SCHEMA_VERSION == 2
    assert {name: " ".join(variable.dims) for name, variable in SCHEMA.items()} == DIMS
    without = {**ALWAYS, **FORCED, **BLOCKS}  # of no probe
    assert set(SCHEMA) == set(without) | {name for table in BY_PROBE.values() for name in table}
    assert sum(map(len, BY_PROBE.values())) + len(without) == len(SCHEMA)  # no name under two probes
    for name, variable in SCHEMA.items():
        assert variable.name == name
        assert variable.meaning
        assert np.dtype(variable.dtype).kind in "bif"


@pytest.mark.parametrize("name", ["llada", "dream", "bert", "qwen2", "gpt2"])
@pytest.mark.parametrize("probe", list(BY_PROBE))
def test_every_probe_provides_what_it_declares_and_nothing_else(
    name: str, probe: str, tiny_model: Callable[[str], Any]
) -> None:
    from floatlens import Select, trace
    from floatlens.probes import QK

    asked = QK(heatmaps=Select()) if probe == "qk" else probe
    data = trace(tiny_model(name), prompt_ids=[5, 9, 12], probes=[asked], gen_length=3).data
    assert {str(n) for n in data.data_vars} == set(ALWAYS) | set(BY_PROBE[probe])
    for variable in data.data_vars:
        assert " ".join(str(d) for d in data[variable].dims) == DIMS[str(variable)]
        assert data[variable].dtype == np.dtype(SCHEMA[str(variable)].dtype)
        assert data[variable].attrs["meaning"] == SCHEMA[str(variable)].meaning


@pytest.mark.parametrize("probe", list(BY_PROBE))
def test_mean_heads_drops_heads_of_steps_only(probe: str, tiny_model: Callable[[str], Any]) -> None:
    from floatlens import trace

    data = trace(tiny_model("llada"), prompt_ids=[5, 9, 12], probes=[probe], gen_length=3, heads="mean").data
    for variable in data.data_vars:
        dims = DIMS[str(variable)].split()
        if dims[0] == "step":
            dims = [dim for dim in dims if dim not in ("head", "kv_head")]
        assert list(data[variable].dims) == dims


def test_probe_layers_hand_over_only_declared_names(
    tiny_model: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `Probe.layer` returns, name by name, with the dims after (step, layer): batch first."""
    import torch

    from floatlens.attention.probe import Mean
    from floatlens.attention.recorder import Recorder
    from shared.capture import capture

    handed: dict[str, dict[str, tuple[int, ...]]] = {}
    take = Recorder.take

    def note(self: Recorder, probe: Any, layer: Any) -> None:
        for name, value in probe.layer(layer).items():
            tensor = value.total if isinstance(value, Mean) else value
            handed.setdefault(probe.name, {})[name] = tuple(tensor.shape)
        take(self, probe, layer)

    monkeypatch.setattr(Recorder, "take", note)
    sizes = {"head": 4, "kv_head": 2, "key": 7, "query": 7, "region": 1, "from_region": 1, "distance": 7}
    with capture(tiny_model("qwen2"), make_probes(list(BY_PROBE)), steps=1, length=7):
        tiny_model("qwen2").forward(torch.arange(10, 24).view(2, 7))
    for probe, found in handed.items():
        assert set(found) <= set(BY_PROBE[probe])
        for name, shape in found.items():
            assert shape == (2, *(sizes[dim] for dim in SCHEMA[name].dims[2:])), name
    per_step = {n for n, v in SCHEMA.items() if v.dims[0] == "step" and n not in {**ALWAYS, **BLOCKS}}
    assert {name for found in handed.values() for name in found} == per_step


def test_a_trace_says_what_is_missing_and_which_probe_brings_it(make_trace: Callable[[str], Trace]) -> None:
    trace = make_trace("few")
    trace.require("entropy", "sequence", "final")
    with pytest.raises(FloatlensError, match=r'holds no "flow"; trace again with the probe "flow" on'):
        trace.require("entropy", "flow")
    with pytest.raises(FloatlensError, match=r'holds no "answer_peak"; trace again with the probe "answer_rows" on'):
        trace.require("answer_peak")
    with pytest.raises(FloatlensError, match='"recieved" is not a variable of traces'):
        trace.require("recieved")
    assert probe_of("key_norm") == "qk"
    with pytest.raises(FloatlensError, match='"final" is not a variable that a probe writes'):
        probe_of("final")


def test_validation_names_the_first_fault(make_trace: Callable[[str], Trace]) -> None:
    good = make_trace("mdm").data
    validate(good, "here")
    faults = {
        r"here: received has dims \('step', 'head', 'layer', 'key'\)": good.assign(
            received=good["received"].transpose("step", "head", "layer", "key")
        ),
        "here: received has type float64, the schema says float32": good.assign(
            received=good["received"].astype("float64")
        ),
        "here: final has type int64": good.assign(final=good["final"].astype("int64")),
        'here: variable "mine" is not in the trace schema': good.assign(mine=good["final"]),
        'here: variable "token_id" is missing': good.drop_vars("token_id"),
        "here: region_of points outside the 4": good.assign(region_of=good["region_of"] + np.int16(9)),
        "here: region_of points outside": good.assign(region_of=good["region_of"] - np.int16(9)),
        "here: token_text has 1 entries for 9 keys": good.assign_attrs(token_text=["a"]),
    }
    for message, data in faults.items():
        data.attrs = {**good.attrs, **data.attrs}
        with pytest.raises(FloatlensError, match=message) as caught:
            validate(data, "here")
        assert "\n" not in str(caught.value)
    with pytest.raises(FloatlensError):
        Trace(good.drop_vars("final"))


def test_properties_and_repr(make_trace: Callable[[str], Trace]) -> None:
    mdm, arm = make_trace("mdm"), make_trace("arm")
    assert mdm.regions == ("bos", "question", "answer", "template")
    assert mdm.model["family"] == "dream"
    assert mdm.tokens == ()
    assert mdm.answer is None
    assert mdm.masked.sum(1)[0] == 4
    assert (mdm.masked == (mdm.data["sequence"].values == mdm.model["mask_id"])).all()
    assert not arm.masked.any()
    assert arm.masked.shape == arm.data["sequence"].shape
    assert "4 steps 3 layers 4 heads 9 keys; answer_rows, entropy, extremes, flow, matrix, qk, received" in repr(mdm)


def test_reading_traces_needs_no_torch(make_trace: Callable[[str], Trace], tmp_path: Any) -> None:
    """In a fresh interpreter: open a trace, look at it, save it; neither torch nor transformers is imported."""
    path = make_trace("mdm").save(tmp_path / "a")
    code = f"""
import sys
import floatlens
trace = floatlens.open_trace({str(path)!r})
assert trace.data.received.shape == (4, 3, 4, 9), trace.data.received.shape
trace.require("flow")
repr(trace)
trace.save({str(tmp_path / "b")!r})
heavy = sorted(set(sys.modules) & {{"torch", "transformers", "numba", "matplotlib"}})
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
