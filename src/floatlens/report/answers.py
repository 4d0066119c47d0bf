"""Sections of the report about a study's answers: with and without documents, under stress, and under edits.

The numbers come from `qa` and `study`; here they become panels and words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from floatlens.figures.style import Look, label_of, looks_of
from floatlens.qa.conditions import TESTS
from floatlens.qa.curves import Curve, curves, robustness_frame
from floatlens.qa.tables import scores
from floatlens.report.panels import Panel, points
from floatlens.report.sections import table
from floatlens.study.answers import asked_points, edited_answers, open_answers
from floatlens.study.choosing import MODES
from floatlens.study.intervening import effects
from floatlens.study.interventions import specs_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["answer_sections"]

_QUESTIONS = ("intervals", "95 %, bootstrap over questions, seeded")
_ACCURACY = ("accuracy", "a normalised accepted answer is part of the normalised answer")


def answer_sections(run: Path) -> list[dict[str, Any]]:
    """What a study's answers show, as far as it asked for them."""
    answers, manifest = open_answers(run)
    if answers.empty:
        return []
    style = looks_of({ref: facts["kind"] == "arm" for ref, facts in manifest["models"].items()})
    lines = curves(answers, asked_points(manifest))
    made = (_answers(answers, style), _stress(lines, style), _edits(edited_answers(answers), style))
    return [section for section in made if section is not None]


def _section(id: str, words: tuple[str, str], figures: list[dict[str, Any]], frame: pd.DataFrame) -> dict[str, Any]:
    summary = "One prompt for all models; answers are scored after SQuAD's normalisation."
    used = [_ACCURACY, _QUESTIONS]
    return {
        "id": id,
        "title": words[0],
        "reading": words[1],
        "figures": figures,
        "table": table(frame),
        "definition": {"summary": summary, "terms": [], "used": used},
    }


def _series(look: Look, x: Sequence[Any], rows: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Means with their intervals over x; a row has mean, low, high and n."""
    parts = {key: [float(row[key]) for row in rows] for key in ("mean", "low", "high", "n")}
    return {"name": look.label, "colour": look.colour, "arm": look.arm, "x": list(x), **parts}


def _answers(answers: pd.DataFrame, style: Mapping[str, Look]) -> dict[str, Any] | None:
    frame = scores(answers[answers["condition"].isin(MODES)])
    if frame.empty:
        return None
    panels = []
    for data in dict.fromkeys(frame["data"]):
        drawn = []
        for model, look in style.items():
            own = frame[(frame["data"] == data) & (frame["model"] == model) & (frame["metric"] == "accuracy")]
            rows = [row for mode in MODES for row in own[own["condition"] == mode].to_dict("records")]
            if rows:
                drawn.append(_series(look, [row["condition"] for row in rows], rows))
        panels.append(points(label_of(str(data)), "", "accuracy", drawn, range=[-0.03, 1.03]))
    words = (
        "Answers: do documents help?",
        "Accuracy closed book and with documents, on the same questions. The steeper a line, the more a model gains "
        "from what it is shown; a model that knows the answer by heart has little to gain.",
    )
    figure = {"id": "gain", "title": "Closed book and with documents", "width": 330, "panels": panels}
    return _section("answers", words, [figure], frame)


def _stress(lines: Sequence[Curve], style: Mapping[str, Look]) -> dict[str, Any] | None:
    figures = []
    for test in dict.fromkeys(curve.test for curve in lines):
        own = [curve for curve in lines if curve.test == test]
        keys = dict.fromkeys((curve.data, curve.series) for curve in own)
        panels = [_curve_panel([c for c in own if (c.data, c.series) == key], test, style) for key in keys]
        figures.append({"id": f"stress-{test}", "title": TESTS[test].about, "width": 330, "panels": panels})
    if not figures:
        return None
    words = (
        "Stress tests: what does accuracy bear?",
        "The same questions with other documents around the gold one. A flat line bears it; robustness, in the table, "
        "is the area under a line divided by the accuracy with the gold documents alone.",
    )
    return _section("stress", words, figures, robustness_frame(list(lines)))


def _curve_panel(lines: Sequence[Curve], test: str, style: Mapping[str, Look]) -> Panel:
    drawn = []
    for curve in lines:
        found = curve.scores
        parts = {key: getattr(found, key) for key in ("mean", "low", "high", "n")}
        rows = [{key: float(values[i]) for key, values in parts.items()} for i in range(len(curve.points))]
        scaled = TESTS[test].summary == "area"
        drawn.append(_series(style[curve.model], curve.x if scaled else [p.label for p in curve.points], rows))
    series = "" if lines[0].series == test else f", {lines[0].series}"
    return points(f"{label_of(lines[0].data)}{series}", TESTS[test].axis, "accuracy", drawn, range=[-0.03, 1.03])


def _edits(answers: pd.DataFrame, style: Mapping[str, Look]) -> dict[str, Any] | None:
    if answers.empty:
        return None
    frame = effects(answers, specs_of(answers))
    if frame.empty:
        return None
    own = frame[frame["metric"] == "accuracy"]
    panels = []
    for data in dict.fromkeys(own["data"]):
        drawn = []
        for model, look in style.items():
            rows = own[(own["data"] == data) & (own["model"] == model)].to_dict("records")
            names = [f"{row['edit']} {row['settings']}{' (random)' if row['control'] else ''}" for row in rows]
            values = [{**{key: row[key] for key in ("low", "high", "n")}, "mean": row["difference"]} for row in rows]
            if rows:
                drawn.append(_series(look, names, values))
        panels.append(points(label_of(str(data)), "", "accuracy less plain", drawn, reference=0.0))
    words = (
        "Edits of attention: are anchors needed?",
        "How accuracy changes on the same questions when attention is edited, each edit beside a random control that "
        "changes as much. Below 0 the edit hurts; it speaks about anchors where it hurts more than its control.",
    )
    shown = {"id": "interventions-accuracy", "title": "Accuracy lost to edits and controls", "width": 480}
    return _section("edits", words, [{**shown, "panels": panels}], frame.assign(dose=frame["dose"].map(str)))
