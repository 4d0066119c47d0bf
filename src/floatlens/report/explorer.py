"""The explorer's part of a page: which traces it shows, packed in as much detail as fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from floatlens.analysis import as_rule
from floatlens.core.errors import FloatlensError
from floatlens.plots.description import Look
from floatlens.plots.plotly_renderer import look_data
from floatlens.report.detail import Detail, fitting
from floatlens.report.subjects import Choice, Seen, Shown, choose
from floatlens.report.view import packed_trace

__all__ = ["explorer_data"]

_NAMES = ("all", "masked", "committed", "answer")


def explorer_data(
    seen: Sequence[Seen], examples: int, rule: str, room: int, style: Mapping[str, Look] | None = None
) -> tuple[dict[str, Any], dict[str, str]]:
    """What the explorer shows, and its packed traces by name, in at most `room` characters."""
    rule = str(as_rule(rule))
    while True:
        choice = choose(seen, examples, style)
        fit = _packed(choice, rule, room)
        if fit is not None:
            detail, views = fit
            return _index(choice, views, detail, rule), views
        if examples <= 1:
            raise FloatlensError(
                f"one example of each model takes more than the {max(room, 0) / 1e6:.1f} MB that are left for it; "
                "allow a larger page, or give fewer models"
            )
        examples = min(examples, len(choice.examples)) * 3 // 4 or 1


def _packed(choice: Choice, rule: str, room: int) -> tuple[Detail, dict[str, str]] | None:
    """The traces in as much detail as fits; None where even the least does not."""
    sizes = [one.seen.sizes for one in choice.shown]
    detail: Detail | None = None
    while True:
        last, detail = detail, fitting(sizes, room, detail)
        if detail is last:
            return None
        views = {_name(one): packed_trace(one.seen.open(), detail, rule) for one in choice.shown}
        if sum(map(len, views.values())) <= room:
            return detail, views


def _name(one: Shown) -> str:
    return f"view-{one.subject}-{one.example}"


def _index(choice: Choice, views: Mapping[str, str], detail: Detail, rule: str) -> dict[str, Any]:
    return {
        "models": [
            {"ref": one.name, "label": one.look.label, **look_data(one.look), "kind": one.model["kind"]}
            for one in choice.subjects
        ],
        "examples": list(choice.examples),
        "views": sorted(views),
        "left_out": choice.left_out,
        "groups": [name for name in _NAMES if name in detail.groups],
        "error": detail.codes.error,
        "rule": rule,
        "rule_words": as_rule(rule).words,
    }
