"""`floatlens run` and `floatlens demo`: a whole study from one file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from floatlens.cli.commands import flag, option
from floatlens.cli.options import MachineOptions, OutputOptions
from floatlens.cli.studies import run_study
from floatlens.core.errors import FloatlensError

__all__ = ["demo", "run"]


def run(
    context: typer.Context,
    study: Annotated[Path | None, typer.Argument(metavar="STUDY", help="A YAML file.", show_default=False)] = None,
    out: Annotated[
        Path | None, option("Run folder.", metavar="FOLDER", default="from the study, else runs/NAME")
    ] = None,
    schema: Annotated[bool, flag("Print the JSON schema of a study, for editors, and stop.", "--schema")] = False,
    *,
    output: OutputOptions,
    machine: MachineOptions,
) -> None:
    """Run a study from a YAML file.

    Models, data, conditions and traces are set in the file (docs/studies.md). The run folder gets records, traces,
    tables, figures, claims and report.html. Running the same command again continues where it stopped.
    """
    if schema:
        from floatlens.runs.study_file import schema as json_schema

        sys.stdout.write(json_schema() + "\n")
        return
    if study is None:
        raise FloatlensError("give a study, such as: floatlens run study.yaml (docs/studies.md shows one)")
    raise typer.Exit(run_study(study, out, context, output, machine))


def demo(
    context: typer.Context,
    out: Annotated[Path, option("Run folder.", metavar="FOLDER")] = Path("runs/demo"),
    show: Annotated[bool, flag("Print the study, as a start for your own, and stop.", "--show")] = False,
    *,
    output: OutputOptions,
    machine: MachineOptions,
) -> None:
    """Run the bundled study on the four small bundled models.

    It takes minutes on two cores and downloads nothing: questions with and without documents, noise and position of
    the gold document, anchors removed, and traces for drift, absorption, q·k, retrieval heads and region flow. The
    numbers are printed, and the report is OUT/report.html.
    """
    from importlib import resources

    file = resources.files("floatlens.runs") / "demo.yaml"
    if show:
        sys.stdout.write(file.read_text(encoding="utf-8"))
        return
    with resources.as_file(file) as path:
        raise typer.Exit(run_study(path, out, context, output, machine))
