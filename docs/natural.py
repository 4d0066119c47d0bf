"""Makes the natural models: trains the adapters of SmolLM2, measures them, and writes their cards into the package.

    .venv/bin/python docs/natural.py train smollm2-diffusion    # resumable; also smollm2-block, smollm2-tuned
    .venv/bin/python docs/natural.py ask                        # 200 questions of NQ with the gold passage; resumable
    .venv/bin/python docs/natural.py infill                     # held-out WikiText
    .venv/bin/python docs/natural.py cards                      # cards and curves from what was measured

Training runs are kept in the folder that FLOATLENS_TRAINING names (default: runs/natural/training), answers in
runs/natural. The data are those of ../shared/data. Trained on: SQuAD and the validation part of WikiText-2. Measured
on: NQ and the test part of WikiText-2, which the checks during training use as well.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, StrictUndefined
from scipy.stats import binomtest

import floatlens as fl
from floatlens.adaptation import Progress, Recipe, adapt
from floatlens.adaptation.checks import RATIOS, infilling, rows_of
from floatlens.adaptation.sources import read_corpus
from floatlens.adaptation.state import STATE, read_facts, read_log
from floatlens.cli import main
from floatlens.cli.terminal import duration, say
from floatlens.plots import plot_adaptation
from floatlens.subjects.natural import ADAPTERS

HERE = Path(__file__).parent
RUNS = HERE.parent / "runs" / "natural"
TRAINING = Path(os.environ.get("FLOATLENS_TRAINING") or RUNS / "training")
DATA = HERE.parents[1] / "shared" / "data"
SQUAD, TEXT = DATA / "squad-train-11877.json.gz", DATA / "wikitext-2-valid.txt.gz"
HELD_TEXT, NQ = DATA / "wikitext-2-test.txt.gz", DATA / "nq-open-oracle-1655.jsonl.gz"
BASE = "natural:smollm2"
MODELS: dict[str, dict[str, Any]] = {
    "smollm2-diffusion": {},
    "smollm2-block": {"mask": "block"},
    "smollm2-tuned": {"to": "autoregressive"},
}
COURSES: tuple[tuple[int, dict[str, Any]], ...] = (
    (100, {"steps": 300, "text_weight": 0.5, "text_power": 1.0}),
    (200, {"steps": 200}),
)
"""Steps taken and settings of each course; a course begins with the adapter of the one before. The first gave plain
text most of the loss, which taught infilling and little reading, so it was left after 100 of its 300 steps."""
SHORTER = {"smollm2-block": (100, 100)}
"""Models that took fewer steps of the courses: the full twin is trained longest."""
QUESTIONS, WRITE = 200, ("--set", "gen_length=16", "--set", "steps=8")
WIDTH, ROWS = 256, 24
KEPT = ("adapter_config.json", "adapter_model.safetensors", "adaptation.json")


def train(name: str) -> None:
    """Train an adapter, or go on with it, and put it into the package when it is finished."""

    def report(now: Progress) -> None:
        numbers = ", ".join(f"{key} {value:.3f}" for key, value in now.numbers.items())
        say(f"{name}: step {now.step} of {now.of}, {duration(now.seconds)}: {numbers}")

    before: Path | None = None
    for number, steps in enumerate(steps_of(name)):
        folder = course_folder(name, number)
        left = steps - int(read_facts(folder / STATE).get("step", 0))
        if left > 0:
            options: dict[str, Any] = {"held_out": [HELD_TEXT], "check_every": 100, "report": report}
            recipe = recipe_of(name, number)
            adapt(BASE, [SQUAD, TEXT], folder, recipe=recipe, start_from=before, stop_after=left, **options)
        before = folder
    place(name)


def steps_of(name: str) -> tuple[int, ...]:
    """Steps of each course that a model takes."""
    return SHORTER.get(name) or tuple(steps for steps, _ in COURSES)


def recipe_of(name: str, course: int) -> Recipe:
    return Recipe(learning_rate=1e-3, **MODELS[name], **COURSES[course][1])


def course_folder(name: str, course: int) -> Path:
    return TRAINING / name / f"course-{course + 1}"


def place(name: str) -> None:
    """Put a trained adapter into the package: that of its last course, with one log over all of them."""
    (ADAPTERS / name).mkdir(parents=True, exist_ok=True)
    for file in KEPT:
        shutil.copy(course_folder(name, len(COURSES) - 1) / file, ADAPTERS / name / file)
    lines: list[dict[str, Any]] = []
    for number in range(len(COURSES)):
        done = lines[-1] if lines else {"step": 0, "tokens": 0, "seconds": 0.0}
        for line in read_log(course_folder(name, number)):
            if line["step"] > steps_of(name)[number] or (number and not line["step"]):
                continue  # beyond what was taken of a course, or the adapter that the one before ended with
            moved = {key: round(done[key] + line[key], 1) for key in ("step", "tokens", "seconds")}
            lines.append({**line, **moved, "course": number + 1})
    told = "".join(json.dumps(line) + "\n" for line in lines)
    (ADAPTERS / name / "training.jsonl").write_text(told, encoding="utf-8")


def models() -> list[str]:
    return [BASE, *(f"natural:{name}" for name in MODELS if (ADAPTERS / name / KEPT[0]).is_file())]


def ask(*names: str) -> None:
    """The first questions of NQ with their gold passage, to every model (or those named) under one prompt."""
    for name in names or models():
        diffusion = name != BASE and MODELS[name.removeprefix("natural:")].get("to") != "autoregressive"
        write = WRITE if diffusion else WRITE[:2]
        common = ("--data", str(NQ), "--limit", str(QUESTIONS), "--mode", "rag", *write, "--batch", "4")
        code = main(["qa", name, *common, "--workers", "1", "--out", str(answers_of(name))])
        if code:
            sys.exit(code)


def answers_of(name: str) -> Path:
    """The run folder of a model's answers."""
    return RUNS / "qa" / name.removeprefix("natural:")


