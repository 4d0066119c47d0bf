"""Traces the scale models with the gold document first, in the middle and last, and draws docs/gallery.

    .venv/bin/python docs/gallery.py            # or: make gallery; resumable

Traces go to runs/gallery (not in the repository), figures and the table of verdicts to docs/gallery, the page that
shows them to docs/gallery.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

import floatlens as fl
from floatlens.cli import main
from floatlens.subjects.scale import bundled, questions

HERE = Path(__file__).parent
RUNS = HERE.parent / "runs" / "gallery"
QUESTIONS, DOCUMENTS, GOLD, SEED = 32, 10, (0, 4, 9), 7

CAPTIONS = {
    "summary": "**Summary.** Anchor stability (Jaccard, step to step), excess absorption, attention on lexical tokens "
    "and copy scores, by layer.",
    "anchors": "**One trace.** Attention received by every position, step by step; anchors hatched, regions below, "
    "circles where a token was committed. The first question of each model, in its first and its last layer.",
    "drift": "**Drift.** Anchor stability (Jaccard, step to step), speed of the strongest key, lifetime of an anchor, "
    "entropy of attention.",
    "absorption": "**Absorption.** Percent of all attention on the first position, and on the strongest key of each "
    "step; dashed: under uniform attention with the same mask.",
    "qk": "**Norm and angle.** Advantage of anchors in q·k over the other keys, split into key norm and angle.",
    "qk_maps": "**One head.** q·k, its cosine and the product of norms, query by key, in a shallow and a deep layer.",
    "token_classes": "**Token classes.** Classes of anchors and of attended tokens, compared with the text.",
    "retrieval_heads": "**Retrieval heads.** Copy score by layer and head.",
    "rollout": "**Region flow.** Rollout between regions with the gold document first, fifth and last.",
    "gold_lift": "**Gold lift.** Flow to the answer from the gold document ÷ from the others.",
    "extremes": "**Extreme tokens.** Value and residual norms of anchors ÷ the median token; dormant heads.",
    "sinks": "**Sinks.** Share of steps in which a head has a sink, by layer and head.",
    "sink_kinds": "**Kinds of sinks.** Which keys are sinks, and what a sink follows when documents change places.",
    "order": "**Commit order.** When each part of the answer is committed, and rank correlations of the order.",
}


def run(*args: str | Path) -> None:
    """One floatlens command; stops here if it fails."""
    code = main([str(arg) for arg in args])
    if code:
        sys.exit(code)


def trace_all() -> list[Path]:
    """One run of all models, and of their controls with shuffled weights, per position of the gold document."""
    runs = []
    for gold in GOLD:
        data = RUNS / f"data{gold}" / "rag.jsonl"  # one name for all positions: traces take the file's name
        if not data.is_file():
            data.parent.mkdir(parents=True, exist_ok=True)
            shape = ("--count", QUESTIONS, "--documents", DOCUMENTS, "--place", gold, "--seed", SEED)
            run("scale", "questions", "--out", data, *map(str, shape))
        runs.append(RUNS / f"gold{gold}")
        models = [f"scale:{model}" for model in bundled()]
        run(
            "trace",
            *models,
            "--data",
            data,
            "--out",
            runs[-1],
            "--set",
            "gen_length=8",
            "--controls",
            "1",
            "--no-report",
        )
    return runs


def qk_maps(out: Path) -> None:
    """q·k of one head in a shallow and a deep layer, first step of one question; four documents, for legibility."""
    example = questions("rag", 1, documents=4, gold=1, seed=SEED)[0]
    asked = {"question": example.question, "documents": example.documents, "answers": example.answers}
    for model in bundled():
        maps = fl.probes.QK(heatmaps=fl.Select(layers=[2, 6], heads=[0], steps=[0]))
        traced = fl.trace(fl.load(f"scale:{model}"), **asked, probes=["received", maps], gen_length=8)
        for layer in (2, 6):
            figure = fl.plot_qk_maps(fl.qk_maps(traced, layer, 0))
            figure.savefig(out / f"qk_maps-scale-{model}-layer{layer}-head0.png", dpi=160)


def page(pictures: list[Path]) -> str:
    """docs/gallery.md: every figure under the caption of its kind."""
    lines = [
        "# Gallery",
        "",
        f"Figures of the scale models on {QUESTIONS} held-out questions, each with the gold document at three",
        f"positions among {DOCUMENTS}. Made by `make gallery`; interpretation in [findings](findings.md), rules of the",
        "verdicts in [claims](claims.md). `floatlens figures` writes the numbers behind each figure.",
        "",
    ]
    for kind, caption in CAPTIONS.items():
        shown = [path for path in pictures if path.stem == kind or path.stem.startswith(f"{kind}-")]
        if shown:
            lines += [caption, ""]
            lines += [line for path in shown for line in (f"![{path.stem}](gallery/{path.name})", "")]
    return "\n".join(lines)


if __name__ == "__main__":
    if not bundled():
        sys.exit("no scale models in the package yet; train some first (floatlens scale train), then run this again")
    out = HERE / "gallery"
    runs = trace_all()
    for old in out.glob("*.png"):
        old.unlink()
    run("figures", *runs, "--out", out, "--format", "png")
    pictures = sorted((out / "figures").glob("*.png"))
    for path in pictures:
        path.replace(out / path.name)
    (out / "figures").rmdir()
    for path in (out / "tables").iterdir():
        if path.name != "claims.csv":
            path.unlink()
        else:
            path.replace(out / path.name)
    (out / "tables").rmdir()
    qk_maps(out)
    (HERE / "gallery.md").write_text(page(sorted(out.glob("*.png"))), encoding="utf-8")
