"""What a study looks like on a terminal: its plan with counts and time, and the numbers that came out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from floatlens.analysis.cache_schedule import CACHE_EDIT
from floatlens.analysis.collection import AGREEMENT, ALL, RATES
from floatlens.cli.cache_view import cache_view
from floatlens.cli.tables import INTERVAL, Row, by_model, in_blocks, interval, number
from floatlens.cli.terminal import clean, duration, many
from floatlens.data.stress import STRESS_TESTS
from floatlens.plots.style import label_of, span
from floatlens.records.condition import Stressed

if TYPE_CHECKING:
    import pandas as pd

    from floatlens.analysis import Estimate
    from floatlens.analysis.headline import HeadlineRow
    from floatlens.analysis.stress import Curve
    from floatlens.analysis.tables import Table
    from floatlens.claims import Claim
    from floatlens.runs.counts import Counts, Forecast
    from floatlens.runs.counts import Row as PlanRow
    from floatlens.runs.plan import Plan
    from floatlens.runs.publish import Findings
    from floatlens.runs.workers import Team

__all__ = ["findings_view", "plan_view", "verdicts_line"]

_MOST = 6
"""Models that have a column of their own in the plan; more are summed up in one."""
_PATCHED = {"anchors": "anchors", "control": "random control (mass)", "difference": "difference"}
_SUMMED, _CONTROLS = "", "controls of all models"
"""The columns that sum up all models, and all their controls."""


def plan_view(plan: Plan, counts: Counts, team: Team, told: Forecast, folder: Path, width: int) -> RenderableType:
    """Each data set with what is done with it, how often by each model, and how long it may take."""
    models = [model.ref for model in plan.subjects]
    summed = len(models) > _MOST
    columns = {_SUMMED: models} if summed else {model: [model] for model in models}
    labels = [f"{len(models)} models"] if summed else _labels(models)
    if controls := [model.ref for model in plan.models if model.ref not in models]:
        columns[_CONTROLS] = controls
        labels.append(many(len(controls), "control"))
    rows: list[Row] = []
    for part in plan.data:
        rows.append(Row(f"{part.data.name}, {many(part.data.count, 'question')}"))
        here = [row for row in counts.rows if row.data == part.data.name]
        rows += [Row(_what(row), _items([row], columns), level=1) for row in here]
    rows.append(Row("all items", _items(counts.rows, columns)))
    table = by_model(f"study {plan.study.name}", ["items"], list(columns), labels, rows, width)
    return Group(table, Text(), *_footer(counts, team, told, folder))


def _items(rows: Sequence[PlanRow], columns: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """How many items the models of each column have, and how many of them are done in a run that is continued."""
    shown = {}
    for column, models in columns.items():
        own = [one for row in rows for model, one in row.by_model.items() if model in models]
        total, done = sum(one.total for one in own), sum(one.done for one in own)
        if own:
            shown[column] = [f"{done:,} of {total:,}" if done else f"{total:,}"]
    return shown


def _what(row: PlanRow) -> str:
    """A line of the plan in words."""
    points = [one for one in row.conditions if isinstance(one, Stressed)]
    if row.traced:
        return f"traces, gold document at {', '.join(f'{one.x:g}' for one in points)}" if points else "traces"
    if points:
        test = STRESS_TESTS[points[0].test]
        only = test.reference == test.name
        return f"{row.what} (gold documents only)" if only else f"{row.what}, {many(len(points), 'point')}"
    if row.patched is not None:
        return f"{row.what}, {' and '.join(row.patched.what)}"
    return _edit_in_words(row)


def _edit_in_words(row: PlanRow) -> str:
    controls = len(row.conditions) - 1
    return f"{row.what}, and {many(controls, 'random control')}" if controls > 0 else row.what


def _footer(counts: Counts, team: Team, told: Forecast, folder: Path) -> list[Text]:
    where = Text(f"run folder: {clean(str(folder))}")
    if not counts.left:
        return [Text(f"finished: {many(counts.total, 'item')} on record, nothing left to do"), where]
    who = "as many workers as the cluster has room for" if team.count is None else many(team.count, "worker")
    time = told.basis if told.seconds is None else f"about {duration(told.seconds)} ({told.basis})"
    done = f" ({counts.done:,} on record)" if counts.done else ""
    return [
        Text(f"{many(counts.left, 'item')} to do{done}, {who} with {many(team.threads, 'thread')} each"),
        Text(f"estimated time: {time}"),
        where,
    ]


# -- what came out ------------------------------------------------------------------------------------------------


def findings_view(made: Findings, models: Sequence[str], width: int) -> Group:
    """The tables of a study, one below the other, with models in the study's order."""
    shown: list[RenderableType] = []
    if made.table is not None:
        shown += [_title("Answers"), answers_view(made.table, width)]
    if made.curves and made.agreed is not None:
        shown += [_title("Stress tests"), robustness_view(made.curves, made.agreed, models, width)]
    if made.misled:
        shown += [_title("Misled by a wrong answer"), misled_view(made.misled, models, width)]
    if made.collection:
        shown += [_title("Changing collection"), collection_view(made.collection, models, width)]
    if made.effects is not None and set(made.effects["edit"]) - ({CACHE_EDIT} if made.cache else set()):
        shown += [_title("Edits"), effects_view(made.effects, models, width)]
    if made.patching:
        shown += [_title("Activation patching"), patching_view(made, models, width)]
    if made.cache:
        shown += [_title("Cache"), cache_view(made.cache, models, width)]
    if rows := made.headline:
        shown += [_title("Attention (means over questions)"), headline_view(rows, models, width)]
    return Group(*shown)


