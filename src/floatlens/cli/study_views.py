"""What a study looks like on a terminal: its plan with counts and time, and the numbers that came out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from floatlens.cli.terminal import clean, duration
from floatlens.data.stress import STRESS_TESTS
from floatlens.plots.style import label_of

if TYPE_CHECKING:
    from floatlens.claims import Claim
    from floatlens.runs.counting import Count, Counts, Row
    from floatlens.runs.estimating import Forecast
    from floatlens.runs.plan import Plan
    from floatlens.runs.results import Findings
    from floatlens.runs.runs import Team

__all__ = ["findings_view", "headline_view", "plan_view", "verdicts_line"]

_MOST = 6
"""Models that have a column of their own in the plan; more are summed up in one."""


def plan_view(plan: Plan, counts: Counts, team: Team, told: Forecast, folder: Path) -> Group:
    """Every data set with what is done with it, how often by each model, and how long it may take."""
    models = [subject.ref for subject in plan.subjects]
    titles = models if len(models) <= _MOST else [f"{len(models)} models"]
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="cyan")
    table.add_column(Text(clean(f"study {plan.study.name}")), overflow="fold")
    for title in titles:
        table.add_column(Text(clean(label_of(title, titles))), justify="right", no_wrap=True)
    for part in plan.parts:
        table.add_row(Text(clean(f"{part.data.name}, {_many(part.data.count, 'question')}"), style="bold"))
        for row in counts.rows:
            if row.data == part.data.name:
                table.add_row(Text(f"  {clean(_what(row))}"), *_cells(row, models, len(titles)))
    table.add_section()
    table.add_row(Text("items in all", style="bold"), *_totals(counts, models, len(titles)))
    return Group(table, Text(), *_footer(counts, team, told, folder))


def _cells(row: Row, models: Sequence[str], columns: int) -> list[str]:
    if columns < len(models):
        return [_shown(row.total, row.total - row.left)]
    return [_count(row.by_model.get(model)) for model in models]


def _totals(counts: Counts, models: Sequence[str], columns: int) -> list[str]:
    if columns < len(models):
        return [_shown(counts.total, counts.done)]
    found = []
    for model in models:
        own = [row.by_model[model] for row in counts.rows if model in row.by_model]
        found.append(_shown(sum(one.total for one in own), sum(one.done for one in own)))
    return found


def _count(one: Count | None) -> str:
    return "–" if one is None else _shown(one.total, one.done)


def _shown(total: int, done: int) -> str:
    """How many, and of a run that goes on how many are done."""
    return f"{total:,}" if not done else f"{done:,} of {total:,}"


def _what(row: Row) -> str:
    """A line of the plan in words."""
    if row.what == "trace":
        places = [name.rpartition(" ")[2] for name in row.names if name != "trace"]
        return f"traces, gold document at {', '.join(places)}" if places else "traces"
    if row.what == "clean":
        return "clean (the gold documents alone)"
    if row.what in STRESS_TESTS:
        return f"{row.what}, {_many(len(row.names), 'point')}"
    return f"{row.what}, and its random control" if len(row.names) > 1 else row.what


def _many(count: int, what: str) -> str:
    return f"1 {what}" if count == 1 else f"{count:,} {what}s"


def _footer(counts: Counts, team: Team, told: Forecast, folder: Path) -> list[Text]:
    where = Text(f"into {clean(str(folder))}")
    if not counts.left:
        return [Text(f"all {counts.total:,} items are on record"), where]
    who = "as many workers as the cluster has room for" if team.count is None else _many(team.count, "worker")
    time = told.basis if told.seconds is None else f"about {duration(told.seconds)} ({told.basis})"
    done = f", {counts.done:,} on record" if counts.done else ""
    return [Text(f"{counts.left:,} items to do{done}, {who}, {_many(team.threads, 'thread')} each: {time}"), where]


# -- what came out ------------------------------------------------------------------------------------------------


def findings_view(made: Findings) -> Group:
    """The tables that a study gives, one below the other."""
    from floatlens.cli.asking import table_view
    from floatlens.cli.intervene import effects_view
    from floatlens.cli.stress import robustness_view

    shown: list[RenderableType] = []
    if made.table is not None:
        shown += [_title("Answers"), table_view(made.table)]
    if made.curves and made.agreed is not None:
        shown += [_title("Stress tests"), robustness_view(made.curves, made.agreed)]
    if made.effects is not None and not made.effects.empty:
        shown += [_title("Edits of attention"), effects_view(made.effects)]
    rows = made.headline
    if rows:
        shown += [_title("Attention, with 95 % intervals over questions"), headline_view(rows)]
    return Group(*shown)


def _title(text: str) -> Text:
    return Text(f"\n{text}", style="bold")


def headline_view(rows: Sequence[Mapping[str, Any]]) -> Table:
    """A line per number, a column per model."""
    models = list(dict.fromkeys(model for row in rows for model in row["values"]))
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="cyan")
    table.add_column("", overflow="fold", min_width=24)
    for model in models:
        table.add_column(Text(clean(label_of(model, models))), no_wrap=True)
    for row in rows:
        table.add_row(Text(clean(row["title"])), *(_number(row["values"].get(model)) for model in models))
    return table


def _number(one: Mapping[str, float] | None) -> str:
    if one is None or one["mean"] != one["mean"]:
        return "–"
    mean, low, high = (f"{one[key]:.3g}" for key in ("mean", "low", "high"))
    return mean if one["low"] != one["low"] else f"{mean} [{low}, {high}]"


def verdicts_line(found: Sequence[Claim]) -> str:
    """How many claims came out which way."""
    counted = Counter(one.verdict for one in found)
    parts = (f"{counted[verdict]} {verdict}" for verdict in ("supported", "not supported", "undecided"))
    return f"claims of the paper: {', '.join(parts)}"
