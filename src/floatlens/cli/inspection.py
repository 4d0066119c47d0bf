"""`floatlens models` and `floatlens show`: a look at checkpoints and traces without running anything."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from floatlens.cli.commands import option
from floatlens.cli.terminal import console
from floatlens.core.errors import FloatlensError

if TYPE_CHECKING:
    from floatlens.models.told import Told

__all__ = ["check_model", "list_models", "show", "show_model"]


_Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="Hub id, folder, .gguf file or registered name.", show_default=False)
]
_FamilyName = Annotated[
    str | None, option("Read MODEL as this family.", metavar="NAME", default="from the configuration")
]
_Revision = Annotated[str | None, option("Revision of a hub repository.", metavar="NAME")]


@dataclass(frozen=True)
class ToldOptions:
    """What a checkpoint does not say of itself."""

    attention: Annotated[
        str | None, option("full or block_causal.", metavar="RULE", default="what the checkpoint says")
    ] = None
    block_size: Annotated[int | None, option("Positions per block of block-causal attention.", min=1)] = None
    mask_id: Annotated[int | None, option("Id of the mask token.", min=0)] = None
    model_mode: Annotated[
        str | None,
        option(
            "ar or diffusion, for weights that run in both ways.", "--model-mode", metavar="NAME", default="diffusion"
        ),
    ] = None

    def read(self) -> Told:
        from floatlens.models.told import Told

        return Told(self.attention, self.block_size, self.mask_id, self.model_mode)


def list_models() -> None:
    """List the model families, with the checkpoints each of them reads and how that was verified."""
    from floatlens.cli.views import checkpoints_view, compatibility_view, pairs
    from floatlens.models import registered_names
    from floatlens.models.compatibility import compatibility
    from floatlens.models.plan import VERIFIED

    out = console()
    rows = compatibility()
    out.print(compatibility_view(rows))
    out.print()
    out.print(checkpoints_view(rows))
    out.print()
    out.print(pairs((f"verified: {name}", meaning) for name, meaning in VERIFIED.items()))
    out.print(f"\nregistered names: {', '.join(registered_names()) or 'none'}", soft_wrap=True)


def show_model(ref: _Model, told: ToldOptions, family: _FamilyName = None, revision: _Revision = None) -> None:
    """Show the configuration of MODEL; `floatlens models MODEL` is the same.

    No weights are read, and nothing but the configuration is downloaded.
    """
    from floatlens.cli.views import facts_view
    from floatlens.models.facts import look

    console().print(facts_view(look(ref, family=family, revision=revision, told=told.read())))


def check_model(ref: _Model, told: ToldOptions, family: _FamilyName = None, revision: _Revision = None) -> None:
    """Check whether MODEL will load, as what, and in how much memory.

    Its configuration and the names and shapes in the headers of its weight files are compared with the class that takes
    the weights. No weights are read; of a hub repository, the configuration, the tokenizer and the index are
    downloaded. If something stops it, the command names it and exits with code 2.
    """
    from floatlens.cli.views import requirements_view
    from floatlens.models.requirements import requirements

    console().print(requirements_view(requirements(ref, family=family, revision=revision, told=told.read())))


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
    if {"received", "contribution"} & set(opened.data.variables):
        out.print(layers_view(opened, step=step, top=top, width=out.width))
    else:
        out.print("no received attention: the trace was made without the probe received")