def _title(text: str) -> Text:
    return Text(f"\n{text}", style="bold")


def answers_view(table: Table, width: int) -> Group:
    """Table 1 of the paper."""
    return Group(in_blocks(table.groups, table.columns, table.rows, width), Text(clean(table.caption), style="dim"))


def robustness_view(found: Sequence[Curve], agreed: pd.DataFrame, models: Sequence[str], width: int) -> RenderableType:
    """A row per curve of each data set: robustness with its interval, and accuracy at the ends of the curve."""
    models = _ordered(models, (curve.model for curve in found))
    rows = []
    for data, test, series in dict.fromkeys((curve.data, curve.test, curve.series) for curve in found):
        own = {c.model: _curve(c) for c in found if (c.data, c.test, c.series) == (data, test, series)}
        rows.append(Row(f"{test if series == test else f'{test}, {series}'} · {data}", own))
    for data in dict.fromkeys(agreed["data"]):
        rates = agreed[agreed["data"] == data].set_index("model")["mean"]
        own = {model: [f"{rates[model]:.1%}"] for model in models if model in rates}
        rows.append(Row(f"same answer in two orders · {data}", own))
    parts = ["robustness", INTERVAL, "first → last point (%)"]
    title = "robustness, accuracy at first → last point (%)"
    return by_model(title, parts, models, _labels(models), rows, width)


def _curve(curve: Curve) -> list[str]:
    one, mean = curve.robustness, curve.scores.mean
    ends = f"{100 * mean[0]:.0f} → {100 * mean[-1]:.0f}"
    value, low, high = float(one.mean), float(one.low), float(one.high)
    return [number(value, ".2f"), interval(low, high, ".2f"), ends]


def misled_view(found: Sequence[Curve], models: Sequence[str], width: int) -> RenderableType:
    """A row per curve whose questions name wrong answers: how many answers state one, at the ends of the curve."""
    models = _ordered(models, (curve.model for curve in found))
    rows = []
    for data, test, series in dict.fromkeys((curve.data, curve.test, curve.series) for curve in found):
        own = {c.model: _misled(c) for c in found if (c.data, c.test, c.series) == (data, test, series)}
        rows.append(Row(f"{test if series == test else f'{test}, {series}'} · {data}", own))
    title = "misled at first → last point (%)"
    return by_model(title, ["first → last", INTERVAL], models, _labels(models), rows, width)


def _misled(curve: Curve) -> list[str]:
    rate, low, high = (100 * value for value in (curve.scores.mean, curve.scores.low, curve.scores.high))
    return [f"{rate[0]:.0f} → {rate[-1]:.0f}", interval(float(low[-1]), float(high[-1]), ".0f")]


def collection_view(tables: Mapping[str, pd.DataFrame], models: Sequence[str], width: int) -> RenderableType:
    """Rows for each data set: the rates over all snapshots, and agreement where nothing relevant changed."""
    rates, agreed = tables["collection"], tables["collection_agreement"]
    whole = rates[rates["date"] == ALL]
    models = _ordered(models, whole["model"])
    rows = []
    for data, own in whole.groupby("data", sort=False):
        rows.append(Row(str(data)))
        parts = [(RATES[str(rate)], some) for rate, some in own.groupby("rate", sort=False)]
        here = agreed[agreed["data"] == data]
        parts += [(AGREEMENT[str(part)], some) for part, some in here.groupby("pairs_with", sort=False)]
        rows += [
            Row(words, {str(row.model): _rate(row) for row in some.itertuples()}, level=1) for words, some in parts
        ]
    return by_model("mean over snapshots (%)", ["mean", INTERVAL], models, _labels(models), rows, width)


