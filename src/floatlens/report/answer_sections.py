"""Sections on answers: questions with and without documents, stress tests, edits. One entry of `SECTIONS` for each.

A section selects its answers, names the statistics its figures need, and lists its tables. Statistics come from
`analysis`; other packages add sections through the entry-point group "floatlens.sections".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from floatlens.analysis.conditions import edited
from floatlens.core.registry import Registry
from floatlens.plots.style import label_of
from floatlens.report.inputs import RunAnswers, run_name
from floatlens.report.sections import figures_of, table

if TYPE_CHECKING:
    import pandas as pd

    Tables = list[tuple[str, str, pd.DataFrame]]

__all__ = ["SECTIONS", "AnswerSection", "Content", "answer_sections"]

_MOST = 4000
"""Answers that a report lists; with more, only the means are in it."""
_LONGEST = 300
"""Characters of an answer that are listed."""
_INTERVALS = (
    "intervals",
    "95 %, over questions: Wilson for scores, Tango for their paired differences, "
    "Hall for KL, jackknife for robustness",
)


_MISLED = (
    "misled",
    "The answer states a wrong answer that the data names, other than as part of an accepted one. Right: it states an "
    "accepted answer and no wrong one. None: it states neither.",
)


@dataclass(frozen=True, eq=False)
class Content:
    """What a section shows: data for its figures, tables (name, caption, frame), terms and settings with meanings."""

    data: Mapping[str, Any]
    tables: Tables
    terms: Sequence[tuple[str, str]] = ()
    used: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class AnswerSection:
    """`kind` is that of the conditions it is about. `select` gives its answers, `content` what it shows of them."""

    kind: str
    short: str
    title: str
    reading: str
    method: str
    select: Callable[[pd.DataFrame], pd.DataFrame]
    content: Callable[[pd.DataFrame, RunAnswers], Content]


SECTIONS: Registry[AnswerSection] = Registry(
    "section",
    "floatlens.sections",
    {
        "qa": "floatlens.report.answer_sections:QA",
        "stress": "floatlens.report.answer_sections:STRESS",
        "collection": "floatlens.report.collection_section:COLLECTION",
        "edits": "floatlens.report.answer_sections:EDITS",
    },
)


def answer_sections(runs: Sequence[RunAnswers]) -> list[dict[str, Any]]:
    """Every section that the answers of the runs allow, those of a kind together."""
    made = []
    for name, section in SECTIONS.items():
        held = [(run, own) for run in runs if len(own := section.select(run.frame))]
        for place, (run, own) in enumerate(held):
            suffix = "" if place == 0 else f"-{place + 1}"
            told = None if len(held) == 1 else run_name(run, [other for other, _ in held])
            made.append(_made(name, section, run, own, suffix) | {"run": told, "of": run})
    return made


def _made(name: str, section: AnswerSection, run: RunAnswers, own: pd.DataFrame, suffix: str) -> dict[str, Any]:
    content = section.content(own, run)
    tables = [*content.tables, *_every(name, own)]
    return {
        "id": f"{name}{suffix}",
        "suffix": suffix,
        "kind": section.kind,
        "title": section.title,
        "short": section.short,
        "reading": section.reading,
        "notes": _notes(own),
        "figures": figures_of(name, content.data, suffix),
        "tables": [
            {"id": f"{id}{suffix}", "title": caption, "open": id == "table1", "table": table(frame)}
            for id, caption, frame in tables
            if not frame.empty
        ],
        "definition": {
            "summary": section.method,
            "terms": list(content.terms),
            "used": [*_asked(own, run), *content.used, _INTERVALS],
        },
    }


def _asked(own: pd.DataFrame, run: RunAnswers) -> list[tuple[str, str]]:
    """What all answers have in common: data, template, decoding, n."""
    used = [(f"n, {name}", f"{n} questions") for name, n in own.groupby("data", sort=False)["id"].nunique().items()]
    used.append(("prompt template", str(run.manifest.get("template"))))
    for ref, facts in run.models.items():
        decoding = (facts.get("ask") or {}).get("decoding") or {}
        settings = [f"{key} {value}" for key, value in (decoding.get("settings") or {}).items()]
        used.append((f"decoding, {ref}", ", ".join([str(decoding.get("sampler")), *settings])))
    used.append(("normalisation", "of answers as in SQuAD: lower case, no punctuation, no a, an, the, single spaces"))
    return used


def _every(name: str, own: pd.DataFrame) -> Tables:
    """Every answer, where there are not too many."""
    if len(own) > _MOST:
        return []
    columns = ["model", "data", "condition", "id", "prediction", "accuracy", "f1", "exact_match"]
    columns += [name for name in ("parts", "misled") if own[name].notna().any()]
    said = own[columns].assign(
        prediction=own["prediction"].str.slice(0, _LONGEST), condition=[one.label for one in own["condition"]]
    )
    return [(f"{name}-answers", f"Every answer ({len(said)})", said.reset_index(drop=True))]


def _notes(own: pd.DataFrame) -> list[str]:
    """Which answers are not on the page; records.jsonl in the run folder has them."""
    if len(own) > _MOST:
        return [
            f"The {len(own)} answers are not listed here, as they are more than {_MOST}: they are in the run's "
            "records.jsonl. All numbers are computed from all of them."
        ]
    cut = int((own["prediction"].str.len() > _LONGEST).sum())
    told = f"Of {cut} answers only the first {_LONGEST} characters are listed; the run's records.jsonl has the rest."
    return [told] if cut else []


# -- questions --------------------------------------------------------------------------------------------------------


def _questions(answers: pd.DataFrame) -> pd.DataFrame:
    """Closed-book answers and those with documents; without closed-book ones, `rag` belongs to the edits."""
    kinds = set(answers["kind"])
    chosen = answers["kind"].isin(["closed", "rag"])
    return answers[chosen if "closed" in kinds or "edit" not in kinds else chosen & False]


def _qa(own: pd.DataFrame, run: RunAnswers) -> Content:
    import pandas as pd

    from floatlens.analysis.scores import gains, scores, table_one

    models = list(dict.fromkeys(own["model"]))
    columns = [(name, label_of(name)) for name in run.manifest["data"] if name in set(own["data"])]
    first = table_one(own, columns, labels={model: label_of(model, models) for model in models})
    over = [name for name, span in first.groups for _ in range(span)]
    names = [f"{group} {name}".strip() for group, name in zip(over, first.columns, strict=True)]
    gained = gains(own)
    tables = [
        ("table1", "Table 1, in percent", pd.DataFrame(first.rows, columns=names)),
        ("qa-gains", "Gains, with intervals", gained),
        ("qa-scores", "Scores, with intervals", scores(own)),
    ]
    kinds = dict(zip(own["model"], own["model_kind"], strict=True))
    terms = [("Table 1", first.caption), *([_MISLED] if own["misled"].notna().any() else [])]
    return Content({"gains": gained.assign(kind=gained["model"].map(kinds))}, tables, terms)


QA = AnswerSection(
    "rag",
    "Answers",
    "Answers: how much do documents help?",
    "Each line goes from a model's accuracy without documents (closed book, the dash) to its accuracy with them (RAG, "
    "the marker), on the same questions. Its length is the gain; the whisker is the gain's interval.",
    "Accuracy: the answer states an accepted answer, judged by its kind (docs/qa.md). F1: over bags of words. "
    "A gain is the score with documents minus the score closed book, on the questions answered in both.",
    _questions,
    _qa,
)


# -- stress tests -----------------------------------------------------------------------------------------------------


def _stress(own: pd.DataFrame, run: RunAnswers) -> Content:
    from floatlens.analysis.stress import agreement, curves, curves_frame, misled_curves, robustness_frame
    from floatlens.data.stress import STRESS_TESTS

    found, misled = curves(own), misled_curves(own)
    tests = list(dict.fromkeys(curve.test for curve in found))
    tables = [
        ("stress-robustness", "Robustness", robustness_frame(found)),
        ("stress-curves", "Every point of the curves", curves_frame([*found, *misled])),
        ("stress-agreement", "Agreement over orders", agreement(own)),
    ]
    terms = [(one, f"{STRESS_TESTS[one].about} {STRESS_TESTS[one].note}".strip()) for one in ["clean", *tests]]
    terms += [_MISLED] if misled else []
    used = [(key, _settings(value)) for key, value in (run.manifest.get("stress") or {}).items()]
    return Content({"stress": found, "misled": misled}, tables, terms, used)


def _settings(value: Any) -> str:
    """A setting of the stress tests, or all settings of one of them."""
    return ", ".join(f"{key} {one}" for key, one in value.items()) if isinstance(value, dict) else str(value)


STRESS = AnswerSection(
    "stress",
    "Stress tests",
    "Stress tests: how robust are the models?",
    "Each line is a model's accuracy as one thing gets worse: noise among the documents, the position of the gold "
    "document, misleading documents, their order. A flat line is robust. Where it starts shows how good the model is, "
    "its slope how robust. Where the data names wrong answers, a second figure shows how often one of them is stated.",
    "Each point is the accuracy on the same questions after one seeded transformation. Robustness is the area under a "
    "curve divided by the width of its axis (the mean where the axis has no scale) and by the accuracy with the gold "
    "documents alone (masks: by that at the fewest masks).",
    lambda answers: answers[answers["kind"] == "stress"],
    _stress,
)


# -- edits ------------------------------------------------------------------------------------------------------------


def _edits(own: pd.DataFrame, run: RunAnswers) -> Content:
    from floatlens.analysis.conditions import edits_of
    from floatlens.analysis.effects import edit_effects, measured
    from floatlens.edits import EDITS as KNOWN

    effects = edit_effects(own)
    tables = [
        (
            "edits-effects",
            "Effects, with intervals",
            effects.drop(columns="condition").assign(dose=effects["dose"].map(str)),
        ),
        ("edits-measured", "Drift and absorption under edits", measured(own)),
    ]
    names = dict.fromkeys(one.name for one in edits_of(own))
    return Content({"edits": effects}, tables, [(name.replace("_", " "), KNOWN[name].about) for name in names])


EDITS = AnswerSection(
    "edit",
    "Edits",
    "Edits: does attention matter?",
    "Attention is edited while the model writes, and its answers are compared with its unedited ones: below 0 the edit "
    "costs answers. Crosses and plus signs are random controls: crosses move as much attention as the edit, plus signs "
    "change as many keys or heads. Only a difference from the cross is due to the anchors. The second figure shows how "
    "far the edit shifts the first token: 0 is not at all.",
    "Each question is answered unedited, under each edit, and under the edit's matched random controls; several draws "
    "of a control are averaged question by question. Columns that end in exposed are over the questions whose answer "
    "the edit can change: it was not complete before the first step that the edit reaches. Changes are relative to "
    "unedited, on the same questions. The KL divergence is that of the first distribution that the edit can change.",
    edited,
    _edits,
)
