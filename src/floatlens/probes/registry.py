"""Probes by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from floatlens.core.errors import FloatlensError
from floatlens.core.registry import Registry

if TYPE_CHECKING:
    from floatlens.attention.probe import Probe
    from floatlens.models.base import Kind

__all__ = ["CONTRIBUTION_PROBES", "DEFAULT_PROBES", "PROBES", "default_probes", "make_probes"]

PROBES: Registry[type[Probe]] = Registry(
    "probe",
    "floatlens.probes",
    {
        "received": "floatlens.probes.received:Received",
        "entropy": "floatlens.probes.entropy:Entropy",
        "flow": "floatlens.probes.flow:Flow",
        "answer_rows": "floatlens.probes.answer_rows:AnswerRows",
        "rollout": "floatlens.probes.rollout:Rollout",
        "qk": "floatlens.probes.qk:QK",
        "extremes": "floatlens.probes.extremes:Extremes",
        "contribution": "floatlens.probes.contribution:Contribution",
        "contribution_rows": "floatlens.probes.contribution_rows:ContributionRows",
        "contribution_rollout": "floatlens.probes.contribution_rows:ContributionRollout",
        "lens": "floatlens.probes.lens:Lens",
        "smoothing": "floatlens.probes.smoothing:Smoothing",
        "cacheability": "floatlens.probes.cacheability:Cacheability",
        "matrix": "floatlens.probes.matrix:Matrix",
    },
)
DEFAULT_PROBES = ("received", "entropy", "flow", "answer_rows", "rollout", "qk", "extremes")
"""What a trace records unless told otherwise: every probe that keeps no (query, key) matrix and no states."""
CONTRIBUTION_PROBES = ("contribution", "contribution_rows", "contribution_rollout")
"""What analyses by contribution read; for a model with attention in every layer they are off by default."""


def default_probes(kind: Kind, attention_layers: int | None) -> tuple[str, ...]:
    """The same for a model with so many layers with attention, None for all: contributions where some have none, and
    alone where none has any. Autoregressive models decode with a cache, in which contributions are not measured."""
    if attention_layers is None or (kind == "arm" and attention_layers):
        return DEFAULT_PROBES
    return (*DEFAULT_PROBES, *CONTRIBUTION_PROBES) if attention_layers else CONTRIBUTION_PROBES


def make_probes(wanted: Sequence[str | Probe]) -> list[Probe]:
    """Probes from names and instances, each name once. Example: `make_probes(["received", QK(heatmaps=Select(0))])`"""
    made: dict[str, Probe] = {}
    for item in wanted:
        probe = PROBES[item]() if isinstance(item, str) else item
        if probe.name in made:
            raise FloatlensError(f'probe "{probe.name}" is given twice; give it once')
        made[probe.name] = probe
    return list(made.values())
