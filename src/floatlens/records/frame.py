"""The frames that statistics take: one of answers, one of activation patching."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from floatlens.records.condition import Condition, Edited, Patched, Stressed

if TYPE_CHECKING:
    import pandas as pd

    from floatlens.records.record import Record

__all__ = ["COLUMNS", "PATCHING_COLUMNS", "answers_frame", "condition_order", "patching_frame"]

COLUMNS = (
    *("model", "model_kind", "course", "training_step", "data", "index", "id", "condition", "kind"),
    *("prediction", "accuracy", "f1", "exact_match", "parts", "misled"),
    *("decided_at", "kl", "earliest_step", "moved_share", "saved_share", "saved_passes", "schedule"),
    *("measured", "moved", "prompt", "snapshot"),
)
PATCHING_COLUMNS = (
    *("model", "model_kind", "data", "index", "id", "what", "patched", "layer"),
    *("effect", "mass", "keys"),
)
_KINDS = ("closed", "rag", "stress", "edit", "patch")


def answers_frame(records: Iterable[Record], models: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """One row per answered question, with the columns `COLUMNS`; `models` are those of the manifest, in order.

    `model_kind` is "arm" or "mdm", `condition` the Condition object, `kind` its kind. `course` and `training_step` are
    None for a model that is no snapshot of a course. Rows are ordered by model, data,
    condition and question, whatever the order in which they were answered.

    Example: `answers_frame(read_records(folder), read_manifest(folder)["models"]).groupby("kind").accuracy.mean()`
    """
    import pandas as pd

    place = {ref: number for number, ref in enumerate(models)}
    done = [one for one in records if one.what == "answer" and one.status == "done"]
    done.sort(key=lambda one: (place[one.model], one.data, condition_order(one.condition), one.index))
    rows = [_row(one, str(models[one.model]["kind"])) for one in done]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def patching_frame(records: Iterable[Record], models: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """One row per patched question, kind of states, patched keys and layer, with the columns `PATCHING_COLUMNS`.

    `what` is "kv" or "residual", `patched` "anchors" or "control". `effect` is NaN for a question whose two answers
    begin with the same token. Rows are ordered by model, data and question.

    Example: `patching_frame(read_records(folder), read_manifest(folder)["models"]).groupby("layer").effect.mean()`
    """
    import pandas as pd

    place = {ref: number for number, ref in enumerate(models)}
    done = [one for one in records if one.what == "patch" and one.status == "done"]
    done.sort(key=lambda one: (place[one.model], one.data, one.index))
    rows = [row for one in done for row in _patched_rows(one, str(models[one.model]["kind"]))]
    return pd.DataFrame(rows, columns=list(PATCHING_COLUMNS))


def _patched_rows(record: Record, model_kind: str) -> Iterator[dict[str, Any]]:
    found, condition = record.patched, record.condition
    assert found is not None
    assert isinstance(condition, Patched)
    who = {"model": record.model, "model_kind": model_kind, "data": record.data, "index": record.index, "id": record.id}
    for what in condition.what:
        for patched, mass in found.mass.items():
            effects = [math.nan] * len(found.layers) if found.effect is None else found.effect[what][patched]
            for layer, effect, share, keys in zip(found.layers, effects, mass, found.keys[patched], strict=True):
                where = {"what": what, "patched": patched, "layer": layer}
                yield who | where | {"effect": effect, "mass": share, "keys": keys}


def condition_order(condition: Condition) -> tuple[Any, ...]:
    """A sort key: closed, rag, stress tests by point, edits by dose with their controls after them."""
    rank = _KINDS.index(condition.kind)
    if isinstance(condition, Stressed):
        return rank, condition.test, condition.series, condition.x
    if isinstance(condition, Edited):
        values = [value for _, value in condition.settings]
        numbers = [value for value in values if isinstance(value, int | float)]
        words = [str(value) for value in values if not isinstance(value, int | float)]
        return rank, condition.name, words, numbers, condition.control or "", condition.seed or 0
    return (rank,)


def _row(record: Record, model_kind: str) -> dict[str, Any]:
    made: dict[str, Any] = {
        "model_kind": model_kind,
        "kind": record.condition.kind,
        "course": None,
        "training_step": None,
    }
    if record.course is not None:
        made |= {"course": record.course.name, "training_step": record.course.step}
    return {name: getattr(record, name) for name in COLUMNS if name not in made} | made
