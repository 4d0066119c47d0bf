"""The training loop: deterministic for a seed, killed at any moment without loss beyond the last save, resumed exactly.

A step depends on the recipe, the data and its number alone. The folder holds the state of the run, its log, the adapter
as it was at the last save, and snapshots of it at fixed steps. Nothing is evaluated here; `checks` does that.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from floatlens.adaptation.checks import Checks
from floatlens.adaptation.objective import Asked, draw, hidden_states, score, visible
from floatlens.adaptation.recipe import SNAPSHOTS, Recipe
from floatlens.adaptation.rows import RowMaker, Rows
from floatlens.adaptation.sources import Corpus, read_corpus
from floatlens.adaptation.start import check_base, find_mask_token, trainable, wrap, write_adapter
from floatlens.adaptation.state import Run, append_log, threads
from floatlens.core.errors import FloatlensError
from floatlens.models.adapted import Adapted, adapter_digest
from floatlens.models.facts import look

if TYPE_CHECKING:
    from floatlens.models import LanguageModel

__all__ = ["Progress", "adapt", "snapshot_folder"]

LOG_EVERY = 10
SAVE_EVERY = 50
STORED = torch.float16
"""Adapters are stored in half precision, and snapshots likewise; the state of a run keeps every bit."""


@dataclass(frozen=True)
class Progress:
    """Where training is: `numbers` are means since the last report, and results of checks made at this step."""

    step: int
    of: int
    tokens: int
    seconds: float
    numbers: dict[str, float]


def adapt(
    base: str | Path | LanguageModel,
    data: Sequence[str | Path] | Corpus,
    out: str | Path,
    *,
    recipe: Recipe | None = None,
    held_out: Sequence[str | Path] = (),
    mask_token: str | None = None,
    start_from: str | Path | None = None,
    check_every: int = 200,
    threads_used: int = 1,
    stop_after: int | None = None,
    report: Callable[[Progress], None] = lambda progress: None,
) -> Path:
    """Train an adapter for `base` into the folder `out`, or go on with what lies there; returns the folder.

    `data` are files (see `read_corpus`), `held_out` files for the checks. `mask_token` names the mask token of a
    diffusion model; one that nothing uses is chosen if it is None. `start_from` is the folder of an adapter of the same
    shape whose weights training begins with. `check_every` steps the model is tried on what is held out (0: never).
    `stop_after` ends this call after that many steps.

    Example: `adapt("natural:smollm2", ["squad.json.gz"], "runs/twin", recipe=Recipe(steps=200))`
    """
    from floatlens.models import load

    recipe = recipe or Recipe()
    corpus = data if isinstance(data, Corpus) else read_corpus(data, held_out)
    folder = Path(out)
    with threads(threads_used):
        model = load(base, dtype="float32", device="cpu") if isinstance(base, str | Path) else base
        check_base(model)
        run = _Training(model, corpus, recipe, folder, mask_token, start_from, check_every)
        limit = recipe.steps if stop_after is None else min(recipe.steps, run.step + stop_after)
        while run.step < limit:
            run.advance()
            pause = run.step == limit
            if run.step % LOG_EVERY == 0 or pause:
                report(run.log(check=run.due(pause)))
            if run.step in SNAPSHOTS:
                run.keep(snapshot_folder(folder, run.step))
            if run.step % SAVE_EVERY == 0 or pause:
                run.save()
    return folder


def snapshot_folder(folder: Path, step: int) -> Path:
    """Where the adapter of a step is kept."""
    return folder / "snapshots" / f"step-{step:06d}"


class _Training:
    """One run."""

    def __init__(
        self,
        model: LanguageModel,
        corpus: Corpus,
        recipe: Recipe,
        folder: Path,
        mask_token: str | None,
        start_from: str | Path | None,
        check_every: int,
    ) -> None:
        self.model, self.recipe, self.folder = model, recipe, folder
        diffusion = recipe.to == "diffusion"
        self.mask_id = find_mask_token(model, mask_token) if diffusion else None
        assert model.tokenizer is not None  # check_base
        self.maker = RowMaker(model.tokenizer, corpus, recipe, model.eos_ids[0])
        self.checks = Checks(corpus, self.maker, recipe, check_every)
        torch.manual_seed(recipe.seed)
        self.base_digest = look(model.ref).weights
        self.module: Any = model.module
        self.wrapped: Any = self.module if recipe.full else wrap(model, recipe, self.mask_id)
        if recipe.full:
            self.module.requires_grad_(True)
        if start_from is not None:
            _begin_with(self.wrapped, Path(start_from), recipe)
        self.parameters = trainable(self.wrapped)
        self.optimizer = torch.optim.AdamW(
            [parameter for _, parameter in self.parameters], recipe.learning_rate, weight_decay=recipe.weight_decay
        )
        folder.mkdir(parents=True, exist_ok=True)
        self.files = Run(folder, self._identity(corpus, start_from))
        facts = self.files.restore(self.parameters, self.optimizer)
        self.step, self.tokens = facts.get("step", 0), facts.get("tokens", 0)
        self.seconds = facts.get("seconds", 0.0)
        self._since: list[tuple[float, dict[str, tuple[float, int]]]] = []
        if not facts:
            self.keep(snapshot_folder(folder, 0))
            (folder / "recipe.json").write_text(recipe.model_dump_json(indent=1) + "\n", encoding="utf-8")
            self._write_checks(self.checks.run(self.current()) if check_every else {})

    def _identity(self, corpus: Corpus, start_from: str | Path | None) -> dict[str, str]:
        data = " ".join(f"{name}:{digest[:12]}" for name, digest in corpus.digests)
        return {
            "base": str(self.base_digest),
            "recipe": self.recipe.digest,
            "data": data,
            "mask": str(self.mask_id),
            "start": "base" if start_from is None else adapter_digest(Path(start_from)),
        }

    def current(self) -> LanguageModel:
        """The model as it is now, merged, for trying it out; training is not touched."""
        merged = copy.deepcopy(self.wrapped)
        if not self.recipe.full:
            merged = merged.merge_and_unload()
        return self.adapted().apply(self.model, merged)

    def adapted(self) -> Adapted:
        return Adapted(
            to=self.recipe.to,
            attention=self.recipe.attention,
            mask_token_id=self.mask_id,
            base=self.model.ref,
            base_weights=self.base_digest,
            step=self.step,
            tokens=self.tokens,
        )

    def advance(self) -> None:
        """One step."""
        began = time.perf_counter()
        recipe = self.recipe
        rows = self.maker.rows(self.step)
        random = np.random.default_rng([recipe.seed, 2, self.step])
        asked = draw(random, rows, recipe)
        share = 1.0 if not recipe.anneal else min(1.0, self.step / recipe.anneal)
        mask = visible(rows, recipe.attention, share, random)
        teacher = self._teacher(rows, asked) if recipe.distill else None
        for group in self.optimizer.param_groups:
            group["lr"] = recipe.rate_at(self.step)
        self.wrapped.train()
        found = score(self.module, rows, asked, mask, self.mask_id, teacher, recipe.distill)
        found.loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_([parameter for _, parameter in self.parameters], recipe.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.step += 1
        self.tokens += rows.tokens
        self._since.append((float(found.loss.detach()), found.sums))
        self.seconds += time.perf_counter() - began

    @torch.no_grad()
    def _teacher(self, rows: Rows, asked: Asked) -> Tensor:
        """Logits of the frozen, causal base at the rows that decide the tokens asked for; it sees them all."""
        where = torch.from_numpy(asked.where)
        with self.wrapped.disable_adapter():
            states = hidden_states(self.module, torch.from_numpy(rows.ids), visible(rows, "causal"))
            logits: Tensor = self.module.get_output_embeddings()(states[where.roll(-1, dims=1)])
        return logits

    def due(self, pause: bool) -> bool:
        """Whether the model is to be tried out now."""
        every = self.checks.every
        return bool(every) and (self.step % every == 0 or (pause and self.step == self.recipe.steps))

    def log(self, *, check: bool) -> Progress:
        """A line for the steps since the last one."""
        numbers = {"loss": float(np.mean([loss for loss, _ in self._since]))}
        for name in self._since[0][1]:
            total, count = np.sum([sums[name] for _, sums in self._since], axis=0)
            if count:
                numbers[name] = float(total / count)
        if check:
            numbers |= self.checks.run(self.current())
        self._since = []
        self._write_checks(numbers)
        return Progress(self.step, self.recipe.steps, self.tokens, round(self.seconds, 1), numbers)

    def _write_checks(self, numbers: dict[str, float]) -> None:
        line = {"step": self.step, "tokens": self.tokens, "seconds": round(self.seconds, 1)}
        append_log(self.folder, line | {name: round(value, 5) for name, value in numbers.items()})

    def keep(self, folder: Path) -> None:
        """Write the model as it is now: an adapter, or a whole checkpoint when all weights are trained."""
        if self.recipe.full:
            self.module.save_pretrained(folder)
            self.model.tokenizer.save_pretrained(folder)  # type: ignore[union-attr]
        else:
            write_adapter(self.wrapped, folder, STORED)
        self.adapted().write(folder)

    def save(self) -> None:
        """The state to go on from, and the adapter beside it."""
        facts = {"step": self.step, "tokens": self.tokens, "seconds": self.seconds}
        self.files.save(self.parameters, self.optimizer, facts)
        self.keep(self.folder)


def _begin_with(wrapped: Any, folder: Path, recipe: Recipe) -> None:
    """Load the weights of an adapter of the same shape; what does not fit is named."""
    from peft import set_peft_model_state_dict
    from safetensors.torch import load_file

    path = folder / "adapter_model.safetensors"
    if recipe.full or not path.is_file():
        raise FloatlensError(f"start_from={folder}: expected the folder of an adapter, for training without full=True")
    tensors = {name: tensor.float() for name, tensor in load_file(path).items()}
    try:
        found: Any = set_peft_model_state_dict(wrapped, tensors)
    except RuntimeError as error:
        raise FloatlensError(f"{path}: it does not fit this recipe ({str(error).splitlines()[-1].strip()})") from None
    if found.unexpected_keys:
        raise FloatlensError(f"{path}: tensor {found.unexpected_keys[0]} has no place in this recipe's adapter")
