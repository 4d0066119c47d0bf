"""What statistics over records need to know about conditions: their order in tables, and the doses of edits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from floatlens.edits import EDITS
from floatlens.records.condition import RAG, Edited

__all__ = ["DosePanel", "dose", "dose_panels", "draws_of", "edited", "edits_of", "exposed", "rank"]

_CURVE = 3
"""This many doses of one variant make a curve."""


def rank(name: str, names: Iterable[str]) -> int:
    """The place of a name; after all others where it is not among them."""
    known = list(names)
    return known.index(name) if name in known else len(known)


def edited(answers: pd.DataFrame) -> pd.DataFrame:
    """The answers under edits, with the unedited answers (`rag`) of the same data sets that they are compared with."""
    edits = answers["kind"] == "edit"
    return answers[edits | ((answers["kind"] == "rag") & answers["data"].isin(set(answers.loc[edits, "data"])))]


def edits_of(answers: pd.DataFrame) -> list[Edited]:
    """The edits in the answers without their controls: in the order of the registry, each by rising dose."""
    found = {one.edited: None for one in dict.fromkeys(answers["condition"]) if isinstance(one, Edited)}
    return sorted(
        found, key=lambda one: (rank(one.name, EDITS), one.name, _words(one), [value for _, value in _doses(one)])
    )


def draws_of(answers: pd.DataFrame) -> dict[Edited, list[Edited]]:
    """The conditions of each edit and of each of its controls: one, or one for each draw of a control. Edits are in the
    order of `edits_of`, each before its controls."""
    there = [one for one in dict.fromkeys(answers["condition"]) if isinstance(one, Edited)]
    found: dict[Edited, list[Edited]] = {}
    for edit in edits_of(answers):
        for one in sorted(there, key=lambda one: (one.control or "", one.seed or 0)):
            if one.edited == edit:
                found.setdefault(one.pooled, []).append(one)
    return found


def exposed(answers: pd.DataFrame, edit: Edited) -> set[str]:
    """Ids of the questions whose answer an edit can change: unedited, at least one token of it (other than the end of
    the text) was decided in a step that the edit reaches. `answers` are those of one model to one data set."""
    edited = [one for one in dict.fromkeys(answers["condition"]) if isinstance(one, Edited) and one.edited == edit]
    own = answers.loc[answers["condition"].isin(edited), "earliest_step"]
    if own.dropna().empty:
        return set()
    first = int(own.dropna().min())
    unedited = answers[answers["condition"] == RAG]
    return {
        str(id)
        for id, steps in zip(unedited["id"], unedited["decided_at"], strict=True)
        if steps is not None and any(step >= first for step in steps)
    }


def dose(condition: Edited) -> float | str:
    """What a dose-response curve has on its axis: the first numeric setting, else all settings in words."""
    numbers = _doses(condition)
    return float(numbers[0][1]) if numbers else condition.settings_label


def _doses(condition: Edited) -> list[tuple[str, float]]:
    return [(k, v) for k, v in condition.settings if isinstance(v, int | float) and not isinstance(v, bool)]


def _words(condition: Edited) -> list[str]:
    doses = dict(_doses(condition))
    return [str(value) for key, value in condition.settings if key not in doses]


@dataclass(frozen=True)
class DosePanel:
    """The edits that share a panel. `ticks` names each by what sets it apart; a `curve` may be joined by a line."""

    title: str
    ticks: dict[Edited, str]
    curve: bool


def dose_panels(conditions: Iterable[Edited]) -> list[DosePanel]:
    """A variant of an edit (its settings other than numbers) with three doses or more has a panel of its own. The
    remaining variants of an edit share one panel."""
    variants: dict[tuple[str, tuple[Any, ...]], list[Edited]] = {}
    for one in dict.fromkeys(condition.edited for condition in conditions):
        doses = dict(_doses(one))
        fixed = tuple(pair for pair in one.settings if pair[0] not in doses)
        variants.setdefault((one.name, fixed), []).append(one)
    panels: dict[str, list[tuple[Edited, list[tuple[str, Any]], bool]]] = {}
    for (name, fixed), held in variants.items():
        alone = len(held) >= _CURVE or all(other == fixed for edit, other in variants if edit == name)
        words = Edited(name=name, settings=fixed).label if alone else name
        for one in held:
            doses = dict(_doses(one))
            shown = [pair for pair in one.settings if not alone or pair[0] in doses]
            panels.setdefault(words, []).append((one, shown, len(shown) == 1 and shown[0][0] in doses))
    return [
        DosePanel(
            title, {one: _tick(shown) for one, shown, _ in held}, len(held) >= _CURVE and all(x for *_, x in held)
        )
        for title, held in panels.items()
    ]


def _tick(settings: list[tuple[str, Any]]) -> str:
    """Settings on lines of their own; a long list (of heads) by its length, a mode without that word."""
    lines = []
    for key, value in settings:
        alone = Edited(name=key, settings=((key, value),)).settings_label
        lines.append(f"{len(value)} {key}" if isinstance(value, tuple) else str(value) if key == "mode" else alone)
    return "\n".join(lines) or "on"
