"""Activation patching of anchors: does the answer hang on what a model keeps at its anchors (methods §12a)?

Two prompts of the same length differ in a fact. In the pass that decides the first token of the answer, the states of
the strongest keys of one layer are replaced by those of the other prompt at the same positions. The effect is how far
the difference of two logits (the first tokens of both answers) moves to that of the other prompt. Beside it: random
other keys that receive as much attention.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from floatlens.attention.edit import Edit
from floatlens.attention.setting import RowGroup
from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.data.matching import replace_mentions
from floatlens.decoding import plan
from floatlens.decoding.draws import ban
from floatlens.edits.context import edit
from floatlens.edits.patch import PatchStates
from floatlens.models.readout import layers_of
from floatlens.prompts import build
from floatlens.prompts.types import PromptConfig

if TYPE_CHECKING:
    import xarray as xr

    from floatlens.attention.probe import Layer
    from floatlens.data.examples import Example
    from floatlens.models import LanguageModel

__all__ = ["PATCHED", "Patching", "counterfactual_pairs", "patching"]

What = Literal["kv", "residual"]
PATCHED = ("anchors", "control")
"""What is patched: the strongest keys, or random others that receive as much."""
PromptLike = str | Sequence[int]


@dataclass(frozen=True, eq=False)
class Patching:
    """The effect of patching, by pair of prompts and layer.

    `data` has, over (sample, patched, layer): `difference`, the logit of the original answer's first token minus that
    of the counterfactual one; `effect`, the share of the way from the original to the counterfactual difference;
    `mass`, the attention that the patched keys receive; and `keys`, their number. `patched` is "anchors" or "control",
    the mean over its draws. Over (sample): the differences of both prompts. Pairs whose answers begin with the same
    token have no effect (NaN).
    """

    data: xr.Dataset

    @property
    def model(self) -> str:
        return str(self.data.attrs["model"])

    def __repr__(self) -> str:
        a, sizes = self.data.attrs, self.data.sizes
        what = f"{a['what']} of {a['k']} anchors of {a['model']}"
        return f"Patching({what}: {sizes['sample']} pairs, {sizes['layer']} layers)"


def patching(
    model: LanguageModel,
    prompt: PromptLike | Sequence[PromptLike],
    counterfactual: PromptLike | Sequence[PromptLike],
    *,
    k: int = 1,
    what: What = "kv",
    rows: RowGroup = "all",
    layers: Sequence[int] | None = None,
    draws: int = 1,
    seed: int = 0,
    tokens: Sequence[tuple[int, int]] | None = None,
    **settings: Any,
) -> Patching:
    """Patch the `k` strongest keys of each layer in turn, for one pair of prompts or several.

    Prompts are texts or token ids; both of a pair must have the same number of tokens. `what="kv"` replaces keys and
    values in a layer's attention, "residual" the states that enter the layer. Keys are ranked by received attention,
    mean over heads, of the `rows` "all", "answer" or "last" (an autoregressive model: always the last). The position
    whose row decides is never patched: its own state is the answer. `tokens` are
    the two tokens of each pair, by default what the model puts first in each answer. `settings` are those of the
    model's sampler, such as `gen_length`: a diffusion model sees so many masks.

    Example: `fl.patching(model, "Ann has a cat .", "Ann has a dog .", k=2, layers=[3], gen_length=4).data["effect"]`
    """
    _check(model, k, what, rows, draws)
    pairs = _pairs(model, prompt, counterfactual)
    if tokens is not None and len(tokens) != len(pairs):
        raise FloatlensError(f"patching: {len(tokens)} pairs of tokens for {len(pairs)} pairs of prompts")
    chosen = tuple(range(model.num_layers)) if layers is None else _layers(model, layers)
    found = []
    for number, pair in enumerate(pairs):
        passes = _Passes(model, rows, [_laid_out(model, ids, settings) for ids in pair])
        wanted = passes.answers() if tokens is None else tokens[number]
        found.append(_measured(passes, wanted, chosen, k, what, draws, [seed, number]))
    about = {"model": model.ref, "kind": model.kind, "what": what, "k": k, "rows": rows, "draws": draws, "seed": seed}
    return Patching(_dataset(found, chosen, about))


def counterfactual_pairs(
    model: LanguageModel, examples: Sequence[Example], prompt: PromptConfig | None = None
) -> tuple[list[tuple[list[int], list[int]]], list[str]]:
    """For each question its prompt and the same with another question's answer in place of its own in all documents.

    The first other answer that keeps the number of tokens is taken. Also returned: the ids of the questions for which
    there is none, or whose documents do not state their answer.

    Example: `counterfactual_pairs(model, list(open_data("scale:rag", limit=8).examples()))[0]`
    """
    how = prompt or PromptConfig()
    pairs, skipped = [], []
    for example in examples:
        own = _ids(model, example, how)
        others = (one for other in examples if other.id != example.id for one in other.answers)
        made = (_ids(model, _changed(example, answer), how) for answer in dict.fromkeys(others))
        pair = next((ids for ids in made if len(ids) == len(own) and ids != own), None)
        if pair is None:
            skipped.append(example.id)
        else:
            pairs.append((own, pair))
    return pairs, skipped


def _changed(example: Example, answer: str) -> Example:
    documents = []
    for one in example.documents:
        title, text = (replace_mentions(part, example.answers, answer) for part in (one.title, one.text))
        documents.append(one.model_copy(update={"title": title, "text": text}))
    return example.model_copy(update={"documents": documents})


def _ids(model: LanguageModel, example: Example, how: PromptConfig) -> list[int]:
    built = build(
        model.tokenizer, question=example.question, documents=example.documents, template=how.template, chat=how.chat
    )
    return list(built.ids)


# -- passes ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Canvas:
    """One sequence and the row that decides the first token of its answer."""

    ids: Tensor
    row: int
    writing: Tensor | None


def _laid_out(model: LanguageModel, ids: list[int], settings: Mapping[str, Any]) -> _Canvas:
    canvas = plan(model, [ids], **settings)
    first = int(canvas.answer[0].nonzero()[0])
    row = int(canvas.rows[0, first])
    if model.kind == "arm":
        return _Canvas(canvas.ids[:, :first], row, None)
    return _Canvas(canvas.ids, row, canvas.answer)


class _Watch(Edit):
    """Keeps what each layer's keys receive (head, key), and its keys and values; changes nothing."""

    def __init__(self, rows: RowGroup) -> None:
        self.row_group = rows
        self.received: dict[int, Tensor] = {}
        self.states: dict[int, tuple[Tensor, Tensor]] = {}

    def begin_layer(self, layer: Layer) -> None:
        self.states[layer.index] = layer.key[0].clone(), layer.value[0].clone()

    def wants_review(self, layer: Layer) -> bool:
        return True

    def review(self, layer: Layer, received: Tensor) -> None:
        self.received[layer.index] = received[0].clone()


