"""`report`: from runs to one HTML file. It walks over the traces once to analyse them and reads those that are shown.

Analyses, verdicts and colours come from their own rooms; here is only what goes where.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from floatlens.analysis import ANALYSES, Result, analyse, as_rule
from floatlens.analysis.registry import with_rule
from floatlens.analysis.sources import trace_files, traced_runs
from floatlens.claims import claims
from floatlens.core.errors import FloatlensError
from floatlens.core.files import write_atomically
from floatlens.plots.description import Look
from floatlens.plots.plotly_renderer import look_data
from floatlens.plots.style import looks_of, shared_looks
from floatlens.records.store import is_run
from floatlens.report.answer_sections import answer_headline, answer_sections
from floatlens.report.answered import Answered, open_answered, told_apart
from floatlens.report.codec import as_json, deflated
from floatlens.report.detail import Detail, fitting
from floatlens.report.findings import answer, claim_rows, headline, models
from floatlens.report.provenance import made_by, run_facts
from floatlens.report.render import report_page
from floatlens.report.sections import sections
from floatlens.report.subjects import Choice, Seen, Shown, choose, look, names_of, opened
from floatlens.report.view import packed_trace
from floatlens.traces import Trace, open_trace

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
    by_run: bool = False,
    largest: int = LARGEST,
    each: Callable[[int, int], None] = lambda done, total: None,
    analysed: Analysed | None = None,
) -> Made:
    """Analyse runs of traces and of answers, and write what they show as one HTML file that needs nothing else.

    The explorer holds at most so many `examples` per model. `rule` replaces the anchor rule of every analysis that has
    one. Traces of one model with the same settings are pooled over runs, unless `by_run` sets the runs side by side.
    The file is kept below `largest` bytes by holding the explorer's traces in less detail, and then fewer of them.
    With `analysed` the traces are not walked over again.

    Example: `report(["runs/llada", "runs/qwen", "runs/qa"], "report.html")`
    """
    folders = [Path(run) for run in runs]
    known = analysed or _analysed(_seen(folders, by_run), rule, each)
    results, seen, skipped = known.results, known.seen, dict(known.skipped)
    answered = open_answered([run for run in folders if is_run(run)], skipped)
    if not seen and not answered:
        raise FloatlensError("nothing to report: no traces and no answers in the runs given")
    style = looks_of(_kinds(seen, answered))
    data, blobs = _parts(results, answered, style)
    data |= {
        "skipped": [(name.replace("_", " ") if name in ANALYSES else name, why) for name, why in skipped.items()],
        "runs": run_facts(folders),
        "made": made_by(folders, examples=examples, rule=rule, by_run=by_run, largest=largest),
        "settings": {"traces": len(seen), "answers": _count(answered)},
    }
    page = _fitted(data, blobs, lambda room: explorer_data(seen, examples, rule or "zscore", room, style), largest)
    path = Path(out)
    if path.is_dir():
        path = path / "report.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, page)
    return Made(path, len(page), skipped)


def _count(answered: Sequence[Answered]) -> int:
    """Answers in all runs."""
    return sum(len(run.own) for run in answered)


def _kinds(seen: Sequence[Seen], answered: Sequence[Answered]) -> dict[str, str]:
    """Every model by the name it has in the report, and its kind."""
    names = names_of(seen)
    found = {names[one.subject]: str(one.model["kind"]) for one in seen}
    for run in answered:
        found |= {ref: str(facts["kind"]) for ref, facts in run.models.items() if ref not in found}
    return found


def _seen(folders: Sequence[Path], by_run: bool) -> list[Seen]:
    """Every trace of the runs that have any."""
    return [
        look(opened(open_trace(file)), file, run.resolve().name if by_run else None)
        for run in traced_runs(folders)
        for file in trace_files(run)
    ]


def _analysed(seen: Sequence[Seen], rule: str | None, each: Callable[[int, int], None]) -> Analysed:
    """Every analysis that the traces allow, in one walk over them; the others are skipped."""
    skipped: dict[str, str] = {}
    results = analyse(_walk(seen, each), with_rule(ANALYSES, rule), skipped=skipped) if seen else {}
    return Analysed(results, seen, skipped)


def _walk(seen: Sequence[Seen], each: Callable[[int, int], None]) -> Iterator[Trace]:
    """Every trace in turn, its model under the name that sets it apart."""
    names = names_of(seen)
    for done, one in enumerate(seen, 1):
        trace, name = one.open(), names[one.subject]
        yield trace if name == one.model["ref"] else Trace(trace.data.assign_attrs(model={**trace.model, "ref": name}))
        each(done, len(seen))


def _parts(
    results: Mapping[str, Result], answered: Sequence[Answered], style: Mapping[str, Look]
) -> tuple[dict[str, Any], dict[str, str]]:
    """What stands in the page, and its tables packed, by name."""
    with shared_looks(style):
        parts = [*sections(results), *answer_sections(answered, style)]
    blobs = {f"table-{t['id']}": deflated(as_json(t.pop("table")).encode()) for part in parts for t in part["tables"]}
    figures = {one["type"]: one["id"] for part in parts for one in reversed(part["figures"])}
    figures |= {one["id"]: one["id"] for part in parts for one in part["figures"]}
    found = claims(results)
    rows = claim_rows(found, figures)
    for run, name in zip(answered, told_apart(answered), strict=True):
        rows += claim_rows(run.claims, figures, run.suffix, name)
    data = {
        "models": models(results, answered, style),
        "headline": [*headline(results, list(style)), *answer_headline(answered)],
        "claims": rows,
        "answer": answer(found, style),
        "sections": parts,
    }
    return data, blobs


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
