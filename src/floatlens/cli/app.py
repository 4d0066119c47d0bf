"""The command line: thin commands over the library, and the one place where errors become lines and exit codes.

0 done; 1 some items failed; 2 something given is wrong; 70 a bug of ours; 130 stopped by Ctrl-C (typer turns the
interrupt into it). Everything heavy is imported inside the commands, so that `--help` answers at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from floatlens.cli.adapt import add_adapt
from floatlens.cli.figures import add_commands
from floatlens.cli.intervene import add_intervene
from floatlens.cli.qa import add_qa
from floatlens.cli.report import add_report
from floatlens.cli.run import add_run
from floatlens.cli.scale import scale
from floatlens.cli.terminal import console, forgiving_streams, say, warnings_shown
from floatlens.core.errors import FloatlensError

__all__ = ["app", "main"]

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
add_run(app)  # first in the list of commands, as it is where most begin
app.add_typer(scale, name="scale")
_UsageError: Any = typer.BadParameter.__bases__[0]  # typer shows no public name for it

Debug = Annotated[bool, typer.Option("--debug", metavar="", help="Show tracebacks and the warnings of libraries.")]
_TRACE = (
    "Decode questions and record the attention of every step.\n\n"
    "With --data: one trace per question in OUT/traces and one line each in OUT/records.jsonl; running the same "
    "command again continues where it stopped. With --question: one trace file."
)
_TARGET = (
    "Text to write instead of the model's own (forced decoding); with --data: field, the record's own target, or "
    "answer, its first accepted answer."
)
_REF = "Hub id, folder, .gguf file or registered name."
_PROBES = "Names, commas between; if not given: received,entropy,flow,answer_rows,qk,extremes."
_DTYPE = "float32, bfloat16, float16 or auto; if not given: float32 on a CPU, else the checkpoint's."


def _option(help: str, panel: str | None = None) -> Any:
    """An option whose default needs no words beyond its help."""
    return typer.Option(help=help, rich_help_panel=panel, show_default=False)


_CHAT = typer.Option(
    metavar="",
    help="As a chat message or not; if not given: where the tokenizer has a chat template.",
    rich_help_panel="Prompt",
    show_default=False,
)
_SET = typer.Option(
    "--set",
    metavar="KEY=VALUE",
    help="A setting of the sampler, such as gen_length=64; repeatable.",
    rich_help_panel="Decoding",
    show_default=False,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    args = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in args
    forgiving_streams()
    _calm_libraries(debug)
    try:
        with warnings_shown(everything=debug):
            code = app(args, prog_name="floatlens", standalone_mode=False, obj=args)
        return code if isinstance(code, int) else 0
    except typer.Abort as abort:  # how typer passes on an EOFError, which no command of ours waits for
        return _report(EOFError(str(abort.__cause__)))
    except Exception as error:
        if debug and not isinstance(error, _UsageError):
            raise
        return _report(error)


def _calm_libraries(debug: bool) -> None:
    """Read by libraries when they are imported: their logs only for --debug, their bars only on a terminal."""
    if not debug:
        os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    if not sys.stderr.isatty():
        os.environ.setdefault("TQDM_DISABLE", "1")


def _report(error: Exception) -> int:
    """One line on stderr, and the exit code that goes with it."""
    if isinstance(error, FloatlensError):
        say(str(error))
        return 2
    if isinstance(error, _UsageError):
        message = error.format_message()
        if message:  # empty when help was shown because nothing was asked
            where = error.ctx.command_path if error.ctx is not None else "floatlens"
            say(f"{message.rstrip('.')}; see {where} --help")
        return 2
    if isinstance(error, OSError):
        say(f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error))
        return 2
    say(f"this is a bug: {type(error).__name__}: {error}; run it again with --debug and report what it shows")
    return 70


def _version(asked: bool) -> None:
    if asked:
        from floatlens import __version__

        sys.stdout.write(f"floatlens {__version__}\n")
        raise typer.Exit()


@app.callback()
def _floatlens(
    version: Annotated[
        bool, typer.Option("--version", metavar="", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Debug = False,
) -> None:
    """How attention moves while a language model writes."""


# -- models and show ----------------------------------------------------------------------------------------------


@app.command()
def models(
    ref: Annotated[str | None, typer.Argument(metavar="REF", help=_REF, show_default=False)] = None,
    family: Annotated[str | None, _option("Read it as this family.")] = None,
    revision: Annotated[str | None, _option("Of a hub repository.")] = None,
    debug: Debug = False,
) -> None:
    """List the model families, or say which one reads REF and what its configuration holds (no weights are read)."""
    from floatlens.cli.views import facts_view, families_view

    out = console()
    if ref is not None:
        from floatlens.models.facts import look

        out.print(facts_view(look(ref, family=family, revision=revision)))
        return
    from floatlens.models import families, registered_names

    out.print(families_view(families()))
    named = registered_names()
    out.print(f"\nregistered names: {', '.join(named) or 'none'}")


@app.command()
def show(
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="A .zarr.zip file.", show_default=False)],
    step: Annotated[int | None, typer.Option(help="Attention of this step instead of the mean.")] = None,
    top: Annotated[
        int | None, typer.Option(help="Keys to name in each layer; as many as fit if not given.", min=1)
    ] = None,
    debug: Debug = False,
) -> None:
    """Show what a trace file holds, and for every layer the keys that receive most attention."""
    if (trace / "manifest.json").is_file():
        first = next(iter(sorted((trace / "traces").glob("*.zarr.zip"))), None)
        raise FloatlensError(f"{trace} is a run; give one of its traces" + (f", such as {first}" if first else ""))
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
        out.print("no received attention in it: it was traced without the probe received")


# -- trace --------------------------------------------------------------------------------------------------------


@app.command(help=_TRACE)
def trace(
    context: typer.Context,
    model: Annotated[str, typer.Argument(metavar="MODEL", help=_REF, show_default=False)],
    out: Annotated[Path, _option("The run folder; with --question a .zarr.zip file.")],
    data: Annotated[Path | None, _option("Questions: .jsonl or .jsonl.gz (formats: see floatlens.data).")] = None,
    limit: Annotated[int | None, _option("Only the first so many questions.")] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", metavar="", help="Leave bad records of the data out.")
    ] = False,
    question: Annotated[str | None, _option("One question, instead of --data.")] = None,
    document: Annotated[list[str] | None, _option("A document for --question; repeatable.")] = None,
    gold: Annotated[int | None, _option("Which --document holds the answer, counted from 0.")] = None,
    target: Annotated[str | None, _option(_TARGET)] = None,
    template: Annotated[str | None, _option("Name or .yaml file; default if not given.", "Prompt")] = None,
    chat: Annotated[bool | None, _CHAT] = None,
    sampler: Annotated[
        str | None, _option("llada, dream, threshold or ar; if not given: the family's.", "Decoding")
    ] = None,
    settings: Annotated[list[str] | None, _SET] = None,
    seed: Annotated[int | None, _option("Of the sampler; 0 if not given.", "Decoding")] = None,
    probes: Annotated[str | None, _option(_PROBES, "Capture")] = None,
    heads: Annotated[Literal["all", "mean"], _option("Keep every head, or their mean.", "Capture")] = "all",
    layers: Annotated[str | None, _option("Only these, such as 0,1,-1; all if not given.", "Capture")] = None,
    family: Annotated[str | None, _option("Read it as this family (see floatlens models).", "Model")] = None,
    dtype: Annotated[str | None, _option(_DTYPE, "Model")] = None,
    device: Annotated[
        str | None, _option("cpu, cuda, cuda:1, mps; if not given: cuda if there is one.", "Model")
    ] = None,
    device_map: Annotated[
        str | None, _option("Instead of --device: auto, for a model over several GPUs.", "Model")
    ] = None,
    revision: Annotated[str | None, _option("Of a hub repository.", "Model")] = None,
    debug: Debug = False,
) -> None:
    """See `_TRACE`."""
    from floatlens.cli.parsing import parse_layers, parse_names, parse_settings
    from floatlens.core.validation import validate
    from floatlens.runs.config import TraceRunConfig
    from floatlens.traces.config import TraceConfig

    values: dict[str, Any] = {
        "model": {"ref": model, "family": family, "revision": revision, "dtype": dtype, "device": device}
        | {"device_map": device_map},
        "prompt": {"template": "default" if template is None else template, "chat": chat},
        "decoding": {"sampler": sampler, "settings": parse_settings(settings or (), seed)},
        "capture": {"probes": parse_names(probes, "--probes"), "heads": heads, "layers": parse_layers(layers)},
    }
    if (data is None) == (question is None):
        raise FloatlensError("give either --data FILE or --question TEXT")
    from floatlens.cli.commands import trace_data, trace_question

    if question is not None:
        if limit is not None or skip_bad:
            raise FloatlensError("--limit and --skip-bad go with --data, not with --question")
        trace_question(validate(TraceConfig, values), out, question, document or [], gold, target)
        return
    if document or gold is not None:
        raise FloatlensError("--document and --gold go with --question; with --data they are in the file")
    if target not in (None, "field", "answer"):
        raise FloatlensError(f"--target {target!r}: with --data it is field or answer; a text goes with --question")
    values["data"] = {"path": str(data), "limit": limit, "skip_bad": skip_bad, "target": target}
    raise typer.Exit(trace_data(validate(TraceRunConfig, values), out, ["floatlens", *context.obj]))


# -- bench --------------------------------------------------------------------------------------------------------


@app.command()
def bench(
    part: Annotated[
        Literal["all", "capture", "edits", "throughput"],
        typer.Option(help="What capture costs, what edits cost on top, what a second worker brings, or all."),
    ] = "all",
    lengths: Annotated[
        str | None, _option("Sequence lengths, commas between; 512 to 8192, of edits to 2048, if not given.")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(help="How often the variants take turns; 3, of edits 2, if not given.", min=1)
    ] = None,
    threads: Annotated[int | None, _option("Of torch; if not given: all cores.")] = None,
    memory: Annotated[bool, typer.Option(help="Measure peak memory of capture too (Linux).")] = sys.platform == "linux",
    out: Annotated[Path, typer.Option(help="Folder for the tables and the numbers.")] = Path("benchmarks"),
    debug: Debug = False,
) -> None:
    """Measure what capture costs beside plain and eager decoding, what edits cost on top, and what two workers bring.

    All variants take turns in one run. Of the options, throughput takes --rounds and --out.
    """
    from floatlens import bench as benches
    from floatlens.cli.parsing import parse_names

    names = () if lengths is None else parse_names(lengths, "--lengths") or ()
    if not all(name.isdecimal() for name in names):
        raise FloatlensError(f"--lengths {lengths}: give whole numbers, commas between")
    asked: dict[str, Any] = {} if lengths is None else {"lengths": tuple(int(name) for name in names)}
    asked |= {"threads": threads}
    if part in ("all", "capture"):
        results = benches.run(benches.Plan(rounds=rounds or 3, memory=memory, **asked), say=say)
        sys.stdout.write(benches.as_markdown(results))
        say("saved {} and {}".format(*benches.save(results, out)))
    if part in ("all", "edits"):
        edited = benches.run_edits(benches.EditPlan(rounds=rounds or 2, **asked), say=say)
        sys.stdout.write(benches.edits_as_markdown(edited))
        say("saved {} and {}".format(*benches.save_edits(edited, out)))
    if part in ("all", "throughput"):
        _throughput(rounds or 3, out)


def _throughput(rounds: int, out: Path) -> None:
    from floatlens.bench.throughput import as_markdown, measure, save

    found = measure(rounds=rounds, say=say)
    sys.stdout.write(as_markdown(found))
    table, numbers = save(found, out)
    say(f"saved {table} and {numbers}")


add_qa(app)
add_intervene(app)
add_adapt(app)
add_commands(app)
add_report(app)
