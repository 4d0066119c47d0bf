"""`floatlens adapt`: turn an autoregressive model into a diffusion model, or tune it on the same rows."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from floatlens.cli.terminal import duration, progress, say
from floatlens.core.errors import FloatlensError

if TYPE_CHECKING:
    from floatlens.adaptation import Progress, Recipe

__all__ = ["add_adapt"]

_HELP = (
    "Train an adapter that turns BASE into a masked diffusion model, or tunes it on the same rows.\n\n"
    "BASE is a causal Llama, Qwen2 or Qwen3 model. Running the same command again continues where it stopped. "
    "OUT gets the adapter in peft's format, the log, curves.png and snapshots/; load it with fl.load(OUT)."
)


def add_adapt(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="adapt", help=_HELP)(adapt)


def _option(help: str, panel: str | None = None, **more: Any) -> Any:
    return typer.Option(help=help, rich_help_panel=panel, show_default=False, **more)


def adapt(
    context: typer.Context,
    base: Annotated[str, typer.Argument(metavar="BASE", help="Hub id, folder, .gguf file or registered name.")],
    data: Annotated[
        list[Path], _option("Training data: SQuAD's .json, questions as .jsonl, or plain .txt; gzip works; repeatable.")
    ],
    out: Annotated[Path, _option("Folder of the run.")],
    to: Annotated[
        Literal["diffusion", "autoregressive"],
        typer.Option(metavar="KIND", help="What BASE becomes: diffusion or autoregressive."),
    ] = "diffusion",
    mask: Annotated[
        Literal["full", "block"],
        typer.Option(metavar="MASK", help="Attention: full, or block (causal, each answer bidirectional in itself)."),
    ] = "full",
    held_out: Annotated[list[Path] | None, _option("Data for the checks only; repeatable.")] = None,
    steps: Annotated[int | None, _option("Training steps (default: 1000).", "Training")] = None,
    rate: Annotated[float | None, _option("Learning rate (default: 0.0005).", "Training")] = None,
    rank: Annotated[int | None, _option("Rank of the adapters (default: 16).", "Training")] = None,
    full: Annotated[bool, typer.Option("--full", metavar="", help="Train all weights instead of adapters.")] = False,
    distill: Annotated[
        float | None, _option("Weight of the frozen base's predictions, 0 to 1 (default: 0).", "Training")
    ] = None,
    anneal: Annotated[
        int | None, _option("Steps over which later tokens become visible (default: 0).", "Training")
    ] = None,
    seed: Annotated[int | None, _option("Seed of rows, masks and adapters (default: 0).", "Training")] = None,
    recipe: Annotated[
        Path | None, _option("JSON file with any settings of the recipe; options take precedence.", "Training")
    ] = None,
    start_from: Annotated[Path | None, _option("Adapter to start from instead of a fresh one.", "Training")] = None,
    mask_token: Annotated[
        str | None, _option("Token that serves as the mask (default: an unused special token).", "Training")
    ] = None,
    check_every: Annotated[int, typer.Option(help="Steps between checks on held-out data; 0: none.", min=0)] = 200,
    threads: Annotated[int, typer.Option(help="Threads of torch; part of what makes a run repeatable.", min=1)] = 1,
    debug: Annotated[bool, typer.Option("--debug", metavar="", help="Show tracebacks.")] = False,
) -> None:
    """See `_HELP`."""
    given = {"to": to, "mask": mask, "steps": steps, "learning_rate": rate, "rank": rank, "distill": distill}
    given |= {"full": full or None, "anneal": anneal, "seed": seed}
    chosen = _recipe(recipe, {name: value for name, value in given.items() if value is not None})
    for path in (*data, *(held_out or ())):
        if not path.is_file():
            raise FloatlensError(f"{path}: no such file")
    if out.exists() and not out.is_dir():
        raise FloatlensError(f"--out {out}: it is a file; give a folder")
    options: dict[str, Any] = {"held_out": held_out or (), "mask_token": mask_token, "start_from": start_from}
    options |= {"check_every": check_every, "threads_used": threads}
    try:
        _train(base, data, out, chosen, options)
    except KeyboardInterrupt:
        say(f"stopped; to continue: {shlex.join(['floatlens', *context.obj])}")
        raise typer.Exit(130) from None


def _recipe(path: Path | None, given: dict[str, Any]) -> Recipe:
    from floatlens.adaptation.recipe import Recipe, read_recipe
    from floatlens.core.validation import validate

    values = {} if path is None else read_recipe(path)
    return validate(Recipe, values | given)


def _train(base: str, data: list[Path], out: Path, recipe: Recipe, options: dict[str, Any]) -> None:
    from floatlens.adaptation import adapt as run
    from floatlens.adaptation.state import STATE, read_facts, read_log
    from floatlens.plots.adaptation import plot_adaptation

    done = int(read_facts(out / STATE).get("step", 0))
    if done:
        say(f"continuing after step {done} of {recipe.steps}")
    with progress(f"adapting {base}", recipe.steps, done) as bar:

        def report(now: Progress) -> None:
            while bar.done < now.step:
                bar.item(_note(now))

        run(base, data, out, recipe=recipe, report=report, **options)
    log = read_log(out)
    plot_adaptation({out.name: log}).savefig(out / "curves.png", dpi=150)
    last = log[-1]
    say(
        f"{last['tokens'] / 1e3:.0f} thousand tokens in {duration(last['seconds'])}; load it with fl.load({str(out)!r})"
    )


def _note(now: Progress) -> str:
    names = {
        "answer_loss": "answer loss",
        "answer_accuracy": "answer tokens right",
        "answers": "held-out answers right",
    }
    parts = [f"loss {now.numbers['loss']:.2f}"]
    for key, words in names.items():
        if key in now.numbers:
            value = now.numbers[key]
            parts.append(f"{words} {value:.2f}" if key == "answer_loss" else f"{words} {value:.0%}")
    return f"step {now.step}: {', '.join(parts)}"
