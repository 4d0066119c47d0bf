"""Sections and headline numbers of runs of answers: questions answered, stress tests, edits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from floatlens.plots.description import Look
from floatlens.plots.style import label_of
from floatlens.report.answered import Answered, told_apart
from floatlens.report.reading import ANSWERS, READING
from floatlens.report.sections import figures_of, table

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["answer_headline", "answer_sections"]

Section = dict[str, Any]
_MOST = 4000
"""Answers that a report lists; of more only the means are in it."""
_LONGEST = 300
"""Characters of an answer that are listed."""
_SHORT = {"qa": "Answers", "stress": "Stress tests", "intervene": "Edits"}
_HOMES = {"qa": "qa", "stress": "stress", "intervene": "edits"}
_INTERVALS = ("intervals", "95 %, bootstrap over questions, seeded; differences are paired")


def answer_sections(runs: Sequence[Answered], style: Mapping[str, Look]) -> list[Section]:
    """A section per run."""
    made = {"qa": _qa, "stress": _stress, "intervene": _intervene}
    return [made[run.kind](run, style) | {"run": name} for run, name in zip(runs, told_apart(runs), strict=True)]


def _section(
    run: Answered,
    data: Mapping[str, Any],
    tables: Iterable[tuple[str, str, pd.DataFrame]],
    terms: Sequence[tuple[str, str]],
    used: Sequence[tuple[str, str]],
) -> Section:
    title, reading = READING[run.kind]
    return {
        "id": f"{run.kind}{run.suffix}",
        "title": title,
        "short": _SHORT[run.kind],
        "reading": reading,
        "notes": _notes(run),
        "figures": figures_of(_HOMES[run.kind], data, run.suffix),
        "tables": [
            {"id": f"{name}{run.suffix}", "title": caption, "open": name == "table1", "table": table(frame)}
            for name, caption, frame in tables
            if not frame.empty
        ],
        "definition": {"summary": ANSWERS[run.kind], "terms": list(terms), "used": [*_asked(run), *used, _INTERVALS]},
    }


def _asked(run: Answered) -> list[tuple[str, str]]:
    """What all runs of answers have in common: data, template, decoding, n."""
    data, models = run.answers.groupby("data", sort=False)["id"].nunique(), run.models
    used = [(f"n, {name}", f"{count} questions") for name, count in data.items()]
    used.append(("prompt template", str(run.manifest.get("template"))))
    for ref, facts in models.items():
        decoding = (facts.get("ask") or {}).get("decoding") or {}
        settings = [f"{key} {value}" for key, value in (decoding.get("settings") or {}).items()]
        used.append((f"decoding, {ref}", ", ".join([str(decoding.get("sampler")), *settings])))
    used.append(("normalisation", "of answers as in SQuAD: lower case, no punctuation, no a, an, the, single spaces"))
    return used


def _every(run: Answered) -> list[tuple[str, str, pd.DataFrame]]:
    """Every answer, where there are not too many."""
    columns = ["model", "data", "condition", "id", "prediction", "accuracy", "f1", "exact_match"]
    if len(run.answers) > _MOST:
        return []
    said = run.answers[columns].assign(
        prediction=run.answers["prediction"].str.slice(0, _LONGEST), condition=run.answers["condition"].map(str)
    )
    return [(f"{run.kind}-answers", f"Every answer ({len(said)})", said.reset_index(drop=True))]


def _notes(run: Answered) -> list[str]:
    """What the page does not hold of the answers; `records.jsonl` in the run's folder does."""
    if len(run.answers) > _MOST:
        return [
            f"The {len(run.answers)} answers are not listed here, as they are more than {_MOST}: "
            "they are in the run's records.jsonl. The numbers are those of all of them."
        ]
    cut = int((run.answers["prediction"].str.len() > _LONGEST).sum())
    if not cut:
        return []
    return [f"Of {cut} answers only the first {_LONGEST} characters are listed; the run's records.jsonl has the rest."]


def _qa(run: Answered, style: Mapping[str, Look]) -> Section:
    import pandas as pd

    from floatlens.analysis.scores import gains, scores, table_one

    columns = [(name, label_of(name)) for name in run.manifest["data"] if name in set(run.answers["data"])]
    first = table_one(run.answers, columns, labels={model: look.label for model, look in style.items()})
    gained = gains(run.answers)
    kinds = {ref: facts["kind"] for ref, facts in run.models.items()}
    over = [name for name, span in first.groups for _ in range(span)]
    names = [f"{group} {name}".strip() for group, name in zip(over, first.columns, strict=True)]
    return _section(
        run,
        {"gains": gained.assign(kind=gained["model"].map(kinds))},
        [
            ("table1", "Table 1, in per cent", pd.DataFrame(first.rows, columns=names)),
            ("qa-gains", "Gains, with intervals", gained),
            ("qa-scores", "Scores, with intervals", scores(run.answers)),
            *_every(run),
        ],
        [("Table 1", first.caption)],
        [],
    )


