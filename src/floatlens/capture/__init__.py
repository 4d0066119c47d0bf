"""Capture: the streamed attention function, the probes that reduce it and the edits that change it."""

from __future__ import annotations

from floatlens.capture.attention import Block
from floatlens.capture.edit import Edit, Site
from floatlens.capture.edits import (
    AblateHeads,
    Change,
    DropAnchors,
    DropRandom,
    FreezeLayers,
    Intervention,
    PinAnchors,
    SinkToken,
    SwapAnchors,
)
from floatlens.capture.probe import Layer, Layout, Mean, Probe, make_probes, probe_names, register
from floatlens.capture.probes import QK, AnswerRows, Entropy, Extremes, Flow, Matrix, Received
from floatlens.capture.recorder import Recorder
from floatlens.capture.select import Select
from floatlens.capture.session import capture
from floatlens.capture.soften import Workspace

__all__ = [
    "QK",
    "AblateHeads",
    "AnswerRows",
    "Block",
    "Change",
    "DropAnchors",
    "DropRandom",
    "Edit",
    "Entropy",
    "Extremes",
    "Flow",
    "FreezeLayers",
    "Intervention",
    "Layer",
    "Layout",
    "Matrix",
    "Mean",
    "PinAnchors",
    "Probe",
    "Received",
    "Recorder",
    "Select",
    "SinkToken",
    "Site",
    "SwapAnchors",
    "Workspace",
    "capture",
    "make_probes",
    "probe_names",
    "register",
]
