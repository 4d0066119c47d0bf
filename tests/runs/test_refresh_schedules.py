"""Refresh schedules from traces: an edit gets that of its model, and a study without such traces is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xarray as xr

from floatlens import analysis
from floatlens.analysis import Group, Result
from floatlens.core.errors import FloatlensError
from floatlens.edits.spec import parse_edit
from floatlens.runs.plan import make_plan
from floatlens.runs.refresh_schedules import key_drifts, schedule_for
from floatlens.runs.study_file import read_study
from floatlens.runs.told import Told


def drifts(model: str = "m") -> dict[str, Group]:
    """Known keys turn by 0, 5 and 90 degrees per step, over 8 steps."""
    held = xr.Dataset(
        {"turn": (("sample", "layer"), np.array([[0.0, 5.0, 90.0]])), "steps": (("sample",), [8.0])},
        coords={"layer": [0, 1, 2]},
    )
    return {model: Group({"model": model}, {}, held)}


def test_the_edit_gets_the_schedule_of_its_model() -> None:
    (spec,) = parse_edit("stale:least=0.9:tokens=prompt")
    found = schedule_for(spec, "m", drifts())
    assert dict(found.settings) == {"schedule": "0/8+1/4+2/1", "tokens": "prompt"}  # arccos(0.9) = 25.8 = 5 × 5.2
    random = schedule_for(spec.with_control(3, "count"), "m", drifts())
    assert (random.control, random.seed, dict(random.settings)) == ("count", 3, dict(found.settings))
    assert not found.waits_for_traces
    with pytest.raises(FloatlensError, match="no trace of other, so how its keys turn is not known"):
        schedule_for(spec, "other", drifts())


def test_what_traces_tell_goes_to_the_edit_that_needs_it() -> None:
    heads = {"m": xr.DataArray(np.array([[0.1, 0.9]]), dims=("layer", "head"), coords={"layer": [0], "head": [0, 1]})}
    told = Told(heads, drifts())
    (stale,), (ablate,), (drop,) = (
        parse_edit(text) for text in ("stale:least=0.9", "ablate_heads:top=1", "drop_anchors")
    )
    assert dict(told.settled(stale, "m").settings) == {"schedule": "0/8+1/4+2/1"}
    assert dict(told.settled(ablate, "m").settings)["heads"] == ((0, 1),)
    assert told.settled(drop, "m") == drop


def test_drifts_are_by_model(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Result("cacheability", {}, tuple(drifts("a").values()) + tuple(drifts("b").values()))
    monkeypatch.setattr(analysis, "cacheability", lambda files: made)
    assert list(key_drifts(["x"])) == ["a", "b"]  # type: ignore[list-item]
    assert key_drifts([]) == {}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"traces": {"questions": 0}}, "and it has none; use floatlens cache, set traces.questions, or write"),
        ({"traces": {"questions": 1}}, "need the probe cacheability; add it to traces.probes, or write the schedule"),
        ({"models": ["scale:llama"]}, "scale:llama is autoregressive, so its key/value cache is exact"),
        ({"conditions": ["stale:schedule=8/2"]}, "layer 8 is outside 0..7"),
    ],
)
def test_a_study_that_cannot_tell_is_refused(changes: dict[str, Any], message: str) -> None:
    study = {"models": ["scale:llada"], "data": [{"ref": "scale:rag:documents=2", "limit": 1}]}
    study |= {"conditions": ["stale:least=0.9"], "traces": {"questions": 1, "probes": ["received", "cacheability"]}}
    with pytest.raises(FloatlensError) as caught:
        make_plan(read_study(study | changes))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
