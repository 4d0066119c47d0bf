"""Random numbers that depend on their purpose only: not on order, process or Python's `hash`."""

from __future__ import annotations

import hashlib
import json

import numpy as np

__all__ = ["generator"]


def generator(seed: int, *purpose: str) -> np.random.Generator:
    """A generator for one purpose of one question. Example: `generator(0, example.id, "order", "2").permutation(10)`"""
    digest = hashlib.sha256(json.dumps([seed, *purpose]).encode()).digest()
    return np.random.default_rng(np.frombuffer(digest, dtype="<u4"))
