"""NaN and infinite numbers in weights and logits are named, in one line."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from floatlens.core.errors import FloatlensError
from floatlens.models.finite import check_weights, first_broken

IDS = torch.tensor([[5, 9, 12]])


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_one_bad_weight_is_named(value: float, tiny_model: Callable[[str], Any]) -> None:
    model = copy.deepcopy(tiny_model("llada"))
    assert check_weights(model) is model
    weight = model.module.get_output_embeddings().weight
    weight[3, 2] = value
    name = next(name for name, one in model.module.named_parameters() if one is weight)
    with pytest.raises(FloatlensError, match=f'tensor "{name}" holds NaN or infinite numbers'):
        check_weights(model)


def test_loading_looks_at_the_weights(tmp_path: Any, tiny_model: Callable[[str], Any]) -> None:
    import shutil

    from safetensors.torch import load_file, save_file

    import floatlens as fl

    folder = tmp_path / "model"
    shutil.copytree(tiny_model("llada").ref, folder)
    weights = load_file(folder / "model.safetensors")
    next(one for name, one in weights.items() if one.ndim == 2).view(-1)[7] = math.inf
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(FloatlensError, match=r'tensor ".*" holds NaN or infinite numbers'):
        fl.load(str(folder))


def test_logits_name_the_layer_where_it_begins(tiny_model: Callable[[str], Any]) -> None:
    model = copy.deepcopy(tiny_model("llada"))
    name, part = next((n, p) for n, p in model.module.named_modules() if n.endswith("layers.1.mlp.down_proj"))
    part.weight[0, 0] = math.nan
    with pytest.raises(FloatlensError, match=f'the output of "{name}" is NaN or infinite'):
        model.forward(IDS)
    assert first_broken(model.module, {"input_ids": IDS}) == name
    assert not any(one._forward_hooks for one in model.module.modules())


def test_good_logits_pass(tiny_model: Callable[[str], Any]) -> None:
    assert torch.isfinite(tiny_model("llada").forward(IDS)).all()
