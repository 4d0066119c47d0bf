"""`report`: from runs to one HTML file. It walks over the traces once to analyse them and reads those that are shown.

Analyses, verdicts and colours come from their own rooms; here is only what goes where.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from floatlens import __version__
from floatlens.analysis import ANALYSES, Result, analyse, as_rule
from floatlens.analysis.sources import trace_files
from floatlens.errors import FloatlensError
from floatlens.report.answers import answer_sections
from floatlens.report.codec import as_json, deflated
from floatlens.report.detail import Detail, fitting
from floatlens.report.findings import claim_rows, headline, models
from floatlens.report.provenance import is_study, run_facts
from floatlens.report.render import report_page
from floatlens.report.sections import sections
from floatlens.report.subjects import Choice, Seen, Shown, choose, look, opened
from floatlens.report.view import packed_trace
from floatlens.study.answers import answer_claims_of
from floatlens.study.records import write_atomically
from floatlens.traces import Trace, open_trace
from floatlens.verdicts import claims

__all__ = ["LARGEST", "Analysed", "Made", "explorer_data", "report"]

LARGEST = 15_000_000
"""Characters of a page, unless asked otherwise: what goes through most mail."""
_NAMES = ("all", "masked", "committed", "answer")


@dataclass(frozen=True)
class Made:
    """What was written: the file, its size, and what was left out with the reason."""

    path: Path
    size: int
    skipped: dict[str, str]


@dataclass(frozen=True)
class Analysed:
    """What somebody who has walked over the traces already found there."""

    results: Mapping[str, Result]
    seen: Sequence[Seen]
    skipped: Mapping[str, str]


def report(
    runs: Sequence[str | Path],
    out: str | Path = "report.html",
    *,
    examples: int = 12,
    rule: str | None = None,
    largest: int = LARGEST,
    each: Callable[[int, int], None] = lambda done, total: None,
    analysed: Analysed | None = None,
) -> Made:
    """Analyse the traces of runs and write what they show as one HTML file that needs nothing else.

    The explorer holds at most so many `examples` per model. `rule` replaces the anchor rule of every analysis that has
    one. The file is kept below `largest` bytes by holding the explorer's traces in less detail, and then fewer of them.
    With `analysed` the traces are not walked over again. The answers of a study are judged as well.

    Example: `report(["runs/llada", "runs/qwen"], "report.html")`
    """
    folders = [Path(run) for run in runs]
    files = [file for run in folders for file in trace_files(run)]
    known = analysed or _analysed(files, rule, each)
    results, seen, skipped = known.results, known.seen, dict(known.skipped)
    studies = [run for run in folders if is_study(run)]
    found = claims(results) + [one for run in studies for one in answer_claims_of(run)]
    asked = answer_sections(studies[0]) if len(studies) == 1 else []  # of several, each has its own report
    parts = [*sections(results), *asked]
    answered = [figure["id"] for part in asked for figure in part["figures"]]
    blobs = {f"table-{part['id']}": deflated(as_json(part.pop("table")).encode()) for part in parts}
    data: dict[str, Any] = {
        "version": __version__,
        "models": models(results),
        "headline": headline(results, found),
        "claims": claim_rows(found, list(results), answered),
        "sections": parts,
        "skipped": skipped,
        "runs": run_facts(folders),
        "settings": {"examples": examples, "rule": rule, "traces": len(files)},
    }
    page = _fitted(data, blobs, seen, examples, rule or "zscore", largest)
    path = Path(out)
    if path.is_dir():
        path = path / "report.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, page)
    return Made(path, len(page), skipped)


def _analysed(files: Sequence[Path], rule: str | None, each: Callable[[int, int], None]) -> Analysed:
    skipped: dict[str, str] = {}
    settings = {n: {"rule": rule} if rule and "rule" in one.settings() else {} for n, one in ANALYSES.items()}
    seen: list[Seen] = []
    results = analyse(_walk(files, seen, each), settings, skipped=skipped)
    return Analysed(results, seen, skipped)


def _fitted(
    data: Mapping[str, Any], blobs: Mapping[str, str], seen: Sequence[Seen], examples: int, rule: str, largest: int
) -> bytes:
    """The page with as much in its explorer as its size allows."""
    room = largest - len(report_page(data, {}, blobs).encode())
    while True:
        explorer, views = explorer_data(seen, examples, rule, room)
        page = report_page(data, explorer, {**blobs, **views}).encode()
        if len(page) <= largest:
            return page
        room -= len(page) - largest  # what is written about the views


def _walk(files: Sequence[Path], seen: list[Seen], each: Callable[[int, int], None]) -> Iterator[Trace]:
    """Every trace in turn; `seen` gets what it is of."""
    for done, file in enumerate(files, 1):
        trace = opened(open_trace(file))
        seen.append(look(trace, file))
        yield trace
        each(done, len(files))


def explorer_data(seen: Sequence[Seen], examples: int, rule: str, room: int) -> tuple[dict[str, Any], dict[str, str]]:
    """What the explorer shows, and its packed traces by name, in at most `room` characters."""
    rule = str(as_rule(rule))
    while True:
        choice = choose(seen, examples)
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
            {"ref": one.model["ref"], "label": one.label, "colour": one.colour, "kind": one.model["kind"]}
            for one in choice.subjects
        ],
        "examples": list(choice.examples),
        "views": sorted(views),
        "left_out": choice.left_out,
        "groups": [name for name in _NAMES if name in detail.groups],
        "error": detail.codes.error,
        "rule": rule,
    }
