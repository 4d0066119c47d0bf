"""Capture: the streamed attention function, the probes that reduce it and the edits that change it."""

from __future__ import annotations

from floatlens.capture.attention import Block
from floatlens.capture.edit import Edit, Site
from floatlens.capture.probe import Layer, Layout, Mean, Probe, make_probes, probe_names, register
from floatlens.capture.probes import QK, AnswerRows, Entropy, Extremes, Flow, Matrix, Received
from floatlens.capture.recorder import Recorder
from floatlens.capture.select import Select
from floatlens.capture.session import capture
from floatlens.capture.soften import Workspace

__all__ = [
    "QK",
    "AnswerRows",
    "Block",
    "Edit",
    "Entropy",
    "Extremes",
    "Flow",
    "Layer",
    "Layout",
    "Matrix",
    "Mean",
    "Probe",
    "Received",
    "Recorder",
    "Select",
    "Site",
    "Workspace",
    "capture",
    "make_probes",
    "probe_names",
    "register",
]
