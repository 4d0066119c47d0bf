"""The explorer: which traces it shows, packed in as much detail as fits, in a report or alone in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from floatlens.analysis import as_rule
from floatlens.analysis.measure import Measure
from floatlens.analysis.rules import DEFAULT_RULE
from floatlens.analysis.sources import Traces, trace_files
from floatlens.core.errors import FloatlensError
from floatlens.core.files import write_atomically
from floatlens.plots.description import Look
from floatlens.plots.plotly_renderer import look_data
from floatlens.report.detail import Detail, fitting
from floatlens.report.render import explorer_page
from floatlens.report.subjects import Choice, Seen, choose, look
from floatlens.report.view import packed_trace
from floatlens.traces import Trace, open_trace

__all__ = ["LARGEST", "Explorer", "explore", "explorer_data"]

LARGEST = 15_000_000
"""Characters of a page unless another limit is given: most mail accepts this."""


def explorer_data(
    seen: Sequence[Seen],
    examples: int,
    rule: str,
    room: int,
    style: Mapping[str, Look] | None = None,
    measure: Measure = "attention",
) -> tuple[dict[str, Any], dict[str, str]]:
    """What the explorer shows, and its packed traces by name, in at most `room` characters."""
    rule = str(as_rule(rule))
    while True:
        choice = choose(seen, examples, style)
        fit = _packed(choice, rule, room, measure)
        if fit is not None:
            detail, views = fit
            return _index(choice, views, detail, rule, measure), views
        if examples <= 1:
            raise FloatlensError(
                f"one example of each model takes more than the {max(room, 0) / 1e6:.1f} MB that are left for it; "
                "allow a larger page, or give fewer models"
            )
        examples = min(examples, len(choice.examples)) * 3 // 4 or 1


def _packed(choice: Choice, rule: str, room: int, measure: Measure) -> tuple[Detail, dict[str, str]] | None:
    """The traces in as much detail as fits; None where even the least does not."""
    sizes = [one.sizes for one in choice.shown.values()]
    detail: Detail | None = None
    while True:
        last, detail = detail, fitting(sizes, room, detail)
        if detail is last:
            return None
        views = {
            f"view-{subject}-{example}": packed_trace(one.open(), detail, rule, measure)
            for (subject, example), one in choice.shown.items()
        }
        if sum(map(len, views.values())) <= room:
            return detail, views


def _index(choice: Choice, views: Mapping[str, str], detail: Detail, rule: str, measure: Measure) -> dict[str, Any]:
    return {
        "models": [
            {"ref": name, "label": own.label, **look_data(own), "kind": kind}
            for name, (own, kind) in choice.subjects.items()
        ],
        "examples": choice.examples,
        "views": sorted(views),
        "left_out": choice.left_out,
        "groups": list(detail.groups),
        "error": detail.codes.error,
        "rule": rule,
        "rule_words": as_rule(rule).words
        + ("" if measure == "attention" else f"; {measure} is shown in place of attention"),
    }


class Explorer:
    """The explorer as a page: shown by notebooks, and saved with `save("watch.html")`."""

    def __init__(self, page: str, about: str, height: int) -> None:
        self.page = page
        self._about = about
        self._height = height

    def _repr_html_(self) -> str:
        frame = 'sandbox="allow-scripts allow-downloads" loading="lazy" title="floatlens explorer"'
        size = f'width="100%" height="{self._height}" style="border:0;border-radius:8px"'
        return f'<iframe {frame} {size} srcdoc="{escape(self.page, quote=True)}"></iframe>'

    def save(self, path: str | Path) -> Path:
        """Write the page to a file that opens in any browser."""
        target = Path(path)
        write_atomically(target, self.page.encode())
        return target

    def __repr__(self) -> str:
        return f"Explorer({self._about}, {len(self.page) / 1e6:.1f} MB; .save(path) writes it)"


def explore(traces: Traces, *, rule: str = DEFAULT_RULE, examples: int = 12, height: int = 860) -> Explorer:
    """Watch attention move, step by step, in one trace or several: the explorer of the report.

    Traces of controls are shown only where there are no others.

    Example: `fl.explore(trace)` as the last line of a notebook cell, or `fl.explore("runs/a").save("watch.html")`
    """
    every = list(_seen(traces))
    if not every:
        raise FloatlensError("no traces to explore")
    seen = [one for one in every if not one.is_control] or every
    index, views = explorer_data(seen, examples, rule, LARGEST)
    names = ", ".join(model["label"] for model in index["models"])
    return Explorer(explorer_page(index, views), f"{names}: {len(views)} of {len(seen)} traces", height)


def _seen(traces: Traces) -> Iterable[Seen]:
    if isinstance(traces, Trace):
        yield look(traces)
    elif isinstance(traces, str | Path):
        yield from (look(open_trace(file), file) for file in trace_files(Path(traces)))
    else:
        for one in traces:
            yield from _seen(one)
