"""A section per analysis: how to read it, its figures, the table behind them and the definition that was used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from floatlens.analysis import ANALYSES, Group, Result, as_rule
from floatlens.analysis.measure import coverage
from floatlens.plots.plotly_renderer import as_data
from floatlens.plots.registry import FIGURES, describe_figures

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["definition", "figures_of", "sections", "table"]


def figures_of(section: str, data: Mapping[str, Any], suffix: str = "") -> list[dict[str, Any]]:
    """The figures of a section that the data allow, as the page draws them; `suffix` sets runs of one kind apart."""
    wanted = [name for name, kind in FIGURES.items() if kind.on_page and kind.home == section]
    return [
        {"type": kind, **as_data(figure, f"{name}{suffix}")}
        for kind in wanted
        for name, figure in describe_figures(data, [kind]).figures.items()
    ]


def sections(results: Mapping[str, Result]) -> list[dict[str, Any]]:
    """Everything that a section shows: analyses in the order of `ANALYSES`, then others."""
    made = []
    for name in [*(known for known in ANALYSES if known in results), *(one for one in results if one not in ANALYSES)]:
        result = results[name]
        if not result.groups:
            continue
        made.append(
            {
                "id": name,
                "title": result.words.heading or name,
                "short": result.words.title or name,
                "reading": result.words.reading,
                "figures": figures_of(name, results),
                "tables": [{"id": name, "title": "The numbers", "open": False, "table": table(result.to_frame())}],
                "definition": definition(result),
            }
        )
    return made


def definition(result: Result) -> dict[str, Any]:
    """What was measured, how and on how many: from the analysis' own words and settings."""
    words = result.words
    terms = [(name, f"{one.definition}{f' [{one.unit}]' if one.unit else ''}") for name, one in words.variables.items()]
    settings = dict(result.settings)
    used: list[tuple[str, str]] = []
    if "rule" in settings:
        rule = str(as_rule(settings.pop("rule")))
        used.append(("anchor rule", f"{rule}: {as_rule(rule).words}"))
    measure = settings.pop("measure", "attention")
    if measure != "attention":
        used.append(("measure", f"{measure}: the length of what a key adds to a row's output, as a share of all keys"))
    else:
        used += [(f"attention of {group.label}", said) for group in result if (said := coverage(group.facts))]
    if "group" in settings:
        used.append(("queries", str(settings.pop("group"))))
    if used:
        used.append(("normalisation", f"shares of all {measure}; over the keys they sum to 1"))
    used += [(key.replace("_", " "), str(value)) for key, value in settings.items()]
    used += [(f"n, {group.label}", _counted(group)) for group in result]
    used.append(
        (
            "intervals",
            "95 %, over questions; t intervals corrected for skewness (Hall 1992); none for a single question",
        )
    )
    return {"summary": words.method, "terms": terms, "used": used}


def _counted(group: Group) -> str:
    """How many questions, and how many traces where these are more."""
    asked = f"{group.n} {'question' if group.n == 1 else 'questions'}"
    return asked if group.n == group.traces else f"{asked} in {group.traces} traces"


def table(frame: pd.DataFrame) -> dict[str, Any]:
    """A frame by columns; numbers at full precision, so that a CSV made from it has the same values."""
    columns, numeric = [], []
    for name in frame.columns:
        column = frame[name]
        kind = getattr(column.dtype, "kind", "O")  # whole numbers of which some are missing have a type of pandas
        numeric.append(kind in "iuf")
        column = column.map(str) if kind == "b" else column
        missing = column.isna().tolist()
        columns.append([None if gone else value for gone, value in zip(missing, column.tolist(), strict=True)])
    return {"names": [str(name) for name in frame.columns], "numeric": numeric, "columns": columns}