class _Passes:
    """The passes over both prompts of a pair, and patched passes over the first."""

    def __init__(self, model: LanguageModel, rows: RowGroup, canvases: Sequence[_Canvas]) -> None:
        self._model, self._canvas = model, canvases[0]
        self._watches = [_Watch(rows) for _ in canvases]
        self._residuals: list[list[Tensor]] = []
        self.logits = []
        for canvas, watch in zip(canvases, self._watches, strict=True):
            with _noted(model) as states:
                self.logits.append(self._pass(canvas, watch))
            self._residuals.append(states)

    def answers(self) -> tuple[int, int]:
        """The tokens that the model puts first in its answers to both prompts."""
        masks = [] if self._model.mask_id is None else [self._model.mask_id]
        original, counterfactual = (int(ban(x[None].clone(), masks).argmax()) for x in self.logits)
        return original, counterfactual

    def received(self, layer: int) -> NDArray[np.float64]:
        """(key,): what each key of the original prompt receives, mean over heads; NaN for the deciding row's own."""
        found: NDArray[np.float64] = self._watches[0].received[layer].double().mean(0).cpu().numpy()
        found[self._canvas.row] = np.nan
        return found

    def patched(self, layer: int, positions: Sequence[int], what: What) -> Tensor:
        """The logits of the original prompt with states of the other at some positions."""
        if what == "kv":
            return self._pass(self._canvas, PatchStates(layer, positions, *self._watches[1].states[layer]))
        module = list(layers_of(self._model.module).values())[layer]
        with _replaced(module, list(positions), self._residuals[1][layer]):
            return self._pass(self._canvas, Edit())

    def _pass(self, canvas: _Canvas, change: Edit) -> Tensor:
        at = torch.zeros(canvas.ids.shape, dtype=torch.bool)
        at[0, canvas.row] = True
        ids, device = canvas.ids, self._model.device
        with edit(self._model, change):
            logits = self._model.forward(ids.to(device), logits_at=at.to(device), writing=canvas.writing)
        return logits[0].float().cpu()


