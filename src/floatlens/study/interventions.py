"""What a run of interventions came to: effects and measurements as tables, dose and response as figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from floatlens.study.intervening import PLAIN, effects, measured, moved
from floatlens.study.publish import FORMATS, save_figure, save_frame

if TYPE_CHECKING:
    import pandas as pd

    from floatlens.qa.edited import EditSpec

__all__ = ["publish_interventions", "specs_of"]


def specs_of(answers: pd.DataFrame) -> list[EditSpec]:
    """The edits of a run, from the names of its conditions."""
    from floatlens.qa.edited import parse_edit

    found: list[EditSpec] = []
    for name in dict.fromkeys(answers["condition"]):
        if name != PLAIN and not name.endswith(" (random)"):
            (spec,) = parse_edit(":".join(name.split()))
            found.append(spec)
    return found


def publish_interventions(
    answers: pd.DataFrame, out: Path, *, formats: Sequence[str] = FORMATS
) -> tuple[pd.DataFrame, list[Path]]:
    """Tables and figures beside the records; gives the effects and the files."""
    from floatlens.figures.interventions import plot_interventions
    from floatlens.figures.registry import file_name

    specs = specs_of(answers)
    rows = effects(answers, specs)
    files = save_frame(rows.assign(dose=rows["dose"].map(str)), out / "tables" / "effects")
    for name, found in (("measured", measured(answers, specs)), ("moved", moved(answers, specs))):
        if not found.empty:
            files += save_frame(found, out / "tables" / name)
    data = list(dict.fromkeys(rows["data"]))
    for name in data:
        own = rows[rows["data"] == name]
        for metric in ("accuracy", "kl"):
            where = file_name(f"interventions-{metric}", name if len(data) > 1 else "", [])
            files += save_figure(plot_interventions(own, metric), out / "figures" / where, formats)
    return rows, files
