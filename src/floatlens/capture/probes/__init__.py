"""The probes that come with floatlens, one file each; importing this package registers them."""

from __future__ import annotations

from floatlens.capture.probes.answer_rows import AnswerRows
from floatlens.capture.probes.entropy import Entropy
from floatlens.capture.probes.extremes import Extremes
from floatlens.capture.probes.flow import Flow
from floatlens.capture.probes.matrix import Matrix
from floatlens.capture.probes.qk import QK
from floatlens.capture.probes.received import Received

__all__ = ["QK", "AnswerRows", "Entropy", "Extremes", "Flow", "Matrix", "Received"]
