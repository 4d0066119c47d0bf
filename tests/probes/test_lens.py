"""The probe `lens` against transformers' own hidden states, final norm and head, pass by pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from floatlens import Select, trace
from floatlens.core.errors import FloatlensError
from floatlens.probes import Lens

PROMPT = [5, 9, 12, 33, 21, 40]
Model = Callable[[str], Any]

TAILS: dict[str, Callable[[Any, torch.Tensor], torch.Tensor]] = {
    "llada": lambda m, x: m.lm_head(m.model.norm(x)),
    "dream": lambda m, x: m.lm_head(m.model.norm(x)),
    "a2d-qwen3": lambda m, x: m.lm_head(m.model.norm(x)),
    "llada-moe": lambda m, x: m.lm_head(m.model.norm(x)),
    "bert": lambda m, x: m.cls(x),
    "roberta": lambda m, x: m.lm_head(x),
    "llama": lambda m, x: m.lm_head(m.model.norm(x)),
    "gpt2": lambda m, x: m.lm_head(m.transformer.ln_f(x)),
}


def logits_by_layer(model: Any, ids: np.ndarray, name: str) -> list[torch.Tensor]:
    """(position, vocabulary) for each layer: the hidden states of a whole pass through the parts of the class."""
    given = {"input_ids": torch.tensor(ids, dtype=torch.long)[None], "output_hidden_states": True}
    if name == "roberta":  # its table of positions begins after the padding
        given["position_ids"] = torch.arange(len(ids))[None] + model.position_offset
    with torch.inference_mode():
        out = model.module(**given)
        return [*(TAILS[name](model.module, x[0]) for x in out.hidden_states[1:-1]), out.logits[0]]


@pytest.mark.parametrize("name", TAILS)
def test_against_transformers_hidden_states(name: str, tiny_model: Model) -> None:
    """Every committed token, in every pass up to the one that committed it."""
    model = tiny_model(name)
    how = {} if model.kind == "arm" else {"steps": 3}
    data = trace(model, prompt_ids=PROMPT, probes=["lens"], gen_length=6, **how).data
    assert data["lens_rank"].dims == ("lens_before", "token", "layer")
    checked = 0
    for step in data["step"].values:
        ids = data["sequence"].sel(step=step).values
        layers = logits_by_layer(model, ids[ids >= 0], name)
        for token, when in enumerate(data["token_step"].values):
            row, own = int(data["token_row"][token]), int(data["token_id"][token])
            before = when - step
            if before < 0 or row >= (ids >= 0).sum() or (model.kind == "arm" and before):
                continue
            for layer, logits in enumerate(layers):
                share = torch.log_softmax(logits[row].double(), -1)
                others = [i for i in range(model.vocab_size) if i != model.mask_id]
                found = data.isel(token=token, layer=layer).sel(lens_before=before)
                assert found["lens_logp"].item() == pytest.approx(share[own].item(), abs=2e-4)
                assert found["lens_peak"].item() == pytest.approx(share[others].max().exp().item(), abs=2e-4)
                rest = share[[i for i in others if i != own]]
                beyond = [int((rest > share[own] + by).sum()) + 1 for by in (1e-4, -1e-4)]  # but for rounding
                assert beyond[0] <= found["lens_rank"].item() <= beyond[1]
                checked += 1
    assert checked == (data["lens_rank"].values >= 0).sum()
    assert checked >= data.sizes["token"] * model.num_layers


def test_greedy_tokens_are_first_in_the_last_layer_when_committed(tiny_model: Model) -> None:
    for name in ("llada", "dream", "llama"):
        how = {} if name == "llama" else {"steps": 4}
        data = trace(tiny_model(name), prompt_ids=PROMPT, probes=["lens"], gen_length=4, **how).data
        assert (data["lens_rank"].sel(lens_before=0).isel(layer=-1) == 1).all()


def test_blocks_and_selections(tiny_model: Model) -> None:
    """Masks of a later block are read too; passes and layers that were not selected are left out."""
    model = tiny_model("llada")
    how: dict[str, Any] = {"prompt_ids": PROMPT, "gen_length": 6, "steps": 6, "block_length": 3, "probes": ["lens"]}
    whole = trace(model, **how).data
    assert (whole["lens_rank"].sel(lens_before=3).values >= 0).any(axis=-1).sum() == 3  # committed in steps 3, 4 and 5
    last = whole["token_step"].values == 5
    assert (whole["lens_rank"].values[:, last] >= 0).all()
    part = trace(model, select=Select(steps=[0, 5], layers=[2]), **how).data
    assert part["layer"].values.tolist() == [2]
    kept = part["lens_rank"].values[:, last, 0].ravel()
    expected = whole["lens_rank"].values[:, last, 2].ravel()
    assert [i for i, rank in enumerate(kept) if rank >= 0] == [0, 5]
    assert [kept[0], kept[5]] == [expected[0], expected[5]]
    assert np.isnan(part["lens_logp"].values[1:5, last]).all()


def test_the_lens_changes_no_answer(any_name: str, tiny_model: Model) -> None:
    model = tiny_model(any_name)
    how = {} if model.kind == "arm" else {"steps": 2}
    with_lens = trace(model, prompt_ids=PROMPT, probes=["received", "lens"], gen_length=4, **how).data
    without = trace(model, prompt_ids=PROMPT, probes=["received"], gen_length=4, **how).data
    assert with_lens["final"].equals(without["final"])
    assert not model.whole_rows
    np.testing.assert_allclose(with_lens["received"], without["received"], atol=1e-6)


def test_too_many_states_are_refused_before_they_are_kept(tiny_model: Model) -> None:
    with pytest.raises(FloatlensError, match=r'"lens": 4 steps × 3 layers × 4 positions × \d+ .* max_bytes allows 0; '):
        trace(tiny_model("a2d-llama"), prompt_ids=PROMPT, probes=[Lens(max_bytes=1000)], gen_length=4, steps=4)
