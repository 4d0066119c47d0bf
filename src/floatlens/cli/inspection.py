"""`floatlens models` and `floatlens show`: a look at checkpoints and traces without running anything."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from floatlens.cli.commands import option
from floatlens.cli.terminal import console
from floatlens.core.errors import FloatlensError

__all__ = ["models", "show"]


def models(
    ref: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help="Hub id, folder, .gguf file or registered name.", show_default=False),
    ] = None,
    family: Annotated[
        str | None, option("Read MODEL as this family.", metavar="NAME", default="from the configuration")
    ] = None,
    revision: Annotated[str | None, option("Revision of a hub repository.", metavar="NAME")] = None,
) -> None:
    """List the model families, or show the configuration of MODEL.

    No weights are read, and nothing but the configuration is downloaded.
    """
    from floatlens.cli.views import compatibility_view, facts_view, pairs

    out = console()
    if ref is not None:
        from floatlens.models.facts import look

        out.print(facts_view(look(ref, family=family, revision=revision)))
        return
    from floatlens.models import registered_names
    from floatlens.models.compatibility import compatibility
    from floatlens.models.plan import VERIFIED

    out.print(compatibility_view(compatibility()))
    out.print()
    out.print(pairs((f"verified: {name}", meaning) for name, meaning in VERIFIED.items()))
    out.print(f"\nregistered names: {', '.join(registered_names()) or 'none'}", soft_wrap=True)


def show(
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="A .zarr.zip file.", show_default=False)],
    step: Annotated[int | None, option("Show attention at step N.", default="the mean over steps")] = None,
    top: Annotated[int | None, option("Name N keys in each layer.", min=1, default="as many as fit")] = None,
) -> None:
    """Show what a trace contains.

    For each layer, the keys that receive the most attention are named.
    """
    if (trace / "manifest.json").is_file():
        first = next(iter(sorted((trace / "traces").rglob("*.zarr.zip"))), None)
        raise FloatlensError(
            f"{trace} is a run folder; give one of its traces" + (f", such as {first}" if first else "")
        )
    from floatlens.cli.views import answer_view, layers_view, trace_view
    from floatlens.traces import open_trace

    opened = open_trace(trace)
    out = console()
    out.print(trace_view(opened, str(trace)))
    out.print()
    out.print(answer_view(opened))
    out.print()
    if "received" in opened.data.variables:
        out.print(layers_view(opened, step=step, top=top, width=out.width))
    else:
        out.print("no received attention: the trace was made without the probe received")
