"""The samplers of block diffusion against what the published code wrote, with and without a cache."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import floatlens as fl
from shared.block_models import GOLDEN, TOLD


def cases() -> list[tuple[str, str]]:
    """Every case but the approximate cache, which no full pass reproduces."""
    found = []
    for name in TOLD:
        golden = json.loads((GOLDEN / f"{name}-tiny" / "golden.json").read_text())
        found += [(name, case) for case, given in golden["cases"].items() if not given.get("use_block_cache")]
    return found


@pytest.fixture(scope="module")
def loaded() -> Callable[[str], Any]:
    held: dict[str, Any] = {}

    def get(name: str) -> Any:
        if name not in held:
            folder = GOLDEN / f"{name}-tiny"
            held[name] = (
                fl.load(folder, **TOLD[name]),
                json.loads((folder / "golden.json").read_text())["cases"],
                load_file(folder / "golden.safetensors"),
            )
        return held[name]

    return get


@pytest.mark.parametrize(("name", "case"), cases())
def test_ids_and_passes_are_the_published_ones(name: str, case: str, loaded: Callable[[str], Any]) -> None:
    model, described, published = loaded(name)
    settings = dict(described[case])
    about, passes = settings.pop("about"), settings.pop("forward_passes")
    if about.get("confidence") == "filtered":  # of the published script, at temperature 0
        settings["confidence"] = "filtered"
    prompt = published["sample.prompt_ids"][0, : about["prompt_length"]]
    for use_cache in (True, False):
        decoded = fl.decode(model, prompt, use_cache=use_cache, **settings)
        assert torch.equal(decoded.sequence, published[f"sample.{case}"])
        assert decoded.forward_passes == passes


def test_the_canvas_after_every_step(loaded: Callable[[str], Any]) -> None:
    """The golden holds the canvas of one case after each step, left pads included; -1 is not yet there."""
    for name in ("a2d-qwen3-bd3lm", "a2d-llama-bd3lm"):
        model, _, published = loaded(name)
        expected, prompt = published["trace.sequence"][:, 3:], published["sample.prompt_ids"][0]
        settings = {"max_new_tokens": 16, "steps": 16, "eos_token_id": 2, "pad_token_id": 1}
        steps = fl.decode(model, prompt, sampler="bd3lm", **settings).steps
        assert len(steps) == len(expected) - 1
        for step, after in zip(steps, expected[1:], strict=True):
            found = torch.full((37,), -1)
            found[: step.sequence.shape[1]] = step.sequence[0]
            found[step.position] = step.token
            assert torch.equal(found, after)


def test_the_approximate_cache_inside_a_block_is_refused(loaded: Callable[[str], Any]) -> None:
    model, _, published = loaded("fast-dllm-v2")
    with pytest.raises(fl.FloatlensError, match="use_block_cache"):
        fl.decode(model, published["sample.prompt_ids"], use_block_cache=True)
