"""`floatlens intervene`: the same questions plain, with attention edited, and with a random control of every edit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from floatlens.cli.qa import (
    Batch,
    Chat,
    DataRefs,
    Debug,
    Device,
    DeviceMap,
    Dtype,
    FirstLine,
    Format,
    Limit,
    Models,
    Out,
    Sampler,
    Seed,
    Settings,
    SkipBad,
    Template,
    WorkerCount,
)
from floatlens.cli.terminal import clean, console, say

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = ["add_intervene"]

_HELP = (
    "Hold anchors still, take them away, silence heads: does the answer change?\n\n"
    "Edits: drop_anchors:k=1,5,10 · pin_anchors:to=step0 · swap_anchors · sink_token:logit=2 · "
    "ablate_heads:top=4,8:mode=zero (or heads=5.3+7.0) · freeze_layers:layers=0-1; also strength=0.5, on=0-3 (layers), "
    "steps=1-2. Values with commas are doses, each with its random control; docs/interventions.md says "
    "what each does. Accuracy, F1 and the divergence of the first token in OUT/tables, figures in OUT/figures. "
    "Running again continues."
)


def add_intervene(app: typer.Typer) -> None:
    """Put the command on the command line."""
    app.command(help=_HELP)(intervene)


def intervene(
    context: typer.Context,
    models: Models,
    data: DataRefs,
    out: Out,
    edit: Annotated[
        list[str], typer.Option(metavar="NAME:KEY=VALUES", help="An edit; repeatable.", show_default=False)
    ],
    traces: Annotated[
        int, typer.Option(help="So many of the first questions are traced too: drift, absorption.", min=0)
    ] = 8,
    heads_from: Annotated[
        list[Path] | None,
        typer.Option(help="Runs of traces to choose retrieval heads from; repeatable.", show_default=False),
    ] = None,
    control_seed: Annotated[int, typer.Option(help="Of the random controls.", min=0)] = 0,
    limit: Limit = None,
    skip_bad: SkipBad = False,
    format: Format = None,
    template: Template = "default",
    chat: Chat = None,
    sampler: Sampler = None,
    settings: Settings = None,
    seed: Seed = None,
    first_line: FirstLine = False,
    batch: Batch = 8,
    workers: WorkerCount = None,
    dtype: Dtype = None,
    device: Device = None,
    device_map: DeviceMap = None,
    debug: Debug = False,
) -> None:
    """See `_HELP`."""
    from floatlens.cli.asking import Plan, Request, run
    from floatlens.edits.spec import parse_edit
    from floatlens.runs.intervening import edit_conditions

    specs = list(dict.fromkeys(spec for text in edit for spec in parse_edit(text)))  # a dose given twice is one
    conditions = edit_conditions(specs, seed=control_seed, traced=traces, heads=_scores(heads_from or ()))
    more = {"control_seed": control_seed, "traces": traces, "heads_from": _digests(heads_from or ())}
    request = Request(
        kind="intervene",
        models=models,
        data=data,
        out=out,
        limit=limit,
        skip_bad=skip_bad,
        format=format,
        documents=None,
        template=template,
        chat=chat,
        sampler=sampler,
        settings=settings or (),
        seed=seed,
        first_line=first_line,
        batch=batch,
        workers=workers,
        dtype=dtype,
        device=device,
        device_map=device_map,
        command=["floatlens", *(context.obj or ())],
    )
    code, _ = run(request, Plan(conditions, ("answers",), more))
    if code != 130:
        publish(out)
    raise typer.Exit(code)


def _digests(runs: Sequence[Path]) -> dict[str, str]:
    """Which traces the heads were chosen from: the run, and a digest of its files."""
    from floatlens.analysis.sources import trace_files
    from floatlens.core.files import fingerprint

    return {str(run): fingerprint(trace_files(run)) for run in runs}


def _scores(runs: Sequence[Path]) -> dict[str, xr.DataArray]:
    if not runs:
        return {}
    from floatlens.analysis import retrieval_heads
    from floatlens.analysis.sources import each_trace
    from floatlens.runs.intervening import copy_scores

    return copy_scores(retrieval_heads(each_trace(runs), score="copy"))


def publish(out: Path) -> None:
    """Tables, figures and claims of the run, and a summary on the screen."""
    from floatlens.runs.answers import open_answers
    from floatlens.runs.interventions import publish_interventions

    answers, _ = open_answers(out)
    if answers.empty:
        return
    rows, files = publish_interventions(answers, out)
    if rows.empty:  # every edit failed, and each failure has been told
        return
    console().print(effects_view(rows))
    say(f"{len(files)} files in {out / 'tables'} and {out / 'figures'}; verdicts: floatlens claims {out}")


def effects_view(rows: pd.DataFrame) -> Table:
    """A row per edit and control, a column per model: accuracy, and its difference from plain with the interval."""
    own = rows[rows["metric"] == "accuracy"]
    models = list(dict.fromkeys(own["model"]))
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="cyan")
    table.add_column("accuracy in %, and less plain", overflow="fold", min_width=28)
    for model in models:
        table.add_column(Text(clean(model)), no_wrap=True)
    for data in dict.fromkeys(own["data"]):
        here = own[own["data"] == data]
        plain = here.groupby("model")["plain"].first()
        cells = {model: f"{100 * score:.1f}" for model, score in plain.items()}
        table.add_row(Text(clean(f"plain · {data}"), style="bold"), *(cells.get(model, "–") for model in models))
        keys = here[["edit", "settings", "control"]].drop_duplicates().itertuples(index=False)
        for edit, settings, control in keys:
            some = here[(here["edit"] == edit) & (here["settings"] == settings) & (here["control"] == control)]
            cells = {row.model: _cell(row) for row in some.itertuples(index=False)}
            name = f"{edit} {settings}" + (" (random)" if control else "")
            table.add_row(Text(clean(name)), *(cells.get(model, "–") for model in models))
    return table


def _cell(row: Any) -> str:
    return f"{100 * row.edited:.1f}\n{100 * row.difference:+.1f} [{100 * row.low:.1f}, {100 * row.high:.1f}]"
