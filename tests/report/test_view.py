"""A trace in the page equals the trace: read back by code that shares nothing with the packing."""

from __future__ import annotations

import base64
import json
import math
import zlib
from typing import Any

import numpy as np
import pytest

from floatlens.analysis.anchor_map import ABSENT, MASK, OTHER, TOKEN
from floatlens.report.detail import LADDER, Detail
from floatlens.report.view import LONGEST, packed_trace
from floatlens.traces import Trace
from shared.reported import MODELS, make_trace
from shared.synthetic import PROMPT, anchor_at


def unpacked(packed: str) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
    """Header and arrays: shares (step, group, 1 + layer, key), null (step, group, key), anchors, state (step, key)."""
    whole = zlib.decompress(base64.b64decode(packed), -15)
    length = int.from_bytes(whole[:4], "little")
    header = json.loads(whole[4 : 4 + length])
    raw = {k: np.frombuffer(whole[4 + length :][at : at + n], np.uint8) for k, (at, n) in header["arrays"].items()}
    steps, groups, keys = len(header["steps"]), len(header["groups"]), len(header["ids"])
    shape = (steps, groups, len(header["layers"]) + 1, keys)
    count = math.prod(shape)
    arrays = {"state": raw["state"].reshape(steps, keys)}
    arrays["anchors"] = np.unpackbits(raw["anchors"])[:count].reshape(shape).astype(bool)
    for name, dims in (("share", shape), ("null", (steps, groups, keys))):
        high, low = raw[name].astype(int).reshape(2, -1)
        folded = 256 * high + low
        change = np.where(folded % 2, -(folded + 1) // 2, folded // 2).reshape(dims)
        codes = np.cumsum(change, axis=0)
        values = 1e-6 ** (1 - (codes - 2) / (header["levels"] - 3))
        arrays[name] = np.where(codes == 0, np.nan, np.where(codes == 1, 0.0, values))
    return header, arrays


@pytest.mark.parametrize("name", MODELS)
def test_shares_are_those_of_the_trace(name: str) -> None:
    trace = make_trace(name, 0)
    header, arrays = unpacked(packed_trace(trace, LADDER[0], "zscore"))
    for place, group in enumerate(header["groups"]):
        variable = "received" if group == "all" else f"received_{group}"
        expected = trace.data[variable].values.astype(np.float64).mean(axis=2)  # heads
        expected = np.concatenate([expected.mean(axis=1, keepdims=True), expected], axis=1)
        expected = np.where((trace.data["sequence"].values >= 0)[:, None], expected, np.nan)
        np.testing.assert_allclose(arrays["share"][:, place], expected, rtol=0.0018, atol=1e-6)


def test_coarse_shares_are_within_their_error() -> None:
    trace = make_trace("mdm", 1)
    _, fine = unpacked(packed_trace(trace, LADDER[0], "zscore"))
    _, coarse = unpacked(packed_trace(trace, LADDER[1], "zscore"))
    np.testing.assert_allclose(coarse["share"], fine["share"], rtol=0.031)


@pytest.mark.parametrize("name", MODELS)
def test_anchors_are_where_the_trace_has_them(name: str) -> None:
    pattern, _ = MODELS[name]
    _, arrays = unpacked(packed_trace(make_trace(name, 0), LADDER[0], "zscore"))
    for step in range(8):
        for row in range(4):
            assert np.flatnonzero(arrays["anchors"][step, 0, row]).tolist() == [anchor_at(pattern, step)]


def test_uniform_attention_is_one_share_each_without_a_causal_mask() -> None:
    _, arrays = unpacked(packed_trace(make_trace("mdm", 0), LADDER[0], "zscore"))
    np.testing.assert_allclose(arrays["null"][:, 0], 1 / 30, rtol=0.0018)


def test_masks_tokens_and_what_is_not_there_yet() -> None:
    for name, unwritten in (("mdm", MASK), ("arm", ABSENT)):
        header, arrays = unpacked(packed_trace(make_trace(name, 0), LADDER[0], "zscore"))
        for step in range(8):
            assert (arrays["state"][step, : PROMPT + step] == TOKEN).all()
            assert (arrays["state"][step, PROMPT + step :] == unwritten).all()
        assert [row[:2] for row in header["committed"]] == [[PROMPT + step, step] for step in range(8)]


def test_a_token_that_was_changed_later_is_shown_by_its_id() -> None:
    data = make_trace("mdm", 0).data.copy(deep=True)
    data["sequence"][2, 5] = 77
    header, arrays = unpacked(packed_trace(Trace(data), LADDER[0], "zscore"))
    assert arrays["state"][2, 5] == OTHER
    assert header["other"] == [[2, 5, 77]]


def test_an_autoregressive_model_has_no_masked_queries_and_one_copy_of_the_rest() -> None:
    header, _ = unpacked(packed_trace(make_trace("arm", 0), LADDER[0], "zscore"))
    assert header["groups"] == ["all", "answer"]
    assert header["same"] == {"committed": "all"}


def test_less_detail_keeps_the_ends_and_the_mean_of_all_layers() -> None:
    trace = make_trace("mdm", 0)
    header, arrays = unpacked(packed_trace(trace, Detail(groups=("all",), layers=2, steps=3), "zscore"))
    assert (header["steps"], header["of_steps"]) == ([0, 4, 7], 8)
    assert (header["layers"], header["of_layers"]) == ([0, 2], 3)
    mean = trace.data["received"].values.mean(axis=(1, 2))[[0, 4, 7]]
    np.testing.assert_allclose(arrays["share"][:, 0, 0], mean, rtol=0.0018)


def test_long_tokens_are_cut_and_their_length_is_told() -> None:
    data = make_trace("mdm", 0).data.copy()
    texts = list(data.attrs["token_text"])
    texts[6] = "x" * 100_000
    data.attrs = {**data.attrs, "token_text": texts}
    packed = packed_trace(Trace(data), LADDER[0], "zscore")
    header, _ = unpacked(packed)
    assert header["tokens"][6] == "x" * LONGEST
    assert header["long"] == {"6": 100_000}


def test_a_trace_without_attention_still_shows_its_words() -> None:
    data = make_trace("mdm", 0).data
    data = data.drop_vars([name for name in data.data_vars if str(name).startswith("received")])
    packed = packed_trace(Trace(data), LADDER[0], "zscore")
    whole = zlib.decompress(base64.b64decode(packed), -15)
    header = json.loads(whole[4 : 4 + int.from_bytes(whole[:4], "little")])
    assert header["groups"] == []
    assert header["tokens"][0] == "<bos>"
