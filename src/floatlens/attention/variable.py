"""`Variable`: the declaration of one array that a probe writes into a trace. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["HEAD_KEY", "HEAD_QUERY", "KV_HEAD_KEY", "Merge", "Variable"]

Merge = Literal["mean", "append", "replace"]

HEAD_KEY = ("step", "layer", "head", "key")
HEAD_QUERY = ("step", "layer", "head", "query")
KV_HEAD_KEY = ("step", "layer", "kv_head", "key")


@dataclass(frozen=True)
class Variable:
    """One array of a trace. Its first dimension says which method of the probe returns it.

    `step` (then `layer`): `Probe.layer` in every pass; `token`: `Probe.deciding_row` for every committed token; others:
    `Probe.finish` after the last pass. `merge` says how a pass over cached keys is combined with the passes before it:
    `mean` adds weighted sums over queries, `append` puts the new queries after the old, `replace` starts anew.

    Example: `Variable("sharpness", ("step", "layer", "head"), "mean", "mean over queries of the largest weight")`
    """

    name: str
    dims: tuple[str, ...]
    merge: Merge
    meaning: str
    dtype: str = "float32"

    def declaration(self, probe: str) -> dict[str, Any]:
        """What a trace file says about the variable, as JSON."""
        return {"probe": probe, "dims": list(self.dims), "dtype": self.dtype, "meaning": self.meaning}
