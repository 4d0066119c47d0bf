"""Figures of runs of answers: scores closed book and with documents, stress curves, effects of edits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from floatlens.plots.doses import dose_panels, is_curve
from floatlens.plots.style import Look, label_of
from floatlens.report.answered import Answered
from floatlens.report.panels import Panel, Styles, common, drawn_as, points, series

if TYPE_CHECKING:
    import pandas as pd

    from floatlens.analysis.curves import Curve

__all__ = ["effect_panels", "score_panels", "stress_panels"]

_CONDITIONS = {"closed": "closed book", "rag": "with documents"}
_SHARE: dict[str, Any] = {"range": [-0.02, 1.04]}


def _points(look: Look, x: Iterable[Any], rows: pd.DataFrame, mean: str = "mean", **more: Any) -> dict[str, Any]:
    """Rows of a table as points with error bars."""
    found = {"mean": rows[mean], "low": rows["low"], "high": rows["high"], "n": rows["n"]}
    parts = {key: [float(value) for value in column] for key, column in found.items()}
    return {**drawn_as(look), "x": list(x), **parts, **more}


def score_panels(run: Answered, style: Styles) -> list[Panel]:
    """Accuracy closed book and with documents, a panel per data set, a line per model."""
    from floatlens.analysis.tables import scores

    found = scores(run.answers)
    found = found[(found["metric"] == "accuracy") & found["condition"].isin(list(_CONDITIONS))]
    places = {name: i for i, name in enumerate(one for one in _CONDITIONS if one in set(found["condition"]))}
    ticks = [[i, _CONDITIONS[name]] for name, i in places.items()]
    made = []
    for data in dict.fromkeys(found["data"]):
        own = (
            found[found["data"] == data]
            .assign(x=lambda rows: rows["condition"].map(places))
            .sort_values("x", kind="stable")
        )
        drawn = [_points(style[str(model)], rows["x"], rows) for model, rows in own.groupby("model", sort=False)]
        made.append(points(label_of(data), "", "accuracy", drawn, ticks=ticks, **_SHARE))
    return made


def stress_panels(run: Answered, test: str, style: Styles) -> list[Panel]:
    """Accuracy over the doses of one test, a panel per data set and series, a line per model."""
    from floatlens.data.stress import STRESS_TESTS

    found = [curve for curve in run.curves if curve.test == test]
    several = len({curve.data for curve in found}) > 1
    made = []
    for data, name in dict.fromkeys((curve.data, curve.series) for curve in found):
        words = [label_of(data) if several else "", STRESS_TESTS[test].series_label(name)]
        own = [curve for curve in found if (curve.data, curve.series) == (data, name)]
        made.append(_stressed(": ".join(filter(None, words)), own, style))
    return made


def _stressed(title: str, own: Sequence[Curve], style: Styles) -> Panel:
    from floatlens.data.stress import STRESS_TESTS

    test = STRESS_TESTS[own[0].test]
    places = list({point.x: test.tick(point) for curve in own for point in curve.points}.items())
    if test.summary == "area":
        drawn = [series(style[curve.model], curve.x, curve.scores) for curve in own]
        ticks: list[list[Any]] = list({p.x: [p.x, test.tick(p)] for curve in own for p in curve.points}.values())
        more = {"kind": "lines", "log": test.scale == "log2", "ticks": ticks, **_SHARE}
        return {"title": title, "x": test.axis, "y": "accuracy", "series": drawn, **more}
    at = {x: i for i, (x, _) in enumerate(places)}
    drawn = [series(style[curve.model], [at[x] for x in curve.x], curve.scores, loose=True) for curve in own]
    ticks = [[i, label] for i, (_, label) in enumerate(places)]
    return points(title, test.axis, "accuracy", drawn, ticks=ticks, **_SHARE)


def effect_panels(run: Answered, metric: str, style: Styles) -> list[Panel]:
    """What every edit does to a metric, beside its random control; a panel per data set and kind of edit."""
    found = run.effects[run.effects["metric"] == metric]
    y = {"accuracy": "accuracy, edited less plain", "kl": "divergence (nats)"}[metric]
    several = found["data"].nunique() > 1
    made = []
    for data, rows in found.groupby("data", sort=False):
        names = rows["edit"] + " " + rows["settings"]
        for name, doses in dose_panels(rows).items():
            places = {dose: i for i, dose in enumerate(doses)}
            drawn = []
            for (model, control), own in rows[names.isin(list(doses))].groupby(["model", "control"], sort=False):
                more = {"loose": not is_curve(doses), "control": bool(control)}
                drawn.append(_points(style[str(model)], names[own.index].map(places), own, "difference", **more))
            ticks = [[i, shown.replace("\n", " ")] for i, shown in enumerate(doses.values())]
            title = f"{label_of(str(data))}: {name}" if several else name
            made.append(points(title.replace("_", " "), "", y, drawn, ticks=ticks, reference=0.0))
    return common(made)
