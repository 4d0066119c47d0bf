"""`floatlens scale`: train the scale models, evaluate them, and write questions of their world to a file."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from floatlens.cli.commands import flag, option, require_lab
from floatlens.cli.parsing import parse_names
from floatlens.cli.terminal import console, duration, progress, say
from floatlens.core.errors import FloatlensError
from floatlens.subjects.scale.sets import ALL_SETS, EVALUATION_SEED, SETS, known_set

if TYPE_CHECKING:
    from floatlens_lab.scale.blueprints import Blueprint
    from floatlens_lab.scale.recipe import Recipe
    from floatlens_lab.scale.training import Progress

__all__ = ["evaluate", "questions", "train"]


def train(
    context: typer.Context,
    out: Annotated[Path, option("Folder; each model gets a folder of its own in it.", metavar="FOLDER")],
    model: Annotated[
        list[str] | None, option("llama, qwen, llada, dream or mamba. Repeatable.", metavar="NAME")
    ] = None,
    every: Annotated[bool, flag("Train all five, one after another.", "--all")] = False,
    recipe: Annotated[
        Path | None, option("Training recipe, as JSON.", metavar="FILE", default="the bundled one")
    ] = None,
    settle: Annotated[bool, flag("End each stage when its loss is low enough; see above.", "--settle")] = False,
) -> None:
    """Train scale models from scratch.

    Training uses one thread and takes more than an hour for each model. Each folder gets the weights in the format
    of the model's family, a log and the training curves. dream is adapted from qwen: the one in OUT if there is
    one, else the bundled one. Running the same command again continues after a stop.

    The recipe sets the steps of each stage. To find them for a new recipe, train the slowest model with --settle, then
    the others with --recipe OUT/MODEL/recipe.json.
    """
    require_lab("floatlens scale train")
    from floatlens_lab.scale.blueprints import BLUEPRINTS, blueprint
    from floatlens_lab.scale.recipe import read_recipe

    if every == bool(model):
        raise FloatlensError("give either --model NAME (repeatable) or --all")
    plans = list(BLUEPRINTS.values()) if every else [blueprint(name) for name in dict.fromkeys(model or ())]
    chosen = read_recipe(recipe)
    try:
        for plan in plans:
            _train_one(plan, chosen, out, settle)
    except KeyboardInterrupt:
        say(f"stopped; to continue: {shlex.join(['floatlens', *context.obj])}")
        raise typer.Exit(130) from None


def _train_one(plan: Blueprint, recipe: Recipe, out: Path, settle: bool) -> None:
    from floatlens.plots import plot_training
    from floatlens.subjects.scale import WEIGHTS
    from floatlens_lab.scale.training import LOG_EVERY, read_log, steps_done, train

    folder = out / plan.name
    base = next((home / plan.base for home in (out, WEIGHTS) if plan.base and (home / plan.base).is_dir()), None)
    before = steps_done(folder)
    first = recipe.first_step(adapted=plan.base is not None)
    if (folder / "model.safetensors").is_file():
        say(f"{plan.name}: finished already, in {folder}")
        return
    if before:
        say(f"{plan.name}: continuing after step {before} of {recipe.steps}")
    with progress(f"training {plan.name}", -(-recipe.steps // LOG_EVERY), max(before, first) // LOG_EVERY) as bar:
        train(plan, recipe, folder, base=base, settle=settle, report=lambda p: bar.item(_note(p)))
    log = read_log(folder)
    plot_training({plan.name: log}).savefig(folder / "training.png", dpi=150)
    last = log[-1]
    say(f"{plan.name}: {last['tokens'] / 1e6:.1f} million tokens in {duration(last['seconds'])}; {folder}")


def _note(now: Progress) -> str:
    return f"step {now.step}, {now.stage}: answer loss {now.answer_loss:.3f}, accuracy {now.accuracy:.1%}"


def evaluate(
    model: Annotated[
        list[str] | None,
        typer.Argument(metavar="MODEL…", help="Names or folders; all four if not given.", show_default=False),
    ] = None,
    count: Annotated[int, option("Questions in each question set.", min=1)] = 500,
    sets: Annotated[
        str, option("Comma-separated question sets.", "--question-sets", metavar="NAMES", default=", ".join(SETS))
    ] = ",".join(SETS),
    seed: Annotated[int, option("Seed of the questions.", min=0)] = EVALUATION_SEED,
    card: Annotated[bool, flag("Write the results into the model card of each folder.", "--card")] = False,
) -> None:
    """Measure the accuracy of scale models.

    Questions are asked with documents, in two hops and from memory. Each model decodes with its family's own sampler.
    """
    require_lab("floatlens scale eval")
    from floatlens.cli.views import scale_view
    from floatlens.models import load
    from floatlens.subjects.scale import MODELS
    from floatlens_lab.scale.cards import write_card
    from floatlens_lab.scale.evaluation import evaluate_all

    chosen = [known_set(name) for name in parse_names(sets, "--question-sets") or ()]
    refs = model or [f"scale:{name}" for name in MODELS]
    loaded = [load(ref) for ref in refs]
    results = {}
    with progress("evaluating", len(refs) * len(chosen) * count) as bar:
        for one in loaded:
            results[one.ref] = evaluate_all(
                one, count, sets=chosen, seed=seed, done=lambda outcome: bar.item(outcome.answer)
            )
            if card:
                write_card(one, results[one.ref], seed)
    console().print(scale_view(results))


def questions(
    out: Annotated[Path, option("File to write, .jsonl.", metavar="FILE")],
    which: Annotated[str, option(f"One of {', '.join(ALL_SETS)}.", "--question-set", metavar="NAME")] = "rag",
    count: Annotated[int, option("Number of questions.", min=1)] = 100,
    documents: Annotated[int, option("Documents for each question, 1 to 12.")] = 10,
    place: Annotated[int | None, option("Place of the gold document, from 0.", default="each place in turn")] = None,
    seed: Annotated[int, option("Seed of the questions.", min=0)] = 0,
) -> None:
    """Write questions of the scale world to a file for --data."""
    from floatlens.subjects.scale.examples import questions as draw

    if out.exists():
        raise FloatlensError(f"--out {out}: the file exists; remove it or give another name")
    made = draw(known_set(which), count, documents=documents, gold=place, seed=seed)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("".join(example.model_dump_json() + "\n" for example in made), encoding="utf-8")
    command = shlex.join(["floatlens", "trace", "scale:llada", "--data", str(out), "--out", "RUN"])
    say(f"{len(made)} questions in {out}; trace them with: {command}")
