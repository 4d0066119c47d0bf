"""Arrays and words as a page can hold them: attention as logarithmic codes, deflated, base64; words as escaped JSON.

A code stands for a value within half a step of a logarithmic scale, so that small shares are as exact as large ones
(`Codes.error`). The page undoes all of it in page/js/codec.js; nothing here knows of traces.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["FLOOR", "Codes", "as_json", "deflated", "pack", "packed_bits", "planes"]

FLOOR = 1e-6
"""Shares below this are shown as 0."""
_UNDEFINED, _ZERO, _FIRST = 0, 1, 2
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


@dataclass(frozen=True)
class Codes:
    """A scale of `levels` codes for values from 0 to 1: 0 is undefined, 1 is below `FLOOR`, the rest logarithmic."""

    levels: int

    @property
    def error(self) -> float:
        """The largest relative error of a value that is not below the floor."""
        return math.expm1(-math.log(FLOOR) / (self.levels - 1 - _FIRST) / 2)

    def code(self, values: NDArray[Any]) -> NDArray[np.uint16]:
        """Codes of values, shape kept."""
        defined = ~np.isnan(values)
        clipped = np.clip(np.where(defined, values, 0.0), FLOOR, 1.0)
        place = np.log(clipped / FLOOR) / -math.log(FLOOR)  # 0 … 1
        codes = np.rint(_FIRST + place * (self.levels - 1 - _FIRST))
        codes = np.where(np.where(defined, values, 0.0) < FLOOR, _ZERO, codes)
        return np.where(defined, codes, _UNDEFINED).astype(np.uint16)


def planes(codes: NDArray[np.uint16]) -> bytes:
    """Codes (step, …) as differences from step to step, zigzag, high bytes before low ones: they deflate best so."""
    signed = codes.astype(np.int32)
    change = np.diff(signed, axis=0, prepend=np.zeros_like(signed[:1]))
    folded = np.where(change < 0, -2 * change - 1, 2 * change).astype(np.uint16)
    return (folded >> 8).astype(np.uint8).tobytes() + (folded & 255).astype(np.uint8).tobytes()


def packed_bits(flags: NDArray[np.bool_]) -> bytes:
    """Eight flags in a byte, the first in its highest bit."""
    return np.packbits(flags.ravel()).tobytes()


def deflated(content: bytes) -> str:
    """Raw deflate, then base64, which is safe wherever it stands in a page."""
    press = zlib.compressobj(9, zlib.DEFLATED, -15)
    return base64.b64encode(press.compress(content) + press.flush()).decode("ascii")


def pack(header: Mapping[str, Any], arrays: Mapping[str, bytes]) -> str:
    """One text for a header and named arrays: length of the header, header, arrays; deflated."""
    places: dict[str, list[int]] = {}
    at = 0
    for name, content in arrays.items():
        places[name] = [at, len(content)]
        at += len(content)
    words = as_json({**header, "arrays": places}).encode("ascii")
    return deflated(len(words).to_bytes(4, "little") + words + b"".join(arrays.values()))


def as_json(value: Any) -> str:
    """JSON in ASCII that no parser of HTML can take for markup; NaN and infinities are null.

    Lone surrogates, NUL and line separators become escapes, so what is shown is what was in the data.
    """
    text = json.dumps(_plain(value), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for sign, escape in _ESCAPES.items():
        text = text.replace(sign, escape)
    return text


def _plain(value: Any) -> Any:
    """Only what JSON knows."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return str(value)