def _stress(run: Answered, style: Mapping[str, Look]) -> Section:
    from floatlens.analysis.stress import agreement, curves_frame, robustness_frame
    from floatlens.data.stress import STRESS_TESTS

    tests = list(dict.fromkeys(curve.test for curve in run.curves))
    used = [(key, _settings(value)) for key, value in (run.manifest.get("stress") or {}).items()]
    return _section(
        run,
        {"stress": run.curves},
        [
            ("stress-robustness", "Robustness", robustness_frame(run.curves)),
            ("stress-curves", "Every point of the curves", curves_frame(run.curves)),
            ("stress-agreement", "Agreement over orders", agreement(run.answers)),
            *_every(run),
        ],
        [(one, f"{STRESS_TESTS[one].about} {STRESS_TESTS[one].note}".strip()) for one in ["clean", *tests]],
        used,
    )


def _settings(value: Any) -> str:
    """A setting of the stress tests, or all settings of one of them."""
    return ", ".join(f"{key} {one}" for key, one in value.items()) if isinstance(value, dict) else str(value)


def _intervene(run: Answered, style: Mapping[str, Look]) -> Section:
    from floatlens.analysis.effects import measured
    from floatlens.edits import EDITS

    effects = run.effects.assign(dose=run.effects["dose"].map(str))
    names = list(dict.fromkeys(spec.name for spec in run.edits))
    return _section(
        run,
        {"edits": run.effects},
        [
            ("intervene-effects", "Effects, with intervals", effects),
            ("intervene-measured", "Drift and absorption under edits", measured(run.answers)),
            *_every(run),
        ],
        [(name.replace("_", " "), EDITS[name].about) for name in names],
        [],
    )


# -- headline numbers -------------------------------------------------------------------------------------------------


def answer_headline(runs: Sequence[Answered]) -> list[dict[str, Any]]:
    """Rows for the top of the report: gains, robustness, what edits cost."""
    makers: dict[str, Callable[[Answered], list[dict[str, Any]]]] = {
        "qa": _gained,
        "stress": _robust,
        "intervene": _cost,
    }
    named = zip(runs, told_apart(runs), strict=True)
    return [row | {"run": name} for run, name in named for row in makers[run.kind](run)]


def _row(run: Answered, title: str, hint: str, rows: pd.DataFrame, mean: str, unit: str = "") -> dict[str, Any]:
    values = {
        str(row["model"]): {"mean": row[mean], "low": row["low"], "high": row["high"], "n": row["n"]}
        for row in rows.to_dict("records")
    }
    return {"title": title, "hint": hint, "section": f"{run.kind}{run.suffix}", "values": values, "unit": unit}


def _gained(run: Answered) -> list[dict[str, Any]]:
    from floatlens.analysis.scores import gains

    found = gains(run.answers)
    found = found[(found["metric"] == "accuracy") & (found["data"] != "average")]
    hint = "accuracy with documents minus accuracy closed book, same questions"
    return [
        _row(run, f"Gain from documents, {label_of(str(data))}", hint, own, "gain", "pp")
        for data, own in found.groupby("data", sort=False)
    ]


def _robust(run: Answered) -> list[dict[str, Any]]:
    from floatlens.analysis.stress import robustness_frame
    from floatlens.data.stress import STRESS_TESTS

    found = robustness_frame(run.curves)
    hint = "accuracy over all doses ÷ accuracy with the gold documents alone; 1 = unaffected"
    rows = []
    for (data, test), own in found.groupby(["data", "test"], sort=False):
        if STRESS_TESTS[str(test)].headline:
            rows.append(_row(run, f"Robustness to {test}, {label_of(str(data))}", hint, own, "robustness"))
    return rows


def _cost(run: Answered) -> list[dict[str, Any]]:
    found = run.effects[(run.effects["metric"] == "accuracy") & ~run.effects["control"]]
    rows = []
    for (data, edit), own in found.groupby(["data", "edit"], sort=False):
        first = own[own["settings"] == own["settings"].iloc[0]]
        name = " ".join([str(edit).replace("_", " "), str(first["settings"].iloc[0])]).strip()
        hint = "accuracy under the edit minus unedited, same questions"
        rows.append(_row(run, f"Effect of {name}, {label_of(str(data))}", hint, first, "difference", "pp"))
    return rows
