"""`floatlens report`: everything the traces of runs show, as one HTML file that needs nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from floatlens.cli.figures import Debug, Rule, Runs
from floatlens.cli.terminal import progress, say

__all__ = ["add_report"]


def add_report(app: typer.Typer) -> None:
    """Put the command on the command line."""
    app.command()(report)


def report(
    runs: Runs,
    out: Annotated[
        Path | None, typer.Option(help="The file; report.html in the first RUN if not given.", show_default=False)
    ] = None,
    examples: Annotated[int, typer.Option(help="Questions in the explorer, at most.", min=1)] = 12,
    rule: Rule = None,
    by_run: Annotated[
        bool,
        typer.Option(
            "--by-run", metavar="", help="Set runs of one model side by side; if not given, their traces are pooled."
        ),
    ] = False,
    largest: Annotated[
        float,
        typer.Option(
            "--max-mb", metavar="MB", help="Keep the file below this size, with less detail if need be.", min=3
        ),
    ] = 15.0,
    debug: Debug = False,
) -> None:
    """Write a report of one or more runs: verdicts, interactive figures with their tables, and the explorer.

    One HTML file that works from disk, offline, on a phone and in print. Several models are compared when their runs
    are given together. Runs of floatlens qa, stress and intervene get sections of their own.
    """
    from floatlens.analysis.sources import trace_files
    from floatlens.report import report as write
    from floatlens.runs.answers import traced_runs

    where = out or (runs[0] if runs[0].is_dir() else runs[0].parent) / "report.html"
    with progress("analysing", sum(len(trace_files(run)) for run in traced_runs(runs))) as bar:
        made = write(
            runs,
            where,
            examples=examples,
            rule=rule,
            by_run=by_run,
            largest=int(largest * 1e6),
            each=lambda done, total: bar.item(),
        )
    for name, reason in made.skipped.items():
        say(f"{name}: left out, {reason}")
    say(f"{made.path} ({made.size / 1e6:.1f} MB); open it in a browser")
