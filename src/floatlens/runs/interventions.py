"""What a run of interventions came to: effects and measurements as tables, dose and response as figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from floatlens.runs.intervening import PLAIN, effects, measured, moved
from floatlens.runs.outputs import FORMATS, save_figure, save_frame, save_table

if TYPE_CHECKING:
    import pandas as pd

    from floatlens.analysis.tables import Table
    from floatlens.edits.spec import EditSpec

__all__ = ["effects_table", "publish_interventions", "specs_of"]

_CAPTIONS = {
    "accuracy": "Accuracy, edited less plain, in percentage points",
    "f1": "F1, edited less plain, in percentage points",
    "kl": "Divergence (nats) from the plain distribution, at the first token that an edit can reach",
}


def specs_of(answers: pd.DataFrame) -> list[EditSpec]:
    """The edits of a run, from the names of its conditions: kind by kind, and each by rising dose."""
    from floatlens.edits import EDITS, parse_edit

    found: list[EditSpec] = []
    for name in dict.fromkeys(answers["condition"]):
        if name != PLAIN and not name.endswith(" (random)"):
            (spec,) = parse_edit(":".join(name.split()))
            found.append(spec)
    kinds = list(EDITS)
    return sorted(found, key=lambda spec: (kinds.index(spec.name), *_by_dose(spec)))


def _by_dose(spec: EditSpec) -> tuple[list[str], list[float]]:
    values = [value for _, value in spec.settings]
    numbers = [value for value in values if isinstance(value, int | float)]
    return [str(value) for value in values if not isinstance(value, int | float)], numbers


def effects_table(rows: pd.DataFrame, metric: str = "accuracy") -> Table:
    """Edits and their doses by models, each beside its random control; `rows` are effects on one data set.

    Example: `print(effects_table(effects(answers, specs_of(answers))).to_markdown())`
    """
    from floatlens.analysis.tables import Table
    from floatlens.plots.style import label_of

    own = rows[rows["metric"] == metric]
    models = list(dict.fromkeys(own["model"]))
    cells = {
        (one["model"], one["edit"], one["settings"], one["control"]): _told(one, metric)
        for one in own.to_dict("records")
    }
    body = [
        (
            f"{edit} {settings}".strip(),
            *(cells.get((model, edit, settings, c), "") for model in models for c in (False, True)),
        )
        for edit, settings in dict.fromkeys(zip(own["edit"], own["settings"], strict=True))
    ]
    if metric != "kl":
        plain = own.groupby("model")["plain"].first()
        body.insert(0, ("plain", *(text for model in models for text in (f"{100 * plain[model]:.1f}", ""))))
    groups = (("", 1), *((label_of(model, models), 2) for model in models))
    names = ("edit", *(name for _ in models for name in ("edit", "random")))
    return Table(groups, names, tuple(body), _caption(own, metric))


def _caption(rows: pd.DataFrame, metric: str) -> str:
    least, most = (int(of(rows["n"])) for of in (min, max))
    asked = f"{most}" if least == most else f"{least} to {most}"
    return (
        f"{_CAPTIONS[metric]}; random: under the matched random control. In brackets: paired 95 % bootstrap intervals "
        f"over {asked} questions."
    )


def _told(effect: Mapping[Any, Any], metric: str) -> str:
    mean, low, high = (float(effect[name]) for name in ("difference", "low", "high"))
    if math.isnan(mean):
        return "–"
    if metric == "kl":
        return f"{mean:.3f} [{low:.3f}, {high:.3f}]"
    return f"{100 * mean:+.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def publish_interventions(
    answers: pd.DataFrame, out: Path, *, formats: Sequence[str] = FORMATS
) -> tuple[pd.DataFrame, list[Path]]:
    """Tables and figures beside the records; gives the effects and the files, none where no edit has an answer."""
    from floatlens.plots import plot_edits
    from floatlens.plots.registry import file_name

    specs = specs_of(answers)
    rows = effects(answers, specs)
    if rows.empty:
        return rows, []
    files = save_frame(rows.assign(dose=rows["dose"].map(str)), out / "tables" / "effects")
    for name, found in (("measured", measured(answers, specs)), ("moved", moved(answers, specs))):
        if not found.empty:
            files += save_frame(found, out / "tables" / name)
    data = list(dict.fromkeys(rows["data"]))
    for name in data:
        own = rows[rows["data"] == name]
        for metric in ("accuracy", "kl"):
            where = file_name(f"edits-{metric}", name if len(data) > 1 else "", [])
            files += save_figure(plot_edits(own, metric), out / "figures" / where, formats)
        for metric in _CAPTIONS:
            where = file_name(f"edits-{metric}", name if len(data) > 1 else "", [])
            files += save_table(effects_table(own, metric), out / "tables" / where)
    return rows, files
