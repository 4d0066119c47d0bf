"""Traces: the schema, the store, and the object that holds one. Reading imports no torch."""

from __future__ import annotations

from floatlens.traces.schema import SCHEMA_VERSION, schema
from floatlens.traces.trace import Trace, open_trace

__all__ = ["SCHEMA_VERSION", "Trace", "open_trace", "schema"]