def _rate(row: Any) -> list[str]:
    mean, low, high = (100 * float(value) for value in (row.mean, row.low, row.high))
    return [number(mean, ".1f"), interval(low, high, ".1f")]


def effects_view(effects: pd.DataFrame, models: Sequence[str], width: int) -> RenderableType:
    """A row per edit and control: accuracy, and its change from the unedited model with the interval."""
    own = effects[effects["metric"] == "accuracy"]
    models = _ordered(models, own["model"])
    rows = []
    for data in dict.fromkeys(own["data"]):
        here = own[own["data"] == data]
        before = here.groupby("model")["unedited"].first()
        rows.append(Row(f"unedited · {data}", {str(model): [f"{100 * x:.1f}"] for model, x in before.items()}))
        for edit, settings, control in here[["edit", "settings", "control"]].drop_duplicates().itertuples(index=False):
            some = here[(here["edit"] == edit) & (here["settings"] == settings) & (here["control"] == control)]
            cells = {row.model: _effect(row) for row in some.itertuples(index=False)}
            rows.append(Row(f"{edit} {settings}" + (f" ({control} control)" if control else ""), cells))
    title = "accuracy (%), change vs. unedited"
    return by_model(title, ["accuracy", "change", INTERVAL], models, _labels(models), rows, width)


def _effect(row: Any) -> list[str]:
    change, low, high = (100 * float(value) for value in (row.difference, row.low, row.high))
    return [number(100 * row.edited, ".1f"), number(change, "+.1f"), interval(low, high, "+.1f")]


def patching_view(made: Findings, models: Sequence[str], width: int) -> RenderableType:
    """Rows for each data set and kind of states: the effect of anchors, of their control, and the difference."""
    means = made.patching["patching_mean"]
    models = _ordered(models, means["model"])
    rows = []
    for (data, what), own in means.groupby(["data", "what"], sort=False):
        rows.append(Row(f"{what} · {data}"))
        for part, some in own.groupby("part", sort=False):
            cells = {str(row.model): _patched(row) for row in some.itertuples(index=False)}
            rows.append(Row(_PATCHED[str(part)], cells, level=1))
    counts = [int(n) for n in means["n"]]
    notes = [f"n = {span(counts)}; 0: the answer stays, 1: it moves to that of the counterfactual prompt"]
    notes += [
        f"{model}, {data}: {lost} of {many(total, 'question')} left out: both answers begin with the same token"
        for model, data, lost, total in made.without_effect
    ]
    table = by_model("effect, mean over layers", ["effect", INTERVAL], models, _labels(models), rows, width)
    return Group(table, *(Text(clean(note), style="dim") for note in notes))


def _patched(row: Any) -> list[str]:
    effect, low, high = (float(value) for value in (row.effect, row.low, row.high))
    return [number(effect, "+.3f"), interval(low, high, "+.3f")]


def headline_view(rows: Sequence[HeadlineRow], models: Sequence[str], width: int) -> RenderableType:
    """A row per number, a column per model."""
    models = _ordered(models, (model for row in rows for model in row.values))
    shown = [Row(row.label, {model: _estimate(value) for model, value in row.values.items()}) for row in rows]
    return by_model("", ["mean", INTERVAL], models, _labels(models), shown, width)


def _estimate(one: Estimate) -> list[str]:
    return [number(float(one.mean)), interval(float(one.low), float(one.high))]


def _ordered(models: Sequence[str], found: Any) -> list[str]:
    """The models that have a value, in the order of the study."""
    there = list(dict.fromkeys(found))
    return [model for model in models if model in there] + [model for model in there if model not in models]


def _labels(models: Sequence[str]) -> list[str]:
    return [label_of(model, models) for model in models]


def verdicts_line(found: Sequence[Claim]) -> str:
    """How many claims came out which way."""
    from floatlens.claims import VERDICTS

    counted = Counter(one.verdict for one in found)
    parts = (f"{counted[verdict]} {verdict}" for verdict in VERDICTS)
    return f"claims: {', '.join(parts)}"
