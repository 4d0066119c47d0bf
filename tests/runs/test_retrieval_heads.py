"""Which heads retrieve, from the copy scores of traces."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from floatlens import analysis
from floatlens.analysis import Group, Result
from floatlens.core.errors import FloatlensError
from floatlens.edits.spec import parse_edit
from floatlens.runs.retrieval_heads import head_scores, heads_for


def test_heads_are_chosen_by_score_and_model() -> None:
    (spec,) = parse_edit("ablate_heads:top=2:mode=mean")
    values = np.array([[0.1, np.nan], [0.9, 0.3]])
    labels = {"layer": [0, 7], "head": [2, 5]}  # as a selection of layers and heads leaves them
    scores = {"m": xr.DataArray(values, dims=("layer", "head"), coords=labels)}
    chosen = heads_for(spec, "m", scores)
    assert dict(chosen.settings) == {"heads": ((7, 2), (7, 5)), "mode": "mean"}
    with pytest.raises(FloatlensError, match="no trace of other, so its retrieval heads are not known"):
        heads_for(spec, "other", scores)
    (drop,) = parse_edit("drop_anchors:k=1")
    assert heads_for(drop, "other", {}) == drop
    (four,) = parse_edit("ablate_heads:top=4")
    with pytest.raises(FloatlensError, match="ablate_heads top=4: 3 heads of m have a copy score, fewer than 4"):
        heads_for(four, "m", scores)


def test_copy_scores_carry_the_numbers_of_layers_and_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    held = xr.Dataset(
        {"copy": (("sample", "layer", "head"), np.full((1, 2, 1), 0.5))}, coords={"layer": [3, 9], "head": [4]}
    )
    result = Result("retrieval_heads", {}, (Group({"model": "m"}, {}, held),))
    monkeypatch.setattr(analysis, "retrieval_heads", lambda files, score: result)
    (found,) = head_scores(["a"]).values()  # type: ignore[list-item]
    assert (found["layer"].values.tolist(), found["head"].values.tolist()) == ([3, 9], [4])
    assert head_scores([]) == {}
