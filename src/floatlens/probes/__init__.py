"""Probes: one file each, with what it reduces and the trace variables it writes.

`PROBES` holds them by name; other packages add theirs through the entry-point group "floatlens.probes". Classes are
imported when they are first used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import lazy_loader

from floatlens.core.errors import FloatlensError
from floatlens.core.registry import Registry

if TYPE_CHECKING:
    from floatlens.attention.probe import Probe
    from floatlens.probes.answer_rows import AnswerRows as AnswerRows
    from floatlens.probes.entropy import Entropy as Entropy
    from floatlens.probes.extremes import Extremes as Extremes
    from floatlens.probes.flow import Flow as Flow
    from floatlens.probes.matrix import Matrix as Matrix
    from floatlens.probes.qk import QK as QK
    from floatlens.probes.received import Received as Received

PROBES: Registry[type[Probe]] = Registry(
    "probe",
    "floatlens.probes",
    {
        "received": "floatlens.probes.received:Received",
        "entropy": "floatlens.probes.entropy:Entropy",
        "flow": "floatlens.probes.flow:Flow",
        "answer_rows": "floatlens.probes.answer_rows:AnswerRows",
        "qk": "floatlens.probes.qk:QK",
        "extremes": "floatlens.probes.extremes:Extremes",
        "matrix": "floatlens.probes.matrix:Matrix",
    },
)
DEFAULT_PROBES = ("received", "entropy", "flow", "answer_rows", "qk", "extremes")
"""What a trace records unless told otherwise: every probe that keeps no (query, key) matrix."""


def make_probes(wanted: Sequence[str | Probe]) -> list[Probe]:
    """Probes from names and instances, each name once. Example: `make_probes(["received", QK(heatmaps=Select(0))])`"""
    made: dict[str, Probe] = {}
    for item in wanted:
        probe = PROBES[item]() if isinstance(item, str) else item
        if probe.name in made:
            raise FloatlensError(f'probe "{probe.name}" is given twice; give it once')
        made[probe.name] = probe
    return list(made.values())


if not TYPE_CHECKING:
    __getattr__, __dir__, _ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "answer_rows": ["AnswerRows"],
            "entropy": ["Entropy"],
            "extremes": ["Extremes"],
            "flow": ["Flow"],
            "matrix": ["Matrix"],
            "qk": ["QK"],
            "received": ["Received"],
        },
    )
__all__ = [
    "DEFAULT_PROBES",
    "PROBES",
    "QK",
    "AnswerRows",
    "Entropy",
    "Extremes",
    "Flow",
    "Matrix",
    "Received",
    "make_probes",
]
