"""What the page has to show, worked out from the traces themselves."""

from __future__ import annotations

import numpy as np

from shared.reported import make_trace


def share_of(model: str, sample: int, step: int, key: int, layer: int | None = None) -> float:
    """Received attention from the trace itself, mean over heads (and layers)."""
    received = make_trace(model, sample).data["received"].values.astype(np.float64)
    return float(received[step].mean(axis=(0, 1))[key] if layer is None else received[step, layer].mean(axis=0)[key])


def as_share(text: str) -> float:
    return float(text.removesuffix(" %")) / 100
