"""Every family at its published size, on the meta device: each tensor of the published list has a home of its shape."""

from __future__ import annotations

import math

import pytest

from floatlens.models.plan import plan_checkpoint
from floatlens.models.registry import FAMILIES, pick
from floatlens.models.requirements import empty_module, fill_empty
from floatlens.models.settings import Settings
from floatlens.models.told import Told
from shared.published import CHECKPOINTS

SLOW = (pytest.mark.slow, pytest.mark.ci)  # 24,161 tensors
CASES = [pytest.param(one, id=name, marks=SLOW if name.endswith("-flash") else ()) for name, one in CHECKPOINTS.items()]


def _plan(checkpoint):
    settings = Settings(checkpoint.config, "config.json", Told(**checkpoint.told))
    assert pick(settings, None).name == checkpoint.family
    return plan_checkpoint(FAMILIES[checkpoint.family], settings)


@pytest.mark.parametrize("checkpoint", CASES)
def test_every_published_tensor_has_a_home_of_its_shape(checkpoint):
    plan = _plan(checkpoint)
    module = empty_module(plan)
    info = fill_empty(plan, module, checkpoint.tensors, "published")
    assert {name: list(keys) for name, keys in info.items()} == {
        "missing_keys": [],
        "unexpected_keys": [],
        "mismatched_keys": [],
        "error_msgs": [],
    }
    assert sum(parameter.numel() for parameter in module.parameters()) == checkpoint.parameters


@pytest.mark.parametrize("checkpoint", CASES)
def test_the_published_list_has_the_published_number_of_parameters(checkpoint):
    weights = {
        name: shape for name, shape in checkpoint.tensors.items() if not name.endswith("expert_bias")
    }  # a buffer
    assert sum(map(math.prod, weights.values())) == checkpoint.parameters


def test_a_tensor_of_another_shape_or_name_is_noticed():
    checkpoint = CHECKPOINTS["GSAI-ML/iLLaDA-8B-Instruct"]
    plan = _plan(checkpoint)
    module = empty_module(plan)
    changed = dict(checkpoint.tensors) | {"model.norm.weight": (4097,), "model.extra.weight": (1,)}
    del changed["model.layers.3.mlp.up_proj.weight"]
    info = fill_empty(plan, module, changed, "published")
    assert [key for key, *_ in info["mismatched_keys"]] == ["model.norm.weight"]
    assert list(info["unexpected_keys"]) == ["model.extra.weight"]
    assert list(info["missing_keys"]) == ["model.layers.3.mlp.up_proj.weight"]


@pytest.mark.parametrize(
    ("name", "count"), [("GSAI-ML/LLaDA-8B-Instruct", 291), ("nvidia/Nemotron-Labs-Diffusion-3B", 237)]
)
def test_the_published_number_of_tensors(name, count):
    assert len(CHECKPOINTS[name].tensors) == count


def test_every_diffusion_family_is_among_them():
    covered = {one.family for one in CHECKPOINTS.values()}
    own = {name for name in FAMILIES if name in FAMILIES.builtin} - {"masked-lm", "causal"}
    unseen = {"caduceus", "lfm2-diffusion"}  # neither their tensor lists nor their config.json could be read
    assert own - covered == {"a2d-llama", "a2d-qwen2", *unseen}  # a2d: as a2d-qwen3, by the same code


def test_nemotron_in_its_other_mode():
    config = CHECKPOINTS["nvidia/Nemotron-Labs-Diffusion-3B"].config
    settings = Settings(config, "config.json", Told(mode="ar"))
    plan = plan_checkpoint(FAMILIES["nemotron-diffusion"], settings)
    assert (plan.kind, plan.shift, plan.config.is_causal) == ("arm", True, True)
