"""Codes, packing and escaping: what goes into a page comes out again, and nothing of it can act."""

from __future__ import annotations

import base64
import json
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from floatlens.report.codec import FLOOR, Codes, as_json, deflated, pack, packed_bits, planes

HOSTILE = "</script><script>canary()</script><!-- & \u2028\u2029 \x00 \ud800 \"' \u202e\u200b"


def decoded(codes: np.ndarray, levels: int) -> np.ndarray:
    """What the page makes of codes; the same arithmetic as `valuesOf` in codec.js."""
    values = FLOOR ** (1 - (codes.astype(float) - 2) / (levels - 3))
    return np.where(codes == 0, np.nan, np.where(codes == 1, 0.0, values))


@pytest.mark.parametrize("levels", [4096, 256])
@given(st.floats(FLOOR, 1.0))
def test_a_value_comes_back_within_the_stated_error(levels: int, value: float) -> None:
    codes = Codes(levels)
    back = float(decoded(codes.code(np.array([value])), levels)[0])
    assert abs(back / value - 1) <= codes.error * (1 + 1e-9)


def test_the_stated_errors() -> None:
    assert Codes(4096).error == pytest.approx(0.0017, abs=1e-4)
    assert Codes(256).error == pytest.approx(0.0277, abs=1e-4)


def test_undefined_zero_and_too_small_values() -> None:
    codes = Codes(4096)
    back = decoded(codes.code(np.array([np.nan, 0.0, FLOOR / 2, FLOOR, 1.0, 1.0000001])), 4096)
    assert np.isnan(back[0])
    np.testing.assert_allclose(back[1:], [0, 0, FLOOR, 1, 1])


@given(st.lists(st.lists(st.integers(0, 4095), min_size=3, max_size=3), min_size=1, max_size=5))
def test_planes_hold_the_differences_from_step_to_step(rows: list[list[int]]) -> None:
    codes = np.array(rows, dtype=np.uint16)
    content = planes(codes)
    half = len(content) // 2
    folded = [256 * content[i] + content[half + i] for i in range(half)]
    change = [-(one + 1) // 2 if one % 2 else one // 2 for one in folded]
    found = np.cumsum(np.array(change).reshape(codes.shape), axis=0)
    assert (found == codes).all()


def test_bits() -> None:
    assert packed_bits(np.array([[True, False, False], [False, True, False]])) == bytes([0b10001000])


def test_pack_puts_length_header_and_arrays_one_after_the_other() -> None:
    whole = zlib.decompress(base64.b64decode(pack({"a": HOSTILE}, {"x": b"123", "y": b"45"})), -15)
    length = int.from_bytes(whole[:4], "little")
    header = json.loads(whole[4 : 4 + length])
    assert header == {"a": HOSTILE, "arrays": {"x": [0, 3], "y": [3, 2]}}
    assert whole[4 + length :] == b"12345"


def test_deflated_is_harmless_in_a_page() -> None:
    assert set(deflated(HOSTILE.encode("utf-8", "surrogatepass") * 50)) <= set(map(chr, range(43, 123)))


@given(st.text(alphabet=st.characters(codec=None)))  # lone surrogates too
def test_json_keeps_every_text_and_shows_no_markup(text: str) -> None:
    made = as_json({"text": text})
    assert json.loads(made)["text"] == text
    assert made.isascii()
    assert not set(made) & set("<>&\x00")


def test_json_of_what_json_does_not_know() -> None:
    given = {"nan": float("nan"), "inf": np.float64("inf"), "array": np.arange(2), "n": np.int64(3), 4: (True, None)}
    found = json.loads(as_json(given))
    assert found == {"nan": None, "inf": None, "array": [0, 1], "n": 3, "4": [True, None]}
