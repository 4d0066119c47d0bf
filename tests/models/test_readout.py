"""`readout` gives the logits of the model itself from the state that leaves its last layer, for every family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from floatlens.core.errors import FloatlensError
from floatlens.models.readout import layers_of, readout


def states(model: Any, ids: torch.Tensor) -> tuple[list[torch.Tensor], torch.Tensor]:
    """What leaves each layer, by hooks, and the logits."""
    kept: list[torch.Tensor] = []
    hooks = [
        layer.register_forward_hook(lambda _, __, out: kept.append(out[0] if isinstance(out, tuple) else out))
        for layer in layers_of(model.module).values()
    ]
    try:
        logits = model.forward(ids)
    finally:
        for hook in hooks:
            hook.remove()
    return kept, logits


def test_the_last_layer_reads_as_the_model_itself(any_name: str, tiny_model: Callable[[str], Any]) -> None:
    model = tiny_model(any_name)
    ids = torch.randint(5, 45, (1, 9), generator=torch.Generator().manual_seed(3))
    kept, logits = states(model, ids)
    with readout(model) as read:
        found = read(kept[-1][0])
    assert len(kept) == model.num_layers
    assert found.shape == (9, model.vocab_size)
    torch.testing.assert_close(found, logits[0].float(), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(model.forward(ids), logits, atol=0, rtol=0)  # the layers are back


@pytest.mark.parametrize("name", ["llama", "qwen3", "gpt2", "modernbert"])
def test_earlier_layers_go_through_the_final_norm_and_head(name: str, tiny_model: Callable[[str], Any]) -> None:
    """Worked out with the parts of each class, from transformers' own hidden states."""
    model = tiny_model(name)
    module: Any = model.module
    ids = torch.tensor([[5, 7, 9, 11]])
    with torch.inference_mode():
        hidden = module(input_ids=ids, output_hidden_states=True).hidden_states[1][0]  # after layer 0
        expected = {
            "llama": lambda x: module.lm_head(module.model.norm(x)),
            "qwen3": lambda x: module.lm_head(module.model.norm(x)),
            "gpt2": lambda x: module.lm_head(module.transformer.ln_f(x)),
            "modernbert": lambda x: module.decoder(module.head(module.model.final_norm(x))),
        }[name](hidden)
    with readout(model) as read:
        torch.testing.assert_close(read(hidden), expected, atol=1e-5, rtol=1e-5)


def test_layers_are_restored_after_an_error(tiny_model: Callable[[str], Any]) -> None:
    model = tiny_model("llama")
    before = model.forward(torch.tensor([[5, 7]]))
    with pytest.raises(RuntimeError), readout(model) as read:
        read(torch.zeros(2, 5))  # not the width of the model
    torch.testing.assert_close(model.forward(torch.tensor([[5, 7]])), before, atol=0, rtol=0)
    assert not any("forward" in layer.__dict__ for layer in layers_of(model.module).values())


def test_a_module_without_layers_is_refused() -> None:
    with pytest.raises(FloatlensError, match=r"Linear: no layers found .* leave out the probes extremes and lens"):
        layers_of(torch.nn.Linear(2, 2))