def infill() -> None:
    """Infilling of held-out WikiText, one pass: every model, and the base made bidirectional and not trained."""
    stream = text_stream()
    found: dict[str, Any] = {}
    for name in models():
        found[name] = measured(fl.load(name), stream)
    bidirectional = fl.load(BASE)
    bidirectional.module.config.is_causal = False
    bidirectional.mask_id = json.loads((ADAPTERS / "smollm2-diffusion" / "adaptation.json").read_text())[
        "mask_token_id"
    ]
    found["untrained, bidirectional"] = measured(bidirectional, stream)
    RUNS.mkdir(parents=True, exist_ok=True)
    (RUNS / "infill.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    say(json.dumps(found))


def text_stream() -> np.ndarray[Any, np.dtype[np.int64]]:
    tokenizer: Any = fl.load(BASE).tokenizer
    paragraphs = read_corpus([TEXT], [HELD_TEXT]).held_paragraphs
    encoded = tokenizer([f"{paragraph}\n" for paragraph in paragraphs], add_special_tokens=False)
    return np.concatenate([np.asarray(ids, dtype=np.int64) for ids in encoded.input_ids])


def measured(model: fl.LanguageModel, stream: Any) -> dict[str, Any]:
    """Right and asked tokens by share of masks."""
    found = {}
    for ratio in RATIOS:
        hits = infilling(model, rows_of(stream, WIDTH, ROWS), ratio)
        found[f"{round(100 * ratio)}"] = [int(hits.sum()), len(hits)]
    say(f"{model.ref}: {found}")
    return found


def cards() -> None:
    """card.json, README.md and curves.png of every adapter, and a table of all models in docs/natural.md's folder."""
    answered = {name: counted(name) for name in models()}
    infilled = json.loads((RUNS / "infill.json").read_text(encoding="utf-8"))
    (HERE / "natural").mkdir(exist_ok=True)
    table = {"nq": answered, "infill": infilled, "decoding": " ".join(WRITE), "questions": QUESTIONS}
    (HERE / "natural" / "results.json").write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    (HERE / "natural" / "table.md").write_text(table_of(answered, infilled), encoding="utf-8")
    logs = {}
    for name in MODELS:
        folder = ADAPTERS / name
        if not (folder / KEPT[0]).is_file():
            continue
        logs[name] = read_log(folder)
        card = make_card(name, answered, infilled, logs[name])
        (folder / "card.json").write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
        (folder / "README.md").write_text(render(card), encoding="utf-8")
    plot_adaptation(logs).savefig(HERE / "natural" / "curves.png", dpi=150)


def table_of(answered: dict[str, Any], infilled: dict[str, Any]) -> str:
    """All models side by side, in Markdown."""
    lines = ["| model | NQ with the gold passage | 15 % of tokens asked | 50 % | 85 % |", "|---|---:|---:|---:|---:|"]
    for name, counts in infilled.items():
        asked = "–"
        if name in answered:
            found = answered[name]
            low, high = (100 * bound for bound in found["interval"])
            asked = f"{100 * found['right'] / found['asked']:.1f} % ({low:.1f}–{high:.1f})"
        shares = " | ".join(f"{100 * right / total:.1f} %" for right, total in counts.values())
        lines.append(f"| {f'`{name}`' if name in answered else f'base, {name}'} | {asked} | {shares} |")
    return "\n".join(lines) + "\n"


def counted(name: str) -> dict[str, Any]:
    """Right answers of a model with Wilson's interval."""
    scores = list(fl.open_run(answers_of(name)).answers["accuracy"])
    right, asked = int(sum(scores)), len(scores)
    interval = binomtest(right, asked).proportion_ci(method="wilson")
    return {"right": right, "asked": asked, "interval": [round(interval.low, 4), round(interval.high, 4)]}


def make_card(
    name: str, answered: dict[str, Any], infilled: dict[str, Any], log: list[dict[str, Any]]
) -> dict[str, Any]:
    recipe = recipe_of(name, len(COURSES) - 1)
    adapted = json.loads((ADAPTERS / name / "adaptation.json").read_text(encoding="utf-8"))
    last = [line for line in log if "answers" in line][-1]
    untrained, own = infilled["untrained, bidirectional"]["15"], infilled[f"natural:{name}"]["15"]
    shares = [right / asked for right, asked in (untrained, own)]
    base, mine = answered[BASE], answered[f"natural:{name}"]
    return {
        "model": f"natural:{name}",
        "base": BASE,
        "to": recipe.to,
        "attention": recipe.attention,
        "adaptation": adapted,
        "training": {"steps": last["step"], "tokens": last["tokens"], "seconds": last["seconds"]},
        "courses": [
            {"taken": steps, "recipe": recipe_of(name, number).model_dump(mode="json")}
            for number, steps in enumerate(steps_of(name))
        ],
        "data": [
            {"name": "SQuAD 1.1 train, 11,877 questions", "licence": "CC BY-SA 4.0", "file": SQUAD.name},
            {"name": "WikiText-2, validation part", "licence": "CC BY-SA 3.0", "file": TEXT.name},
        ],
        "base_licence": "Apache-2.0",
        "results": {"nq": mine, "nq_base": base, "infill": infilled[f"natural:{name}"], "infill_untrained": untrained},
        "aims": {
            "NQ accuracy at least that of the base": mine["right"] / mine["asked"] >= base["right"] / base["asked"],
            "infilling at 15 % masks at least twice that of the untrained bidirectional base": shares[1]
            >= 2 * shares[0]
            if recipe.attention == "full"
            else None,
        },
        "checks": [{k: line[k] for k in line if k in _CHECKED} for line in log if "answers" in line],
    }


_CHECKED = ("step", "tokens", "infill_15", "infill_50", "infill_85", "answers")


def render(card: dict[str, Any]) -> str:
    """The card as Markdown."""
    environment = Environment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, autoescape=False
    )
    return environment.from_string((HERE / "natural-card.md.jinja").read_text(encoding="utf-8")).render(card=card)


if __name__ == "__main__":
    what, *names = sys.argv[1:] or ("",)
    parts: dict[str, Callable[..., None]] = {"ask": ask, "infill": infill, "cards": cards}
    if what in ("train", "place") and names and all(name in MODELS for name in names):
        for chosen in names:
            (train if what == "train" else place)(chosen)
    elif what in parts:
        parts[what](*names)
    else:
        sys.exit(f"give train NAME, ask, infill or cards; names: {', '.join(MODELS)}")
