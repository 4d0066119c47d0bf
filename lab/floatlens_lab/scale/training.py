"""Training: one loop for all four models, on one thread, that can be killed at any moment and goes on where it was.

A step depends only on the recipe, the seed and its number, so a run that was stopped and continued equals one that was
not, bit for bit, on the same machine and versions. The checkpoint is one safetensors file, renamed into place. The log
is one line per `LOG_EVERY` steps; what lies beyond the checkpoint is cut off when a run continues.

Stages have the lengths that the recipe gives. For a new recipe they can be settled by the slowest model: a stage is
left when its answer loss has fallen far enough, and the lengths found go into a recipe that all the others follow.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from floatlens.adaptation.state import STATE, Run, append_log, read_facts, read_log, threads
from floatlens.core.errors import FloatlensError
from floatlens_lab.scale.blueprints import STORED, Blueprint, build_module, write_checkpoint
from floatlens_lab.scale.objectives import draw_mask, score
from floatlens_lab.scale.recipe import Recipe
from floatlens_lab.scale.rows import RowMaker

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["LOG_EVERY", "Progress", "read_log", "steps_done", "train"]

LOG_EVERY = 50
_SAVE_EVERY = 200
_SEEN = 40  # steps of its own that a stage takes at least, while lengths are settled


@dataclass(frozen=True)
class Progress:
    """Where training is: means over the steps since the last report, of those that drew rows of the current stage."""

    step: int
    of: int
    stage: str
    tokens: int
    seconds: float
    loss: float
    answer_loss: float
    accuracy: float


def train(
    plan: Blueprint,
    recipe: Recipe,
    folder: Path,
    *,
    base: Path | None = None,
    settle: bool = False,
    report: Callable[[Progress], None] = lambda progress: None,
    stop_after: int | None = None,
) -> bool:
    """Train a model into `folder`, or go on with what lies there; True when it is finished and its folder complete.

    `base` is the folder of the trained model this one starts from, for a blueprint that has one. With `settle`, stages
    but the last end when their answer loss falls below `until`, after `steps` at the latest; recipe.json in the folder
    then holds the lengths that came out, and training by it gives the same weights. `stop_after` leaves off after so
    many steps of this call, with a checkpoint.
    """
    if (folder / "model.safetensors").is_file() and not (folder / STATE).is_file():
        raise FloatlensError(f"{folder}: it holds a model and no state of its training; give another folder")
    folder.mkdir(parents=True, exist_ok=True)
    with threads(1):
        torch.manual_seed(recipe.seed)
        run = _Run(plan, recipe, folder, base, settle)
        limit = None if stop_after is None else run.step + stop_after
        while run.step < run.recipe.steps and run.step != limit:
            run.advance()
            pause = run.step in (limit, run.recipe.steps)
            if run.step % LOG_EVERY == 0 or pause:
                report(run.log())
            if run.step % _SAVE_EVERY == 0 or pause:
                run.save()
        if run.step < run.recipe.steps:
            return False
        if not (folder / "model.safetensors").is_file():
            (folder / "recipe.json").write_text(run.recipe.model_dump_json(indent=1) + "\n", encoding="utf-8")
            write_checkpoint(plan, run.module, folder)
        return True


class _Run:
    """The state of one training run."""

    def __init__(self, plan: Blueprint, recipe: Recipe, folder: Path, base: Path | None, settle: bool) -> None:
        self.plan, self.recipe, self.folder = plan, recipe, folder
        self.settling = _Settling() if settle else None
        identity = {"model": plan.name, "recipe": recipe.digest + (" (settling)" if settle else "")}
        self.files = Run(folder, identity)
        self.maker = RowMaker(recipe.seed)
        self.module = build_module(plan)
        if plan.base is not None:
            _start_from(self.module, plan, base)
        self.module.train()
        self.optimizer = torch.optim.AdamW(
            self.module.parameters(),
            lr=recipe.learning_rate,
            betas=recipe.betas,
            weight_decay=recipe.weight_decay,
            fused=True,
        )
        self.first = recipe.first_step(adapted=plan.base is not None)
        self.step, self.tokens, self.seconds = self.first, 0, 0.0
        self._since: list[tuple[float, float, float]] = []
        self._restore()

    def _begin_course(self) -> None:
        """Go on from the weights as a checkpoint would store them, so a stored model can do the same."""
        with torch.no_grad():
            for parameter in self.module.parameters():
                parameter.copy_(parameter.to(STORED))
        self.optimizer.state.clear()

    def advance(self) -> None:
        """One step."""
        began = time.perf_counter()
        recipe = self.recipe
        if self.step > self.first and self.step in recipe.course_starts():
            self._begin_course()
        current, stage = recipe.stage_at(self.step)
        rows = self.maker.rows(stage, self.step)
        random = np.random.default_rng([recipe.seed, 2, self.step])
        mask = draw_mask(random, rows, every_answer=stage.every_answer, context_mask=stage.context_mask)
        for group in self.optimizer.param_groups:
            group["lr"] = recipe.rate_at(self.step, self.first)
        found = score(self.module, self.plan, rows, mask, self.maker.mask)
        found.loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.module.parameters(), recipe.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        if stage is current or not self._since:
            self._since.append((float(found.loss.detach()), found.answer_loss, found.accuracy))
        self.step += 1
        if self.settling is not None:
            self.recipe = self.settling.after(self.step, recipe, found.answer_loss if stage is current else None)
        self.tokens += stage.tokens
        self.seconds += time.perf_counter() - began

    def log(self) -> Progress:
        """A line for the steps since the last one."""
        means = np.mean(self._since, axis=0).tolist()
        stage = self.recipe.stage_at(self.step - 1)[0].name
        made = Progress(self.step, self.recipe.steps, stage, self.tokens, round(self.seconds, 1), *means)
        self._since = []
        append_log(self.folder, _plain(made))
        return made

    def save(self) -> None:
        """Weights and optimiser, to go on from."""
        facts: dict[str, Any] = {"step": self.step, "tokens": self.tokens, "seconds": self.seconds}
        if self.settling is not None:
            facts["settling"] = asdict(self.settling)
        self.files.save(self.module.named_parameters(), self.optimizer, facts)

    def _restore(self) -> None:
        """Go on from the checkpoint of the folder, if it has one."""
        facts = self.files.restore(self.module.named_parameters(), self.optimizer)
        if not facts:
            return
        self.step, self.tokens, self.seconds = facts["step"], facts["tokens"], facts["seconds"]
        if self.settling is not None:
            self.settling = _Settling(**facts["settling"])
            self.recipe = self.recipe.with_lengths(self.settling.lengths)


@dataclass
class _Settling:
    """The lengths found so far, and the running mean of the answer loss in the stage under way."""

    lengths: list[int] = field(default_factory=list)
    mean: float = 0.0
    seen: int = 0

    def after(self, step: int, recipe: Recipe, answer_loss: float | None) -> Recipe:
        """The recipe to go on with after a step; the loss is None for a step that went back to an earlier stage."""
        if len(self.lengths) == len(recipe.stages) - 1:
            return recipe
        if answer_loss is not None:
            self.mean = answer_loss if not self.seen else 0.95 * self.mean + 0.05 * answer_loss
            self.seen += 1
        stage, length = recipe.stages[len(self.lengths)], step - sum(self.lengths)
        low = stage.until is not None and self.seen >= _SEEN and self.mean < stage.until
        if low or length == stage.steps:
            self.lengths.append(length)
            self.mean, self.seen = 0.0, 0
        return recipe.with_lengths(self.lengths)


def _start_from(module: PreTrainedModel, plan: Blueprint, base: Path | None) -> None:
    """The trained weights of the model this one is adapted from."""
    from floatlens.models import load

    if base is None or not (base / "model.safetensors").is_file():
        raise FloatlensError(
            f"{plan.name} is adapted from {plan.base}, and there is no trained {plan.base} in "
            f"{base or 'the output folder'}; train it first, or train all"
        )
    module.load_state_dict(load(base, dtype="float32", device="cpu").module.state_dict())


def steps_done(folder: Path) -> int:
    """How many steps the checkpoint of a folder holds; 0 where there is none."""
    return int(read_facts(folder / STATE).get("step", 0))


def _plain(progress: Progress) -> dict[str, Any]:
    return {key: round(value, 5) if isinstance(value, float) else value for key, value in vars(progress).items()}