@contextmanager
def _noted(model: LanguageModel) -> Iterator[list[Tensor]]:
    """The states that enter each layer, (position, dim)."""
    states: list[Tensor] = []

    def note(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        states.append((args[0] if args else kwargs["hidden_states"])[0].clone())

    hooks = [one.register_forward_pre_hook(note, with_kwargs=True) for one in layers_of(model.module).values()]
    try:
        yield states
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def _replaced(layer: nn.Module, positions: list[int], by: Tensor) -> Iterator[None]:
    def change(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        states = (args[0] if args else kwargs["hidden_states"]).clone()
        states[0, positions] = by[positions].to(states)
        return ((states, *args[1:]), kwargs) if args else (args, kwargs | {"hidden_states": states})

    hook = layer.register_forward_pre_hook(change, with_kwargs=True)
    try:
        yield
    finally:
        hook.remove()


# -- measuring ------------------------------------------------------------------------------------------------------


def _measured(
    passes: _Passes,
    tokens: tuple[int, int],
    layers: Sequence[int],
    k: int,
    what: What,
    draws: int,
    seed: list[int],
) -> dict[str, Any]:
    ends = [_difference(logits, tokens) for logits in passes.logits]
    found = {name: np.full((len(PATCHED), len(layers)), np.nan) for name in ("difference", "mass", "keys")}
    for at, layer in enumerate(layers):
        received = passes.received(layer)
        choices = _choices(received, k, draws, [*seed, layer])
        for place, sets in enumerate(choices):
            changed = [_difference(passes.patched(layer, keys, what), tokens) for keys in sets]
            found["difference"][place, at] = np.mean(changed)
            found["mass"][place, at] = np.mean([received[keys].sum() for keys in sets])
            found["keys"][place, at] = np.mean([len(keys) for keys in sets])
    way = ends[0] - ends[1]
    effect = (ends[0] - found["difference"]) / way if tokens[0] != tokens[1] and way else found["difference"] * np.nan
    return {**found, "effect": effect, "original": ends[0], "counterfactual": ends[1], "tokens": tokens}


def _difference(logits: Tensor, tokens: tuple[int, int]) -> float:
    return float(logits[tokens[0]] - logits[tokens[1]])


def _choices(received: NDArray[np.float64], k: int, draws: int, seed: list[int]) -> tuple[list[list[int]], ...]:
    """The k strongest keys (of equals the earlier; NaN: none), and for each draw the shortest prefix of a random order
    of the others that receives at least as much; all of them where they receive less."""
    order = np.argsort(-received, kind="stable")[: int(np.isfinite(received).sum())]
    if k >= len(order):
        raise FloatlensError(f"patching: k={k} of {len(order)} keys leaves none for the control; give a smaller k")
    anchors, others = order[:k], np.sort(order[k:])
    drawn = []
    for number in range(draws):
        mixed = np.random.default_rng([*seed, number]).permutation(others)
        enough = np.flatnonzero(received[mixed].cumsum() >= received[anchors].sum())
        drawn.append(mixed[: enough[0] + 1 if len(enough) else len(mixed)].tolist())
    return [anchors.tolist()], drawn


def _dataset(found: list[dict[str, Any]], layers: Sequence[int], about: dict[str, Any]) -> xr.Dataset:
    import xarray as xr

    dims = ("sample", "patched", "layer")
    values = {name: (dims, np.stack([one[name] for one in found])) for name in ("difference", "effect", "mass", "keys")}
    ends = {name: ("sample", np.array([one[name] for one in found])) for name in ("original", "counterfactual")}
    tokens = {"tokens": (("sample", "answer"), np.array([one["tokens"] for one in found]))}
    coords = {"patched": list(PATCHED), "layer": list(layers), "answer": ["original", "counterfactual"]}
    return xr.Dataset(values | ends | tokens, coords=coords, attrs=about)


# -- what is given --------------------------------------------------------------------------------------------------


def _check(model: LanguageModel, k: int, what: str, rows: str, draws: int) -> None:
    for name, value in (("k", k), ("draws", draws)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise FloatlensError(f"patching({name}={value!r}): give a whole number from 1")
    for name, word, known in (("what", what, get_args(What)), ("rows", rows, get_args(RowGroup))):
        if word not in known:
            raise FloatlensError(f'patching({name}="{word}"){did_you_mean(str(word), known)}')


def _layers(model: LanguageModel, layers: Sequence[int]) -> tuple[int, ...]:
    for layer in layers:
        if not 0 <= layer < model.num_layers:
            raise FloatlensError(f"patching: layer {layer}; the layers of {model.ref} end at {model.num_layers - 1}")
    return tuple(layers)


def _pairs(model: LanguageModel, prompt: Any, counterfactual: Any) -> list[tuple[list[int], list[int]]]:
    sides = [_prompts(model, given) for given in (prompt, counterfactual)]
    if len(sides[0]) != len(sides[1]):
        raise FloatlensError(f"patching: {len(sides[0])} prompts and {len(sides[1])} counterfactual ones; give as many")
    for number, (one, other) in enumerate(zip(*sides, strict=True)):
        if len(one) != len(other):
            raise FloatlensError(
                f"patching: pair {number} has {len(one)} and {len(other)} tokens; states are exchanged position by "
                "position, so give prompts of the same length"
            )
    return list(zip(*sides, strict=True))


def _prompts(model: LanguageModel, given: Any) -> list[list[int]]:
    several = not isinstance(given, str) and any(not isinstance(one, int) for one in given)
    found = []
    for one in given if several else [given]:
        if isinstance(one, str) and model.tokenizer is None:
            raise FloatlensError(f"patching: {model.ref} has no tokenizer; give token ids")
        found.append(list(model.tokenizer(one).input_ids) if isinstance(one, str) and model.tokenizer else list(one))
    return found
