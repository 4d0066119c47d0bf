"""The probes that come with floatlens, one file each; importing this package registers them."""

from __future__ import annotations

from floatlens.probes.answer_rows import AnswerRows
from floatlens.probes.entropy import Entropy
from floatlens.probes.extremes import Extremes
from floatlens.probes.flow import Flow
from floatlens.probes.matrix import Matrix
from floatlens.probes.qk import QK
from floatlens.probes.received import Received

__all__ = ["QK", "AnswerRows", "Entropy", "Extremes", "Flow", "Matrix", "Received"]
