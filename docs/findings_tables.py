"""Writes the tables of docs/findings.md from the files in docs/findings, so that no number is copied by hand.

    .venv/bin/python docs/findings_tables.py            # a second; docs/findings.py does it after each part

A table follows a line `<!-- table: NAME -->`. The text around the tables is written by people.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pandas as pd

__all__ = ["TABLES", "update"]

HERE = Path(__file__).parent
PAGE, KEPT = HERE / "findings.md", HERE / "findings"
MODELS = tuple(f"scale:{name}" for name in ("llama", "qwen", "llada", "dream"))
NAMES = tuple(model.removeprefix("scale:") for model in MODELS)
Row = Sequence[str]


def update(page: str) -> str:
    """The page with every table written again. Example: `PAGE.write_text(update(PAGE.read_text()))`"""
    TABLES.update({name: table for name, (file, table, _) in _LATER.items() if (KEPT / file).is_file()})
    for name, (*_, text) in _LATER.items():
        if name in TABLES and f"<!-- table: {name} -->" not in page:
            page = f"{page.rstrip()}\n\n{text}\n\n<!-- table: {name} -->\n\n"

    def again(found: re.Match[str]) -> str:
        lines = (f"| {' | '.join(row)} |".replace("|  |", "| |") for row in TABLES[found[1]]())
        return f"<!-- table: {found[1]} -->\n\n" + "\n".join(lines) + "\n"

    return re.sub(r"<!-- table: ([a-z-]+) -->\n\n(?:\|.*\n)*", again, page)


def qa() -> Iterable[Row]:
    return _as_published("qa-table1.md")


def edits() -> Iterable[Row]:
    head, *rows = _as_published("edits-accuracy.md")
    short = [name.removeprefix("scale:").replace(" control", "") for name in head]
    return [short, *rows]


def robustness() -> Iterable[Row]:
    found = _of("stress-robustness.csv").set_index(["test", "series", "model"])
    yield from _head("test")
    for words, key in (
        ("noise, 0 to 4 documents beside the gold", ("noise", "noise")),
        ("position of gold, 1, 5, 10 of 10", ("position", "position")),
        ("distractors, random, 1 and 4", ("distractor", "random")),
        ("distractors, same topic", ("distractor", "topic")),
        ("distractors, gold with another answer", ("distractor", "counterfactual")),
        ("order, 3 shuffles", ("order", "order")),
        ("layout of two-hop evidence", ("layout", "layout")),
        ("masks, 1 to 32", ("masks", "mask")),
        ("dots, 1 to 32", ("masks", "dot")),
    ):
        yield [words, *(_number(found, (*key, model), "robustness") for model in MODELS)]
    agreed = _of("stress-agreement.csv").set_index("model")["mean"]
    yield ["agreement of answers between orders", *(f"{100 * agreed[model]:.1f} %" for model in MODELS)]


def wrong() -> Iterable[Row]:
    sets = [("noise-real-scale-curves.csv", model, "wrong") for model in MODELS]
    sets += [("noise-real-curves.csv", "natural:smollm2", data) for data in ("rgb-en_fact", "ramdocs-250")]
    yield from _head("documents shown", *NAMES, "SmolLM2, RGB", "SmolLM2, RAMDocs")
    for words, test, series, label in (
        ("one gold", "wrong", "wrong", "none"),
        ("one gold, one wrong (`wrong`, half)", "wrong", "wrong", "half"),
        ("one wrong", "wrong", "wrong", "all"),
        ("all gold, one wrong (`misleading`)", "misleading", "wrong", "1"),
        ("all gold, one noise (`misleading`)", "misleading", "noise", "1"),
    ):
        cells = []
        for file, model, data in sets:
            means = _of(file).set_index(["model", "data", "test", "series", "label", "metric"])["mean"]
            right, misled = (100 * means[model, data, test, series, label, metric] for metric in ("accuracy", "misled"))
            cells.append(f"{right:.0f} / {misled:.0f}")
        yield [words, *cells]


def collection() -> Iterable[Row]:
    sets = [("collection", model) for model in MODELS]
    sets += [(name, "natural:smollm2") for name in ("collection-nq", "collection-timeqa")]
    yield from _head("", *NAMES, "SmolLM2, NQ", "SmolLM2, TimeQA")
    for words, rate in (
        ("retrieval recall", "recall"),
        ("accuracy on the current answer", "accuracy"),
        ("stale answers", "stale"),
        ("answers of withdrawn documents", "withdrawn"),
    ):
        rows = ((_of(f"{name}-collection.csv").query("date == 'all'"), model) for name, model in sets)
        yield [words, *(_percent(found.set_index(["rate", "model"]), (rate, model)) for found, model in rows)]
    for words, pairs in (
        ("same answer where nothing relevant changed", "all"),
        ("of these, with other documents retrieved", "other documents"),
    ):
        agreed = ((_of(f"{name}-collection_agreement.csv"), model) for name, model in sets)
        yield [words, *(_percent(found.set_index(["pairs_with", "model"]), (pairs, model)) for found, model in agreed)]


def patching() -> Iterable[Row]:
    found = _of("patching-patching_mean.csv").set_index(["what", "part", "model"])
    yield from _head("states", "keys", *NAMES, words=2)
    for what, states in (("kv", "keys and values"), ("residual", "residual")):
        for part, keys in (("anchors", "anchors"), ("difference", "anchors − control")):
            first = states if part == "anchors" else ""
            yield [first, keys, *(_number(found, (what, part, model), "effect") for model in MODELS)]


def contribution() -> Iterable[Row]:
    found = _of("contribution-layers.csv")
    counted = ("sink by both", "by attention only", "by contribution only", "undecided", "most apart in")
    yield from _head("model", "key", *counted, "attention", "contribution", words=2)
    for (model, key), own in found.groupby(["model", "quantity"], sort=False):
        layers, most = own["sink"].value_counts(), own.loc[own["difference"].abs().idxmax()]
        kinds = ("both", "attention only", "contribution only", "undecided")
        yield [
            model.removeprefix("scale:").removeprefix("natural:") if key == "first position" else "",
            f"{key}, {len(own)} layers",
            *(str(layers.get(name, 0)) if len(layers) else "–" for name in kinds),
            f"layer {most['layer']}",
            *(_interval(most[by], most[f"{by}_low"], most[f"{by}_high"]) for by in ("attention", "contribution")),
        ]


def contribution_claims() -> Iterable[Row]:
    found = _of("contribution-claims.csv")
    subjects = list(dict.fromkeys(found["subject"]))
    yield from _head("claim", *(one.removeprefix("scale:") for one in subjects))
    for claim, own in found.groupby("claim", sort=False):
        rows = {row["subject"]: row for _, row in own.iterrows()}
        yield [f"`{claim}`", *(_verdict(rows[one]) if one in rows else "–" for one in subjects)]


def _verdict(row: pd.Series) -> str:
    if pd.isna(row["effect"]):
        return str(row["verdict"])
    return f"{row['verdict']}, {_interval(row['effect'], row['low'], row['high'])}"


TABLES: dict[str, Callable[[], Iterable[Row]]] = {
    "qa": qa,
    "robustness": robustness,
    "wrong": wrong,
    "collection": collection,
    "edits": edits,
    "patching": patching,
}
_LATER: dict[str, tuple[str, Callable[[], Iterable[Row]], str]] = {
    "contribution": (
        "contribution-layers.csv",
        contribution,
        "## Attention and contribution\n\nPercentage points above uniform, mean over steps and heads. A key is a sink "
        "where its 95 % interval is above 5; the table counts layers. Sink heads: percent of heads and steps in which "
        "the first position receives more than 0.3. The last columns are the layer where both differ most. All layers: "
        "[contribution-layers.csv](findings/contribution-layers.csv).\n\n"
        "![By attention and by contribution, layer by layer](findings/contribution-layers.png)",
    ),
    "contribution-claims": (
        "contribution-claims.csv",
        contribution_claims,
        "### Claims by contribution\n\nThe questions and places of the [gallery](gallery.md), with "
        "`measure=contribution`: verdict, effect and 95 % interval of the deciding part.",
    ),
}
"""Sections that the run which produces their file adds to the end of the page: file, table, heading and caption."""


def _head(*names: str, words: int = 1) -> list[Row]:
    titles = names if len(names) > 1 else (*names, *NAMES)
    return [titles, ["---"] * words + ["---:"] * (len(titles) - words)]


def _of(file: str) -> pd.DataFrame:
    return pd.read_csv(KEPT / file, dtype={"label": str})


def _as_published(file: str) -> list[Row]:
    """The rows of a Markdown table that a run has written."""
    lines = (KEPT / file).read_text(encoding="utf-8").splitlines()
    return [
        line.strip("|").strip().split(" | ") for line in (one.replace("|  |", "| |") for one in lines) if "|" in line
    ]


def _number(found: pd.DataFrame, key: tuple[str, ...], mean: str) -> str:
    """`0.10 [−0.08, 0.12]`, or a dash where the run has no such number."""
    if key not in found.index:
        return "–"
    row = found.loc[key]
    return _interval(row[mean], row["low"], row["high"])


def _interval(mean: float, low: float, high: float) -> str:
    return f"{mean:.2f} [{low:.2f}, {high:.2f}]".replace("-", "−")


def _percent(found: pd.DataFrame, key: tuple[str, ...]) -> str:
    """`67 [58, 74]`, or a dash where nothing was counted."""
    row = found.loc[key] if key in found.index else None
    if row is None or pd.isna(row["mean"]):
        return "–"
    return f"{100 * row['mean']:.0f} [{100 * row['low']:.0f}, {100 * row['high']:.0f}]"


if __name__ == "__main__":
    PAGE.write_text(update(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(f"{PAGE}: {', '.join(TABLES)}\n")
