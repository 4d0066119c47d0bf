"""`floatlens run` and `floatlens demo`: a whole study from one file, with its plan, its bar and what came of it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from floatlens.core.errors import FloatlensError

__all__ = ["add_run"]

_RUN = (
    "Run a study: models × data × conditions and traces, then tables, figures, verdicts and report.html.\n\n"
    "STUDY is a YAML file; docs/studies.md shows one. Running the same command again continues where it stopped, "
    "whoever does the work: this process, several, or a Ray cluster."
)
_DEMO = (
    "Run the bundled study on the four scale models and show what came out (minutes, no download).\n\n"
    "Questions with and without documents, noise and places of the gold document, anchors taken away, and traces for "
    "drift, absorption, q·k, retrieval heads and region flow. Ends with the headline numbers and report.html."
)


def _option(help: str, panel: str | None = None) -> Any:
    return typer.Option(help=help, rich_help_panel=panel, show_default=False)


WorkerCount = Annotated[int | None, _option("How many; if not given, what the study says, else as fits.", "Machine")]
ExecutorName = Annotated[
    Literal["local", "ray"] | None, _option("This machine, or Ray, which is an extra (docs/cluster.md).", "Machine")
]
Address = Annotated[str | None, _option("Of a Ray cluster, such as auto or ray://host:10001.", "Machine")]
DryRun = Annotated[bool, typer.Option("--dry-run", metavar="", help="Show the plan and stop.")]
Debug = Annotated[bool, typer.Option("--debug", metavar="", help="Show tracebacks and the warnings of libraries.")]


def add_run(app: typer.Typer) -> None:
    """Put both commands on the command line."""
    app.command(help=_DEMO)(demo)
    app.command(help=_RUN)(run)


def run(
    context: typer.Context,
    study: Annotated[Path | None, typer.Argument(metavar="STUDY", help="A YAML file.", show_default=False)] = None,
    out: Annotated[Path | None, _option("The run folder; if not given, what the study says, else runs/NAME.")] = None,
    dry_run: DryRun = False,
    schema: Annotated[
        bool, typer.Option("--schema", metavar="", help="Print the JSON schema of a study, for editors, and stop.")
    ] = False,
    workers: WorkerCount = None,
    executor: ExecutorName = None,
    address: Address = None,
    debug: Debug = False,
) -> None:
    """See `_RUN`."""
    if schema:
        from floatlens.runs.study_file import schema as json_schema

        sys.stdout.write(json_schema() + "\n")
        return
    if study is None:
        raise FloatlensError("give a study, such as: floatlens run study.yaml (docs/studies.md shows one)")
    from floatlens.cli.study import Request, run_study

    command = ["floatlens", *(context.obj or ())]
    raise typer.Exit(run_study(Request(study, out, dry_run, workers, executor, address, command)))


def demo(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="The run folder.")] = Path("runs/demo"),
    dry_run: DryRun = False,
    workers: WorkerCount = None,
    executor: ExecutorName = None,
    show: Annotated[
        bool, typer.Option("--show", metavar="", help="Print the study itself, to begin one of your own, and stop.")
    ] = False,
    debug: Debug = False,
) -> None:
    """See `_DEMO`."""
    from importlib import resources

    file = resources.files("floatlens.runs") / "demo.yaml"
    if show:
        sys.stdout.write(file.read_text(encoding="utf-8"))
        return
    from floatlens.cli.study import Request, run_study

    command = ["floatlens", *(context.obj or ())]
    with resources.as_file(file) as path:
        raise typer.Exit(run_study(Request(path, out, dry_run, workers, executor, None, command)))
