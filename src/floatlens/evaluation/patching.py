"""Activation patching of anchors: do anchors carry the answer (methods §12a)?

Two prompts of the same length differ in a fact. In the pass that decides the first token of the answer, the states of
the strongest keys of one layer are replaced by those of the other prompt at the same positions. The effect is how far
the difference of two logits (the first tokens of both answers) moves to that of the other prompt. Beside it: random
other keys that receive as much attention.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from floatlens.attention.setting import RowGroup
from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.evaluation.patch_passes import PatchPasses, lay_out_prompt
from floatlens.records.condition import Patched, PatchedKeys, PatchedStates

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from floatlens.attention.softmax import Workspace
    from floatlens.models import LanguageModel

__all__ = ["PATCHED", "PatchedPair", "Patching", "patch_pair", "patching"]

PATCHED: tuple[PatchedKeys, ...] = get_args(PatchedKeys)
"""What is patched: the strongest keys, or random others that receive as much."""
PromptLike = str | Sequence[int]
Floats = NDArray[np.float64]


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

    def to_frame(self) -> pd.DataFrame:
        """One row per pair, patched keys and layer, with the columns of `floatlens.records.patching_frame`."""
        about = self.data.attrs
        found = self.data[["effect", "mass", "keys"]].to_dataframe().reset_index().rename(columns={"sample": "index"})
        who = {"model": self.model, "model_kind": about["kind"], "data": "", "what": about["what"]}
        return found.assign(**who, id=found["index"].map(str))

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
    what: PatchedStates = "kv",
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
    whose row decides is never patched: its own state is the answer. `tokens` are the two tokens of each pair, by
    default what the model puts first in each answer. `settings` are those of the model's sampler, such as `gen_length`:
    a diffusion model sees so many masks. For many questions of a data set, see `patching` in docs/studies.md.

    Example: `fl.patching(model, "Ann has a cat .", "Ann has a dog .", k=2, layers=[3], gen_length=4).data["effect"]`
    """
    _check(k, what, rows, draws)
    pairs = _pairs(model, prompt, counterfactual)
    if tokens is not None and len(tokens) != len(pairs):
        raise FloatlensError(f"patching: {len(tokens)} pairs of tokens for {len(pairs)} pairs of prompts")
    chosen = None if layers is None else _layers(model, layers)
    how = Patched(what=(what,), k=k, rows=rows, draws=draws, seed=seed)
    wanted = [None] * len(pairs) if tokens is None else tokens
    found = [
        patch_pair(model, pair, how, number, layers=chosen, tokens=two, **settings)
        for number, (pair, two) in enumerate(zip(pairs, wanted, strict=True))
    ]
    about = {"model": model.ref, "kind": model.kind, "what": what, "k": k, "rows": rows, "draws": draws, "seed": seed}
    return Patching(_dataset(found, what, about))


# -- measuring ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PatchedPair:
    """One pair of prompts, patched layer by layer. Arrays are (patched, layer), see `PATCHED`."""

    layers: tuple[int, ...]
    tokens: tuple[int, int]
    original: float
    """Logit of the first token minus that of the second, for the original prompt."""
    counterfactual: float
    difference: Mapping[PatchedStates, Floats]
    mass: Floats
    keys: Floats

    @property
    def defined(self) -> bool:
        """Whether there is a way to go: two answers that begin with different tokens, and different prompts."""
        return self.tokens[0] != self.tokens[1] and self.original != self.counterfactual

    def effect(self, what: PatchedStates) -> Floats:
        """The share of the way from the original to the counterfactual difference; NaN where there is none."""
        if not self.defined:
            return np.full_like(self.mass, np.nan)
        return (self.original - self.difference[what]) / (self.original - self.counterfactual)


def patch_pair(
    model: LanguageModel,
    pair: tuple[list[int], list[int]],
    how: Patched,
    number: int = 0,
    *,
    layers: Sequence[int] | None = None,
    tokens: tuple[int, int] | None = None,
    workspace: Workspace | None = None,
    **settings: Any,
) -> PatchedPair:
    """Patch the first prompt of a pair with states of the second, in each layer in turn; `number` seeds its draws.

    Example: `patch_pair(model, ([5, 9, 12], [5, 7, 12]), Patched(what=("kv",)), gen_length=4).effect("kv")`
    """
    passes = PatchPasses(model, how.rows, [lay_out_prompt(model, ids, settings) for ids in pair], workspace)
    wanted = passes.answers() if tokens is None else tokens
    chosen = tuple(range(model.num_layers)) if layers is None else tuple(layers)
    shape = (len(PATCHED), len(chosen))
    mass, keys = np.full(shape, np.nan), np.full(shape, np.nan)
    difference = {what: np.full(shape, np.nan) for what in how.what}
    for at, layer in enumerate(chosen):
        received = passes.received(layer)
        for place, sets in enumerate(_choices(received, how.k, how.draws, [how.seed, number, layer])):
            mass[place, at] = np.mean([received[one].sum() for one in sets])
            keys[place, at] = np.mean([len(one) for one in sets])
            for what, found in difference.items() if wanted[0] != wanted[1] else ():  # else there is nothing to move
                changed = [_difference(passes.patched(layer, one, what), wanted) for one in sets]
                found[place, at] = np.mean(changed)
    original, counterfactual = (_difference(logits, wanted) for logits in passes.logits)
    return PatchedPair(chosen, wanted, original, counterfactual, difference, mass, keys)


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


def _dataset(found: Sequence[PatchedPair], what: PatchedStates, about: dict[str, Any]) -> xr.Dataset:
    import xarray as xr

    dims = ("sample", "patched", "layer")
    arrays = {
        "difference": [one.difference[what] for one in found],
        "effect": [one.effect(what) for one in found],
        "mass": [one.mass for one in found],
        "keys": [one.keys for one in found],
    }
    values = {name: (dims, np.stack(each)) for name, each in arrays.items()}
    answers = ["original", "counterfactual"]
    ends = {name: ("sample", np.array([getattr(one, name) for one in found])) for name in answers}
    tokens = {"tokens": (("sample", "answer"), np.array([one.tokens for one in found]))}
    coords = {"patched": list(PATCHED), "layer": list(found[0].layers), "answer": answers}
    return xr.Dataset(values | ends | tokens, coords=coords, attrs=about)


# -- what is given --------------------------------------------------------------------------------------------------


def _check(k: int, what: str, rows: str, draws: int) -> None:
    for name, value in (("k", k), ("draws", draws)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise FloatlensError(f"patching({name}={value!r}): give a whole number from 1")
    for name, word, known in (("what", what, get_args(PatchedStates)), ("rows", rows, get_args(RowGroup))):
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
