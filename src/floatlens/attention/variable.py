"""`Variable`: the declaration of one array that a probe writes into a trace. Imports no torch.

Dimensions: `step` (a recorded forward pass), `layer`, `head`, `kv_head`, `key` and `query` (positions), `region` and
`from_region`, `token` (a committed answer token, in order of commitment). A probe may add dimensions of its own after
these.
"""

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
    """One array of a trace. The first dimension says where it comes from:

    `step` (then `layer`): returned by `Probe.layer` in every pass; `token`: returned by `Probe.deciding_row` for every
    committed token; anything else: returned by `Probe.finish` after the last pass.

    `merge` says how a pass over cached keys is combined with the passes before it, so every step equals a full
    pass: `mean` adds weighted sums over queries, `append` puts the new queries after the old, `replace` starts anew.

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
