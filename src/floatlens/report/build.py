"""`report`: what was handed over, as one HTML file. Nothing is analysed here and no run is opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from floatlens.analysis import ANALYSES
from floatlens.analysis.measure import Measure
from floatlens.analysis.rules import DEFAULT_RULE
from floatlens.claims import floating_sentence
from floatlens.core.errors import FloatlensError
from floatlens.core.files import write_atomically
from floatlens.plots.description import Look
from floatlens.plots.style import looks_of, shared_looks
from floatlens.report.answer_sections import answer_sections
from floatlens.report.cache_section import cache_sections
from floatlens.report.codec import as_json, deflated
from floatlens.report.evolution_section import evolution_sections
from floatlens.report.explorer import LARGEST, explorer_data
from floatlens.report.findings import claim_rows, headline_rows, models
from floatlens.report.inputs import Inputs
from floatlens.report.patching_section import patching_sections
from floatlens.report.render import report_page
from floatlens.report.sections import sections
from floatlens.report.subjects import names_of, subjects_of

__all__ = ["LARGEST", "Made", "report"]


@dataclass(frozen=True)
class Made:
    """What was written: the file, its size, and what was left out with the reason."""

    path: Path
    size: int
    skipped: dict[str, str]


def report(
    inputs: Inputs,
    out: str | Path = "report.html",
    *,
    examples: int = 12,
    rule: str | None = None,
    measure: Measure = "attention",
    largest: int = LARGEST,
) -> Made:
    """Write results, verdicts, answers and traces as one HTML file that needs nothing else.

    The explorer holds at most this many `examples` per model; its anchors are those of `rule` by `measure`. The file is
    kept below `largest` bytes by holding the explorer's traces in less detail, and then fewer of them. To report on run
    folders: `floatlens.runs.reporting.report_runs`.

    Example: `report(Inputs(results=fl.analyse(traces, ["drift"])), "report.html")`
    """
    if not inputs.traces and not inputs.answers and not inputs.results:
        raise FloatlensError("nothing to report: no traces and no answers in the runs given")
    style = looks_of(_kinds(inputs))
    data, blobs = _page_data(inputs, style)
    traces = subjects_of(inputs.traces)
    page = _fitted(
        data,
        blobs,
        lambda room: explorer_data(traces, examples, rule or DEFAULT_RULE, room, style, measure),
        largest,
    )
    path = Path(out)
    if path.is_dir():
        path = path / "report.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, page)
    return Made(path, len(page), dict(inputs.skipped))


def _kinds(inputs: Inputs) -> dict[str, str]:
    """Every model by the name it has in the report, and its kind; controls are not among the models, and of a training
    course only the last snapshot is, unless others answered too."""
    names = names_of(inputs.traces)
    found = {names[one.subject]: str(one.model["kind"]) for one in subjects_of(inputs.traces)}
    for result in inputs.results.values():
        own = result.without_controls().last_steps()
        found |= {group.model: str(group.facts["kind"]) for group in own if group.model not in found}
    for run in inputs.answers:
        found |= {ref: str(facts["kind"]) for ref, facts in run.models.items() if ref not in found}
    return found


def _page_data(inputs: Inputs, style: Mapping[str, Look]) -> tuple[dict[str, Any], dict[str, str]]:
    """What the page shows, and its tables packed, by name."""
    with shared_looks(style):
        parts = [
            *evolution_sections(inputs.results),
            *sections(inputs.results),
            *answer_sections(inputs.answers),
            *patching_sections(inputs.answers),
            *cache_sections(inputs.results, inputs.answers),
        ]
    blobs = {f"table-{t['id']}": deflated(as_json(t.pop("table")).encode()) for part in parts for t in part["tables"]}
    skipped = [(name.replace("_", " ") if name in ANALYSES else name, why) for name, why in inputs.skipped.items()]
    patched = sum(run.patched() for run in inputs.answers)
    answers, controls = sum(len(run.frame) for run in inputs.answers), sum(one.is_control for one in inputs.traces)
    data = {
        "answer": floating_sentence(inputs.claims, {model: look.label for model, look in style.items()}),
        "models": models(inputs, style),
        "headline": headline_rows(inputs, parts, list(style)),
        "claims": claim_rows(inputs, parts),
        "skipped": skipped,
        "runs": list(inputs.runs),
        "made": dict(inputs.made),
        "settings": {"traces": len(inputs.traces) - controls, "answers": answers, "controls": controls}
        | ({"patched": patched} if patched else {}),
    }
    return data | {"sections": [{k: v for k, v in part.items() if k != "of"} for part in parts]}, blobs


def _fitted(
    data: Mapping[str, Any],
    blobs: Mapping[str, str],
    explorer: Callable[[int], tuple[dict[str, Any], dict[str, str]]],
    largest: int,
) -> bytes:
    """The page with as much in its explorer as its size allows."""
    bare = report_page(data, None, blobs).encode()
    if not data["settings"]["traces"]:
        return bare
    room = largest - len(bare)
    while True:
        index, views = explorer(room)
        page = report_page(data, index, {**blobs, **views}).encode()
        if len(page) <= largest:
            return page
        room -= len(page) - largest  # what is written about the views
