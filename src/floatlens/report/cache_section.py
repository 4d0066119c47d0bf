"""The section on refresh schedules of a cache: one for each run that tried some."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from floatlens.analysis.cache_schedule import Choose, cache_layers, cache_schedules
from floatlens.report.inputs import RunAnswers, run_name
from floatlens.report.sections import figures_of, table

if TYPE_CHECKING:
    import pandas as pd

    from floatlens.analysis import Result

__all__ = ["cache_sections"]

_READING = (
    "Each point is a schedule by which keys and values are computed again: further right saves more, below 0 costs "
    "answers. Plus signs are random controls: the same intervals in random layers, or as many refreshes at random. The "
    "first table names the recommended schedule, the second says for each layer how often to refresh and how many keys "
    "hold 90, 95 and 99 % of the attention. The cache is simulated: every row is still computed, so nothing is faster "
    "here."
)
_METHOD = (
    "A layer's interval is the largest power of two n, no longer than the traces, with (n - 1) x the mean angle by "
    "which its known keys and values turn per step at most arccos(least). Recommended is the largest saving whose "
    "accuracy is within the margin below; of equal savings the one with the smaller KL divergence. Both rules were "
    "fixed before any result. It is chosen on the first questions (columns choice_...); all other numbers are of the "
    "others, unless held_out is false."
)
_TERMS = [
    (
        "saved",
        "Share of the multiplications of all passes that a server would not do, without those of attention "
        "itself; a token's row is done up to the deepest layer that computes its key and value.",
    ),
    ("saved_passes", "The same in passes: the sum of the shares over the passes of a question."),
    ("full", "Accuracy with full recomputation, on the same questions."),
    ("change", "Accuracy minus that with full recomputation, with a paired interval."),
    ("turn", "Angle, in degrees, by which keys or values of the prompt and of tokens committed earlier turn per step."),
    ("keys_95", "Smallest number of keys that hold 95 % of a row of attention, mean over heads and rows, rounded up."),
]


def cache_sections(results: Mapping[str, Result], runs: Sequence[RunAnswers]) -> list[dict[str, Any]]:
    """Everything that the sections show, in the form of `answer_sections`."""
    tried = [(run, cache_schedules(run.frame, _within(run), _choose(run))) for run in runs if not run.frame.empty]
    held = [(run, frame) for run, frame in tried if not frame.empty]
    names = [run for run, _ in held]
    return [
        _made(run, frame, results, "" if place == 0 else f"-{place + 1}")
        | {"run": None if len(held) == 1 else run_name(run, names), "of": run}
        for place, (run, frame) in enumerate(held)
    ]


def _within(run: RunAnswers) -> float:
    return float((run.manifest.get("output") or {}).get("within", 1.0))


def _choose(run: RunAnswers) -> Choose:
    found: Choose = (run.manifest.get("output") or {}).get("choose", "half")
    return found


def _made(run: RunAnswers, frame: pd.DataFrame, results: Mapping[str, Result], suffix: str) -> dict[str, Any]:
    tables = [("cache_schedules", "Schedules, with intervals", frame)]
    if "cacheability" in results:
        tables.append(
            (
                "cache_layers",
                "By layer: refresh every n steps, keys to keep",
                cache_layers(results["cacheability"], frame),
            )
        )
    return {
        "id": f"cache{suffix}",
        "suffix": suffix,
        "kind": "cache",
        "title": "Cache: what may be kept, and for how long?",
        "short": "Cache",
        "reading": _READING,
        "notes": list(_notes(frame, _within(run))),
        "figures": figures_of("cache", {"cache": frame}, suffix),
        "tables": [
            {"id": f"{name}{suffix}", "title": title, "open": True, "table": table(own)} for name, title, own in tables
        ],
        "definition": {"summary": _METHOD, "terms": _TERMS, "used": _used(frame, run)},
    }


def _notes(frame: pd.DataFrame, within: float) -> Iterator[str]:
    """The recommendation for each model in words."""
    for model, own in frame.groupby("model", sort=False):
        best = own[own["recommended"]]
        if best.empty:
            yield f"{model}: no schedule that was tried is within {within:g} points; compute everything."
            continue
        one = best.iloc[0]
        words = f"{one['edit']} {one['settings']}" + (f" ({one['schedule']})" if one["schedule"] else "")
        change, low, high = (100 * float(one[name]) for name in ("change", "low", "high"))
        chosen = f"chosen on {int(one['choice_n'])} others" if one["held_out"] else "the same that it was chosen on"
        yield (
            f"{model}: {words} saves {one['saved']:.0%} of the multiplications{_passes(one)}; accuracy {change:+.1f} "
            f"points [{low:+.1f}, {high:+.1f}] on {int(one['n'])} questions, {chosen}."
        )


def _passes(one: pd.Series) -> str:
    """What is saved in passes, where records have it."""
    passes = float(one["saved_passes"])
    return f", {passes:.1f} passes per question" if passes == passes else ""


def _used(frame: pd.DataFrame, run: RunAnswers) -> list[tuple[str, str]]:
    counts = frame.groupby("model", sort=False)["n"].max()
    used = [(f"n, {model}", f"{int(n)} questions") for model, n in counts.items()]
    choice = frame.groupby("model", sort=False)["choice_n"].max()
    used += [(f"chosen on, {model}", f"{int(n)} questions") for model, n in choice.items()]
    used.append(("margin", f"{_within(run):g} percentage points of accuracy (--within)"))
    used.append(("prompt template", str(run.manifest.get("template"))))
    return [*used, ("intervals", "95 %, over questions: Tango for changes of accuracy, Hall for KL")]
