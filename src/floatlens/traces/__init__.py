"""Traces: the schema, the store, and the object that holds one. Imports no torch, so that analysis does not either."""

from __future__ import annotations

from floatlens.traces.schema import SCHEMA, SCHEMA_VERSION, Variable
from floatlens.traces.trace import Trace, open_trace

__all__ = ["SCHEMA", "SCHEMA_VERSION", "Trace", "Variable", "open_trace"]
