"""`floatlens adapt`: turn an autoregressive model into a diffusion model, or tune it on the same rows."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from floatlens.cli.commands import flag, option
from floatlens.cli.terminal import duration, progress, say
from floatlens.core.errors import FloatlensError

if TYPE_CHECKING:
    from floatlens.adaptation import Progress, Recipe

__all__ = ["adapt"]

_training = partial(option, panel="Training")


@dataclass(frozen=True)
class TrainingOptions:
    """Settings of the recipe, and of the checks on the way."""

    steps: Annotated[int | None, _training("Training steps.", default="1000")] = None
    rate: Annotated[float | None, _training("Learning rate.", default="0.0005")] = None
    rank: Annotated[int | None, _training("Rank of the adapters.", default="16")] = None
    full: Annotated[bool, flag("Train all weights instead of adapters.", "--full", panel="Training")] = False
    distill: Annotated[float | None, _training("Weight of the frozen base's predictions, 0 to 1.", default="0")] = None
    anneal: Annotated[int | None, _training("Steps over which later tokens become visible.", default="0")] = None
    seed: Annotated[int | None, _training("Seed of rows, masks and adapters.", default="0")] = None
    recipe: Annotated[
        Path | None, _training("JSON file with settings of the recipe; options take precedence.", metavar="FILE")
    ] = None
    start_from: Annotated[Path | None, _training("Adapter to start from.", metavar="FOLDER", default="a new one")] = (
        None
    )
    mask_token: Annotated[
        str | None, _training("Token used as the mask.", metavar="TEXT", default="an unused special token")
    ] = None
    check_every: Annotated[int, _training("Steps between checks on held-out data; 0: none.", min=0)] = 200
    threads: Annotated[int, _training("Torch threads; results are repeatable for the same number.", min=1)] = 1


def adapt(
    context: typer.Context,
    base: Annotated[
        str, typer.Argument(metavar="BASE", help="Hub id, folder, .gguf file or registered name.", show_default=False)
    ],
    data: Annotated[
        list[Path],
        option("Training data: SQuAD .json, questions as .jsonl, or .txt; may be gzipped. Repeatable.", metavar="FILE"),
    ],
    out: Annotated[Path, option("Run folder.", metavar="FOLDER")],
    to: Annotated[Literal["diffusion", "autoregressive"], option("What BASE becomes.", metavar="KIND")] = "diffusion",
    mask: Annotated[
        Literal["full", "block"],
        option("Attention mask: full, or block (causal, bidirectional within each answer).", metavar="MASK"),
    ] = "full",
    held_out: Annotated[list[Path] | None, option("Data for checks only. Repeatable.", metavar="FILE")] = None,
    *,
    training: TrainingOptions,
) -> None:
    """Turn an autoregressive model into a diffusion model.

    With --to autoregressive it is fine-tuned on the same data instead. BASE is a causal Llama, Qwen2 or Qwen3
    model. OUT gets the adapter in peft's format, the training log, curves.png and snapshots/; load it with
    fl.load(OUT). Running the same command again continues after a stop.
    """
    given = {"to": to, "mask": mask, "learning_rate": training.rate, "full": training.full or None}
    given |= {name: getattr(training, name) for name in ("steps", "rank", "distill", "anneal", "seed")}
    chosen = _recipe(training.recipe, {name: value for name, value in given.items() if value is not None})
    for path in (*data, *(held_out or ())):
        if not path.is_file():
            raise FloatlensError(f"{path}: no such file")
    if out.exists() and not out.is_dir():
        raise FloatlensError(f"--out {out}: it is a file; give a folder")
    options: dict[str, Any] = {"held_out": held_out or (), "threads_used": training.threads}
    options |= {name: getattr(training, name) for name in ("mask_token", "start_from", "check_every")}
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
    from floatlens.plots import plot_adaptation

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
