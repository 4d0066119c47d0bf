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

__all__ = ["TABLES", "ready", "update"]

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


def rules() -> Iterable[Row]:
    """Verdicts with the rule as it is, and with other settings where they differ."""
    found = _of("rules-claims.csv")
    settings = ["deviations", "floor"]
    found["own"] = (found[settings] == found[settings].iloc[0]).all(axis=1)
    yield from _head("claim", "model", "verdict", "with other settings", words=4)
    for (claim, model), rows in found.groupby(["claim", "subject"], sort=False):
        (verdict,) = rows.loc[rows["own"], "verdict"]
        others = [
            f"**{row['verdict']}** (ε = {row['deviations']:g}, bound {row['floor']:g})"
            for _, row in rows[~rows["own"]].iterrows()
            if row["verdict"] != verdict
        ]
        short = str(model).removeprefix("scale:").replace("diffusion and autoregressive", "both kinds")
        yield [f"`{claim}`", short, str(verdict), ", ".join(others) or "the same"]


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


def cache() -> Iterable[Row]:
    """Every schedule that was tried; the recommended ones in bold."""
    found = pd.concat(
        [_of(file) for file in ("cache-cache_schedules.csv", *_there("cache-natural-cache_schedules.csv"))]
    )
    controls = found[found["control"].notna()].set_index(["model", "settings"])
    yield from _head("model", "schedule", "saved (%)", "saved passes", "accuracy (%)", "change", "random", words=2)
    for model, own in found[found["control"].isna()].groupby("model", sort=False):
        name = str(model).removeprefix("scale:")
        yield [name, "full recomputation", "0", "0", f"{100 * own['full'].iloc[0]:.1f}", "", ""]
        for _, row in own.iterrows():
            there = (model, row["settings"]) in controls.index
            random = _points(controls.loc[model, row["settings"]], ("change", "low", "high")) if there else "–"
            schedule = f"**{row['settings']}**" if row["recommended"] else row["settings"]
            numbers = [f"{100 * row['saved']:.1f}", f"{row['saved_passes']:.1f}", f"{100 * row['accuracy']:.1f}"]
            yield ["", schedule, *numbers, _points(row, ("change", "low", "high")), random]


def steering() -> Iterable[Row]:
    """The gold document in every context of the scale world."""
    yield from _boosted("steering-effects.csv", ("span=gold",), "context", ("alone", "noise", "topic", "first", "last"))


def steering_others() -> Iterable[Row]:
    """The question and what rises over depth, among documents on the same topic."""
    yield from _boosted("steering-others-effects.csv", ("span=question", "span=dynamics"), "boosted", ("topic",))


def steering_natural() -> Iterable[Row]:
    names = {"natural:smollm2-diffusion": "natural", "natural:smollm2-block": "block"}
    files = {model: f"steering-{part}-effects.csv" for model, part in names.items()}
    there = {model: _boosts(file) for model, file in files.items() if _there(file)}
    if not there:
        raise FileNotFoundError("steering-natural")
    yield from _head("context", "gain", *(model.removeprefix("natural:") for model in there), words=2)
    for context in ("first", "last", "wrong"):
        for gain in dict.fromkeys(key[-1] for found in there.values() for key in found.index):
            cells = [_with_control(found, (model, context, "span=gold"), gain) for model, found in there.items()]
            yield [context, f"{gain:g}", *cells]


def smoothing() -> Iterable[Row]:
    """First, middle and last layer of each model."""
    found = _of("smoothing-smoothing.csv")
    yield from _head("model", "layer", "cosine", "masked tokens", "rank ÷ tokens", "row distance", words=2)
    by = found.set_index(["variable", "model", "layer"])
    for model, own in found.groupby("model", sort=False):
        layers = sorted(set(own["layer"].dropna().astype(int)))
        for place, layer in enumerate((layers[0], layers[len(layers) // 2], layers[-1])):
            names = ("cosine", "masked_cosine", "rank_share", "row_distance")
            cells = (_number(by, (name, str(model), layer), "mean") for name in names)
            yield [str(model).removeprefix("scale:") if place == 0 else "", str(layer), *cells]


def _boosted(file: str, spans: Sequence[str], first: str, contexts: Sequence[str]) -> Iterable[Row]:
    """Change of accuracy by span, context and gain, and in brackets that of the control by mass."""
    found = _boosts(file)
    yield from _head(first, "gain", *NAMES, words=2)
    gains = dict.fromkeys(key[-1] for key in found.index)
    for span in spans:
        for context in contexts:
            for gain in gains:
                cells = [_with_control(found, (model, context, span), gain) for model in MODELS]
                yield [context if len(contexts) > 1 else span.removeprefix("span="), f"{gain:g}", *cells]


def _boosts(file: str) -> pd.DataFrame:
    """Effects on accuracy by model, data, span, control and gain."""
    found = _of(file).query("metric == 'accuracy' and edit == 'boost'")
    span = found["settings"].str.split().str[0]
    return found.assign(span=span, control=found["control"].fillna("")).set_index(
        ["model", "data", "span", "control", "dose"]
    )


def _with_control(found: pd.DataFrame, key: tuple[str, ...], gain: float) -> str:
    columns = ("difference", "low", "high")
    if (*key, "", gain) not in found.index:
        return "–"
    text = _points(found.loc[(*key, "", gain)], columns)
    random = (*key, "mass", gain)
    return f"{text} ({_points(found.loc[random], columns[:1])})" if random in found.index else text


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
    "rules": rules,
    "edits": edits,
    "patching": patching,
    "cache": cache,
    "steering": steering,
    "steering-others": steering_others,
    "steering-natural": steering_natural,
    "smoothing": smoothing,
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


def ready() -> list[str]:
    """The tables whose files there are."""
    found = []
    for name, rows in TABLES.items():
        try:
            list(rows())
        except FileNotFoundError:
            continue
        found.append(name)
    return found


def _head(*names: str, words: int = 1) -> list[Row]:
    titles = names if len(names) > 1 else (*names, *NAMES)
    return [titles, ["---"] * words + ["---:"] * (len(titles) - words)]


def _of(file: str) -> pd.DataFrame:
    return pd.read_csv(KEPT / file, dtype={"label": str})


def _there(*files: str) -> list[str]:
    return [file for file in files if (KEPT / file).is_file()]


def _points(row: pd.Series, columns: Sequence[str]) -> str:
    """`+3.0 [−0.5, 6.1]`, in percentage points."""
    change, *interval = (f"{100 * row[name]:+.1f}".replace("-", "−") for name in columns)
    return f"{change} [{', '.join(one.removeprefix('+') for one in interval)}]" if interval else change


def _as_published(file: str) -> list[Row]:
    """The rows of a Markdown table that a run has written."""
    lines = (KEPT / file).read_text(encoding="utf-8").splitlines()
    return [
        line.strip("|").strip().split(" | ") for line in (one.replace("|  |", "| |") for one in lines) if "|" in line
    ]


def _number(found: pd.DataFrame, key: tuple[str, ...], mean: str) -> str:
    """`0.10 [−0.08, 0.12]`, or a dash where the run has no such number."""
    row = found.loc[key] if key in found.index else None
    if row is None or pd.isna(row[mean]):
        return "–"
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
