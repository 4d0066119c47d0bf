"""`floatlens figures`, `claims` and `report`: what runs show, as figures, tables, verdicts and one HTML page."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.console import Group, RenderableType
from rich.text import Text

from floatlens.cli.commands import flag, option
from floatlens.cli.options import Measured, Rule, Runs
from floatlens.cli.parsing import parse_names
from floatlens.cli.tables import new_table
from floatlens.cli.terminal import clean, console, progress, say, say_skipped

if TYPE_CHECKING:
    from floatlens.claims import Claim

__all__ = ["claims", "claims_view", "figures", "report"]

_STYLES = {"supported": "green", "too small": "cyan", "contradicted": "red", "undecided": "yellow"}


def figures(
    runs: Runs,
    out: Annotated[Path | None, option("Folder to write to.", metavar="FOLDER", default="the first RUN")] = None,
    only: Annotated[str | None, option("Comma-separated names of figures.", metavar="NAMES", default="all")] = None,
    formats: Annotated[str, option("Comma-separated formats of figures.", "--format", metavar="NAMES")] = "pdf,svg,png",
    rule: Rule = None,
    measure: Measured = None,
) -> None:
    """Draw the figures of runs and write their tables.

    The verdicts on claims are printed. Runs given together are compared. Figures: summary, drift, absorption, qk,
    token_classes, retrieval_heads, rollout, gold_lift, extremes, sinks, sink_kinds, order, lens and, for one trace of
    each model, anchors and qk_maps.
    """
    from floatlens.claims import answer_claims
    from floatlens.records.store import has_answers, open_answers
    from floatlens.runs.outputs import publish_answers, publish_traces

    where = out or (runs[0] if runs[0].is_dir() else runs[0].parent)
    studies = [run for run in runs if has_answers(run)]
    more = [one for run in studies for one in answer_claims(open_answers(run)[0])] if not only else []
    names = parse_names(formats, "--format") or ()
    with _walking(runs) as each:
        made = publish_traces(
            runs,
            where,
            only=parse_names(only, "--only") or (),
            formats=names,
            rule=rule,
            measure=measure,
            more=more,
            each=each,
        )
    if len(studies) == 1 and not only:  # several studies have tables of answers of their own
        made.files += publish_answers(studies[0], where, formats=names).files
    say_skipped(made.skipped)
    if made.claims:
        console().print(claims_view(made.claims))
    drawn = sum(path.parent.name == "figures" for path in made.files)
    say(f"{drawn} files in {where / 'figures'}, {len(made.files) - drawn} in {where / 'tables'}")


def claims(runs: Runs, rule: Rule = None, measure: Measured = None) -> None:
    """Print the verdict on each claim that these runs can test.

    Traces test claims about attention, answers test claims about gains, robustness and edits; see docs/claims.md.
    """
    from floatlens.analysis.sources import traced_runs
    from floatlens.claims import claims as judge

    skipped: dict[str, str] = {}
    with _walking(traced_runs(runs)) as each:
        found = judge(runs, rule=rule, measure=measure, skipped=skipped, each=lambda trace: each(0, 0))
    say_skipped(skipped)
    console().print(claims_view(found))


def report(
    runs: Runs,
    out: Annotated[
        Path | None, option("File to write.", metavar="FILE", default="report.html in the first RUN")
    ] = None,
    examples: Annotated[int, option("Questions in the explorer, at most.", min=1)] = 12,
    rule: Rule = None,
    measure: Measured = None,
    by_run: Annotated[
        bool, flag("Show runs of the same model side by side instead of pooling their traces.", "--by-run")
    ] = False,
    max_mb: Annotated[float, option("Size limit; details are left out to stay below it.", metavar="MB", min=3)] = 15.0,
) -> None:
    """Write an HTML report of runs.

    Verdicts, interactive figures, tables and the explorer in one self-contained file that works offline. Runs given
    together are compared.
    """
    from floatlens.analysis.sources import traced_runs
    from floatlens.runs.reporting import report_runs

    where = out or (runs[0] if runs[0].is_dir() else runs[0].parent) / "report.html"
    with _walking(traced_runs(runs)) as each:
        made = report_runs(
            runs,
            where,
            examples=examples,
            rule=rule,
            measure=measure,
            by_run=by_run,
            largest=int(max_mb * 1e6),
            each=each,
        )
    say_skipped(made.skipped)
    say(f"wrote {made.path} ({made.size / 1e6:.1f} MB); open it in a browser")


@contextmanager
def _walking(runs: Sequence[Path]) -> Iterator[Callable[[int, int], None]]:
    """A bar over the traces of all runs."""
    from floatlens.analysis.sources import trace_files

    with progress("analysing", sum(len(trace_files(run)) for run in runs)) as bar:
        yield lambda done, total: bar.item()


def claims_view(found: Sequence[Claim]) -> RenderableType:
    """Each claim with a line per subject: the verdict, the deciding number, and what it is compared with."""
    shown: list[RenderableType] = []
    widest = max((len(clean(one.subject)) for one in found), default=0)
    for statement, group in groupby(found, key=lambda one: one.statement):
        table = new_table()
        table.show_header = False
        table.add_column(min_width=min(widest, 30) + 2, overflow="fold")
        table.add_column(min_width=len("contradicted"), no_wrap=True)
        table.add_column(overflow="fold")
        for one in group:
            verdict = Text(one.verdict, style=_STYLES[one.verdict])
            table.add_row(Text(f"  {clean(one.subject)}"), verdict, Text(clean(_reason(one))))
        shown += [Text(clean(statement), style="bold"), table, Text()]
    return Group(*shown)


def _reason(claim: Claim) -> str:
    """The deciding number and its limit, on what it rests; for what is undecided, what would decide it."""
    part = claim.deciding
    if part is None or math.isnan(float(part.found.mean)):
        return claim.changes
    said = [f"{part.name}: {part.found}, claimed {'above' if part.above else 'below'} {part.limit:g}"]
    said += [f"models: {claim.rests_on}"] if claim.rests_on else []
    said += [f"survives Holm: {'yes' if claim.survives else 'no'}"] if claim.survives is not None else []
    said += [claim.note] if claim.note else []
    return "; ".join([*said, f"needs {claim.changes}"] if claim.verdict == "undecided" else said)
