"""`floatlens qa` and `floatlens stress`: questions to models, closed book, with documents, and under stress.

Checks come in the order of their price: arguments, data, the models' configurations, what the folder holds, weights.
Anything worth doing without a terminal lives in `floatlens.data` and `floatlens.runs`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from floatlens.cli.terminal import console, say

__all__ = ["add_qa"]

_QA = (
    "Ask models questions, closed book and with documents, and score their answers.\n\n"
    "One line per answer in OUT/records.jsonl as soon as it is there, Table 1 of the paper in OUT/tables (Markdown, "
    "CSV, LaTeX). Running the same command again continues where it stopped; other models and data join the run."
)
_STRESS = (
    "Ask the same questions with other documents around the gold one, and draw how accuracy bears it.\n\n"
    "Tests: noise, position, distractor, layout, order, masks; docs/stress.md says what each does. Curves and "
    "robustness in OUT/tables, a figure per test in OUT/figures. Running again continues."
)


def _option(help: str, panel: str | None = None) -> Any:
    return typer.Option(help=help, rich_help_panel=panel, show_default=False)


Models = Annotated[
    list[str],
    typer.Argument(metavar="MODEL…", help="Hub ids, folders, .gguf files or registered names.", show_default=False),
]
DataRefs = Annotated[
    list[str],
    _option("A file, a set of the paper (nq=FILE) or scale questions (scale:rag:documents=5); repeatable."),
]
Out = Annotated[Path, _option("The run folder.")]
Limit = Annotated[int | None, _option("Only the first so many questions of each.", "Data")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", metavar="", help="Leave bad records out.", rich_help_panel="Data")]
Format = Annotated[str | None, _option("Of the files; if not given, what the first record shows.", "Data")]
Template = Annotated[str, typer.Option(help="Name or .yaml file.", rich_help_panel="Prompt")]
Chat = Annotated[
    bool | None,
    typer.Option(
        metavar="",
        help="As a chat message or not; if not given: where the tokenizer has a chat template.",
        rich_help_panel="Prompt",
        show_default=False,
    ),
]
Sampler = Annotated[str | None, _option("For the models of its kind; if not given: the family's.", "Decoding")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="A setting of the samplers that have it, such as gen_length=16; repeatable.",
        rich_help_panel="Decoding",
        show_default=False,
    ),
]
Seed = Annotated[int | None, _option("Of the samplers; 0 if not given.", "Decoding")]
FirstLine = Annotated[
    bool,
    typer.Option(
        "--first-line", metavar="", help="Score an answer up to its first line break.", rich_help_panel="Decoding"
    ),
]
Batch = Annotated[int, typer.Option(help="Questions decoded together.", min=1, rich_help_panel="Machine")]
WorkerCount = Annotated[
    int | None, _option("Processes; if not given: one per core for small models on a CPU, else one.", "Machine")
]
Dtype = Annotated[str | None, _option("float32, bfloat16, float16 or auto.", "Machine")]
Device = Annotated[str | None, _option("cpu, cuda, cuda:1, mps; if not given: cuda if there is one.", "Machine")]
DeviceMap = Annotated[str | None, _option("Instead of --device: auto, for a model larger than one GPU.", "Machine")]
Debug = Annotated[bool, typer.Option("--debug", metavar="", help="Show tracebacks and the warnings of libraries.")]


def add_qa(app: typer.Typer) -> None:
    """Put both commands on the command line."""
    app.command(help=_QA)(qa)
    app.command(help=_STRESS)(stress)


def qa(
    context: typer.Context,
    models: Models,
    data: DataRefs,
    out: Out,
    mode: Annotated[str, typer.Option(help="closed, rag, or both with a comma between.")] = "closed,rag",
    limit: Limit = None,
    skip_bad: SkipBad = False,
    format: Format = None,
    documents: Annotated[int | None, _option("Show only the first so many.", "Data")] = None,
    corpus: Annotated[
        Path | None, _option("Retrieve documents from this file (BM25) instead of those in the data.", "Data")
    ] = None,
    top: Annotated[int, typer.Option(help="Passages to retrieve.", min=1, rich_help_panel="Data")] = 5,
    template: Template = "default",
    chat: Chat = None,
    sampler: Sampler = None,
    settings: Settings = None,
    seed: Seed = None,
    first_line: FirstLine = False,
    batch: Batch = 16,
    workers: WorkerCount = None,
    dtype: Dtype = None,
    device: Device = None,
    device_map: DeviceMap = None,
    paper: Annotated[
        bool, typer.Option("--paper", metavar="", help="Put the paper's rows below ours in the table.")
    ] = False,
    debug: Debug = False,
) -> None:
    """See `_QA`."""
    from floatlens.cli.asking import Request, closed_and_rag, run

    request = Request(
        kind="qa",
        models=models,
        data=data,
        out=out,
        limit=limit,
        skip_bad=skip_bad,
        format=format,
        documents=documents,
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
    plan = closed_and_rag(mode, corpus, top, skip_bad)
    code, sources = run(request, plan)
    if code == 130:
        raise typer.Exit(code)
    from floatlens.cli.asking import table_view
    from floatlens.runs.answers import open_answers, publish_qa

    answers, manifest = open_answers(out)
    if answers.empty:
        raise typer.Exit(code)
    titles = {source.name: source.column for source in sources}
    columns = [(name, titles.get(name, name)) for name in manifest["data"] if name in set(answers["data"])]
    table, _ = publish_qa(answers, columns, out, paper=paper)
    console().print(table_view(table))
    say(f"table1.md, .csv, .tex and the numbers behind them are in {out / 'tables'}")
    raise typer.Exit(code)


def stress(
    context: typer.Context,
    models: Models,
    data: DataRefs,
    out: Out,
    test: Annotated[str, typer.Option(help="Which, commas between.")] = "noise,position,distractor,layout,order,masks",
    limit: Limit = None,
    skip_bad: SkipBad = False,
    format: Format = None,
    gold: Annotated[
        Literal["answer"] | None,
        _option("answer: gold are the documents that hold an accepted answer; if not given: as marked.", "Data"),
    ] = None,
    documents: Annotated[int, typer.Option(help="Shown by position, layout and order.", rich_help_panel="Tests")] = 10,
    places: Annotated[str | None, _option("Of the gold document, such as 0,4,9; all if not given.", "Tests")] = None,
    change: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="Another setting of the tests, such as order.shuffles=8 or distractor.counts=1,4; repeatable.",
            rich_help_panel="Tests",
            show_default=False,
        ),
    ] = None,
    stress_seed: Annotated[int, typer.Option(help="Of the tests.", min=0, rich_help_panel="Tests")] = 0,
    template: Template = "default",
    chat: Chat = None,
    sampler: Sampler = None,
    settings: Settings = None,
    seed: Seed = None,
    first_line: FirstLine = False,
    batch: Batch = 16,
    workers: WorkerCount = None,
    dtype: Dtype = None,
    device: Device = None,
    device_map: DeviceMap = None,
    debug: Debug = False,
) -> None:
    """See `_STRESS`."""
    from floatlens.cli.asking import Request, run
    from floatlens.cli.stress import publish, read_stress

    plan = read_stress(test, documents, places, change or (), stress_seed)
    request = Request(
        kind="stress",
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
        gold=gold,
    )
    code, _ = run(request, plan)
    if code != 130:
        publish(out)
    raise typer.Exit(code)
