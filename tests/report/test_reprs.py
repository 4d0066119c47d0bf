"""What a notebook or a terminal shows of traces (one line) and results (a table)."""

from __future__ import annotations

import floatlens as fl
from floatlens.traces import Trace
from shared.reported import make_trace


def test_a_result_of_one_model_tells_its_first_numbers() -> None:
    found = fl.drift([make_trace("mdm", sample) for sample in range(3)])
    group = found.group("moving-mdm")
    slope = group.estimated(group.values("slope")[:, 0])
    assert repr(found).startswith("drift · ")
    assert group.estimate("slope").range in repr(found)
    assert repr(slope) == f"Estimate({float(slope.mean):.3g} [{float(slope.low):.3g}, {float(slope.high):.3g}] (n=3))"


def test_a_result_of_several_models_names_them() -> None:
    found = fl.absorption([make_trace("mdm", 0), make_trace("arm", 0)])
    assert repr(found).startswith("absorption · ")
    assert "moving-mdm" in repr(found)
    assert "fixed-arm" in repr(found)
    assert repr(found.groups[0]).startswith("Group(moving-mdm: n=1; ")
    shape = found.groups[0].estimate("absorbed").mean.shape
    assert repr(found.groups[0].estimate("absorbed")).startswith(f"Estimate(shape {shape}, means ")


def test_traces_and_anchors_take_one_short_line() -> None:
    trace = make_trace("mdm", 0)
    data = trace.data.copy()
    data.attrs = {**data.attrs, "decoding": {**data.attrs["decoding"], "answer": "x" * 5000}}
    assert len(repr(Trace(data))) < 250
    assert "xxx…'" in repr(Trace(data))
    assert repr(fl.anchors(trace)).startswith("Anchors(moving-mdm, robust(ε=3.5), all queries: ")
    assert len(repr(fl.anchors(trace))) < 120
