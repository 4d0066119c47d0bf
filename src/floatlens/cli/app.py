"""The command line: its list of commands, and the one place where errors become lines and exit codes.

0 done; 1 some items failed; 2 something given is wrong; 70 a bug of ours; 130 stopped by Ctrl-C. Everything heavy is
imported inside the commands, so `--help` answers at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from floatlens.cli import adapt, bench, data, inspection, presets, results, scale, trace
from floatlens.cli.commands import DefaultGroup, add_command, flag, new_app
from floatlens.cli.terminal import forgiving_streams, say, warnings_shown
from floatlens.core.errors import FloatlensError

__all__ = ["app", "main"]

_UsageError: Any = typer.BadParameter.__bases__[0]  # typer has no public name for it

_COMMANDS = {
    "Studies": (presets.demo, presets.run, presets.qa, presets.stress, presets.intervene, presets.cache, trace.trace),
    "Results": (inspection.show, results.figures, results.claims, results.report),
    "Data": (data.data,),
    "Models": (adapt.adapt,),
    "Development": (bench.bench,),
}
_MORE_HELP: dict[object, Callable[[], str]] = {presets.intervene: presets.more_edits}

app = new_app("See how attention moves while a language model writes.")
for _panel, _functions in _COMMANDS.items():
    for _function in _functions:
        add_command(app, _function, _panel, more_help=_MORE_HELP.get(_function))
_models = new_app("List the model families, or show or check a checkpoint.", cls=DefaultGroup)
add_command(_models, inspection.list_models, name="list")
add_command(_models, inspection.show_model, name="show")
add_command(_models, inspection.check_model, name="check")
app.add_typer(_models, name="models", rich_help_panel="Models")
_scale = new_app("Train and evaluate the four small bundled models.")
add_command(_scale, scale.train)
add_command(_scale, scale.evaluate, name="eval")
add_command(_scale, scale.questions)
app.add_typer(_scale, name="scale", rich_help_panel="Models")


def _version(wanted: bool) -> None:
    if wanted:
        from floatlens import __version__

        sys.stdout.write(f"floatlens {__version__}\n")
        raise typer.Exit()


@app.callback()
def _floatlens(
    version: Annotated[
        bool, flag("Show the version and exit.", "--version", "-V", callback=_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, flag("Show tracebacks and the warnings of libraries.", "--debug")] = False,
) -> None:
    """See how attention moves while a language model writes."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    args = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in args
    forgiving_streams()
    _quiet_libraries(debug)
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


def _quiet_libraries(debug: bool) -> None:
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
    if isinstance(error, MemoryError):
        say("memory ran out; do less at once, or give the process more; what is on record is kept")
        return 2
    say(f"this is a bug: {type(error).__name__}: {error}; run it again with --debug and report what it shows")
    return 70
