"""`floatlens scale`: train the scale models, evaluate them, and write questions of their world to a file."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from floatlens.cli.lab import require_lab
from floatlens.cli.terminal import console, duration, progress, say
from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.subjects.scale.sets import ALL_SETS, EVALUATION_SEED, SETS, QuestionSet

if TYPE_CHECKING:
    from floatlens_lab.scale.blueprints import Blueprint
    from floatlens_lab.scale.recipe import Recipe
    from floatlens_lab.scale.training import Progress

__all__ = ["scale"]

scale = typer.Typer(no_args_is_help=True, help="Four small trained models and the made-up world they know.")

Debug = Annotated[bool, typer.Option("--debug", metavar="", help="Show tracebacks and the warnings of libraries.")]


@scale.command()
def train(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="A folder; every model gets one of its own in it.", show_default=False)],
    model: Annotated[
        list[str] | None, typer.Option(help="llama, qwen, llada or dream; repeatable.", show_default=False)
    ] = None,
    every: Annotated[bool, typer.Option("--all", metavar="", help="All four, one after another.")] = False,
    recipe: Annotated[
        Path | None,
        typer.Option(help="A recipe of your own, as JSON; the bundled one if not given.", show_default=False),
    ] = None,
    settle: Annotated[
        bool, typer.Option("--settle", metavar="", help="Leave each stage when its loss is low enough; see below.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Train from scratch, on one thread (more than an hour a model); run the same command again to go on after a stop.

    Each model's folder gets its weights in the format of its family, a log and its curves as a figure. `dream` is
    adapted from `qwen`: the one trained in the same folder if there is one, else the bundled one.

    The steps of each stage are in the recipe. For a recipe of your own they can be settled by the slowest model: train
    it with --settle, then the others with --recipe OUT/MODEL/recipe.json.
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
        say(f"{plan.name}: finished before, in {folder}")
        return
    if before:
        say(f"{plan.name}: going on after step {before} of {recipe.steps}")
    with progress(f"training {plan.name}", -(-recipe.steps // LOG_EVERY), max(before, first) // LOG_EVERY) as bar:
        train(plan, recipe, folder, base=base, settle=settle, report=lambda p: bar.item(_note(p)))
    log = read_log(folder)
    plot_training({plan.name: log}).savefig(folder / "training.png", dpi=150)
    last = log[-1]
    say(f"{plan.name}: {last['tokens'] / 1e6:.1f} million tokens in {duration(last['seconds'])}; {folder}")


def _note(now: Progress) -> str:
    return f"step {now.step}, {now.stage}: answer loss {now.answer_loss:.3f}, accuracy {now.accuracy:.1%}"


@scale.command(name="eval")
def evaluate(
    model: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MODEL]…", help="Names or folders; all four if not given.", show_default=False),
    ] = None,
    count: Annotated[int, typer.Option(help="Questions in each set.", min=1)] = 500,
    sets: Annotated[str, typer.Option(help="Question sets, commas between.")] = ",".join(SETS),
    seed: Annotated[int, typer.Option(help="Of the questions.", min=0)] = EVALUATION_SEED,
    card: Annotated[
        bool, typer.Option("--card", metavar="", help="Write the results into the model card of each folder.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Accuracy with documents, in two hops, and from memory, decoded by each family's own sampler."""
    require_lab("floatlens scale eval")
    from floatlens.cli.parsing import parse_names
    from floatlens.cli.views import scale_view
    from floatlens.models import load
    from floatlens.subjects.scale import MODELS
    from floatlens_lab.scale.cards import write_card
    from floatlens_lab.scale.evaluation import evaluate_all

    chosen = [_known_set(name) for name in parse_names(sets, "--sets") or ()]
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


def _known_set(given: str) -> QuestionSet:
    for name in ALL_SETS:
        if name == given:
            return name
    raise FloatlensError(f'no question set "{given}"{did_you_mean(given, ALL_SETS)}')


@scale.command()
def questions(
    out: Annotated[Path, typer.Option(help="The file to write, .jsonl.", show_default=False)],
    which: Annotated[str, typer.Option("--set", help=f"One of {', '.join(ALL_SETS)}.")] = "rag",
    count: Annotated[int, typer.Option(help="How many.", min=1)] = 100,
    documents: Annotated[int, typer.Option(help="Documents for each, 1 to 12.")] = 10,
    gold: Annotated[
        int | None,
        typer.Option(help="Place of the gold document, from 0; every place in turn if not given.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(help="Another seed gives other questions.", min=0)] = 0,
    debug: Debug = False,
) -> None:
    """Write questions of the scale world to a file that `floatlens trace --data` reads."""
    from floatlens.subjects.scale.examples import questions as draw

    if out.exists():
        raise FloatlensError(f"--out {out}: it is already there; remove it or give another name")
    made = draw(_known_set(which), count, documents=documents, gold=gold, seed=seed)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("".join(example.model_dump_json() + "\n" for example in made), encoding="utf-8")
    command = shlex.join(["floatlens", "trace", "scale:llada", "--data", str(out), "--out", "RUN"])
    say(f"{len(made)} questions in {out}; trace them with: {command}")
