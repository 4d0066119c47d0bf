"""`floatlens figures` and `floatlens claims`: what the traces of runs show, as pictures, tables and verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from floatlens.cli.terminal import clean, console, progress, say

if TYPE_CHECKING:
    from floatlens.claims import Claim

__all__ = ["add_commands", "claims_view"]

Debug = Annotated[bool, typer.Option("--debug", metavar="", help="Show tracebacks and the warnings of libraries.")]
Runs = Annotated[
    list[Path],
    typer.Argument(metavar="RUN…", help="Run folders, folders of traces or trace files.", show_default=False),
]
Rule = Annotated[
    str | None,
    typer.Option(
        help="Anchor rule for every analysis: zscore(3), rulli(3), gu(0.3), topk(5), top1. If not given: zscore(3), "
        "and top1 for absorption.",
        show_default=False,
    ),
]
_STYLES = {"supported": "green", "not supported": "red", "undecided": "yellow"}


def add_commands(app: typer.Typer) -> None:
    """Put both commands on the command line."""
    app.command()(figures)
    app.command()(claims)


def figures(
    runs: Runs,
    out: Annotated[
        Path | None, typer.Option(help="Where to write; the first RUN folder if not given.", show_default=False)
    ] = None,
    only: Annotated[
        str, typer.Option(help="Figures by name, commas between; all if not given.", show_default=False)
    ] = "",
    formats: Annotated[str, typer.Option("--format", help="Commas between.")] = "pdf,svg,png",
    rule: Rule = None,
    debug: Debug = False,
) -> None:
    """Draw every figure of one or more runs and write the tables behind them, then print the verdicts.

    Several models are compared when their runs are given together. Figures: summary, drift, absorption, qk,
    token_classes, retrieval, rollout, gold_lift, extremes, and of one trace per model heatmap and qk_maps.
    """
    from floatlens.runs.answers import answer_claims_of, has_answers
    from floatlens.runs.publish import publish

    where = out or (runs[0] if runs[0].is_dir() else runs[0].parent)
    studies = [run for run in runs if has_answers(run)]
    more = [one for run in studies for one in answer_claims_of(run)] if not only else []
    with _walking(runs) as each:
        made = publish(runs, where, only=_names(only), formats=_names(formats), rule=rule, more=more, each=each)
    if len(studies) == 1 and not only:  # of several studies each has its own tables of answers
        made.files += _answers(studies[0], where, _names(formats))
    for name, reason in made.skipped.items():
        say(f"{name}: left out, {reason}")
    if made.claims:
        console().print(claims_view(made.claims))
    drawn = sum(path.parent.name == "figures" for path in made.files)
    say(f"{drawn} files in {where / 'figures'}, {len(made.files) - drawn} in {where / 'tables'}")


def claims(runs: Runs, rule: Rule = None, debug: Debug = False) -> None:
    """Print the verdict on every claim of the paper that these runs speak of; see docs/claims.md.

    Runs of traces speak of attention, those of floatlens qa, stress and intervene of gains, robustness and edits,
    studies of all.
    """
    from floatlens.claims import claims as judge
    from floatlens.runs.answers import traced_runs

    skipped: dict[str, str] = {}
    with _walking(traced_runs(runs)) as each:
        found = judge(runs, rule=rule, skipped=skipped, each=lambda trace: each(0, 0))
    for name, reason in skipped.items():
        say(f"{name}: left out, {reason}")
    console().print(claims_view(found))


def _answers(study: Path, out: Path, formats: Sequence[str]) -> list[Path]:
    from floatlens.core.validation import validate
    from floatlens.runs.results import Findings, publish_answers
    from floatlens.runs.study import Output

    made = Findings()
    publish_answers(study, out, validate(Output, {"figures": formats}), made)
    return made.files


@contextmanager
def _walking(runs: Sequence[Path]) -> Iterator[Callable[[int, int], None]]:
    """A bar over the traces of all runs."""
    from floatlens.analysis.sources import trace_files

    with progress("analysing", sum(len(trace_files(run)) for run in runs)) as bar:
        yield lambda done, total: bar.item()


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def claims_view(found: Sequence[Claim]) -> Table:
    """Verdicts as a table for a terminal: claim, subject, verdict, the number it hangs on, and what would change it."""
    table = Table(box=None, padding=(0, 2, 1, 0), header_style="cyan")
    for title, ratio in (("claim", 5), ("subject", 2), ("verdict", 2), ("hangs on", 5), ("what would change it", 4)):
        table.add_column(title, overflow="fold", ratio=ratio)
    for one in found:
        part = one.deciding
        number = "" if part is None else f"{part.name}: {part.found:.3g}"
        verdict = Text(one.verdict, style=_STYLES[one.verdict])
        table.add_row(Text(one.statement), Text(clean(one.subject)), verdict, Text(number), Text(one.changes))
    return table
