"""The command line: what users type, what they see, and the lines and exit codes that errors become. No logic."""

from __future__ import annotations

from floatlens.cli.app import app, main

__all__ = ["app", "main"]
