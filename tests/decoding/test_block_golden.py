"""The samplers of block diffusion against what the published code wrote, with and without a cache."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import floatlens as fl
from floatlens.edits import DropAnchors
from shared.block_models import GOLDEN, TOLD


def cases() -> list[tuple[str, str]]:
    """Every case of every golden."""
    found = []
    for name in TOLD:
        golden = json.loads((GOLDEN / f"{name}-tiny" / "golden.json").read_text())
        found += [(name, case) for case in golden["cases"]]
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
    for use_cache in (True,) if settings.get("use_block_cache") else (True, False):
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


def test_the_cache_inside_a_block_is_exact_where_nothing_is_left_out(loaded: Callable[[str], Any]) -> None:
    """A small block that is the whole block has no keys out of date; one of half a block gives other logits."""
    model, _, published = loaded("fast-dllm-v2")
    for length in (5, 8, 21):
        settings = {"max_new_tokens": 24, "block_size": 8, "threshold": 0.35, "stop_token": 2}
        prompt = published["sample.prompt_ids"][0, :length]
        shares = {}
        for small in (4, 8):
            for cached in (False, True):
                made = fl.decode(model, prompt, small_block_size=small, use_block_cache=cached, **settings)
                shares[small, cached] = torch.cat([step.confidence for step in made.steps])
        assert torch.allclose(shares[8, True], shares[8, False], atol=1e-5)
        found, exact = shares[4, True], shares[4, False]
        assert len(found) != len(exact) or not torch.allclose(found, exact, atol=1e-3)


def test_the_cache_inside_a_block_is_refused_where_passes_are_observed(loaded: Callable[[str], Any]) -> None:
    model, _, published = loaded("fast-dllm-v2")
    prompt, settings = published["sample.prompt_ids"][0], {"use_block_cache": True, "max_new_tokens": 8}
    with pytest.raises(fl.FloatlensError, match="use_block_cache=True reads keys that are out of date"):
        fl.trace(model, prompt_ids=prompt.tolist(), **settings)
    with fl.edit(model, DropAnchors(k=2)), pytest.raises(fl.FloatlensError, match="use_block_cache=False"):
        fl.decode(model, prompt, **settings)
    begun = fl.decode_steps(model, prompt, **settings)
    with fl.edit(model, DropAnchors(k=2)), pytest.raises(fl.FloatlensError, match="use_block_cache=False"):
        next(begun)
    with pytest.raises(fl.FloatlensError, match="one prompt at a time, not 2"):
        fl.decode(model, [prompt.tolist(), prompt.tolist()], **settings)
    with pytest.raises(fl.FloatlensError, match="leave use_cache on"):
        fl.decode(model, prompt, use_cache=False, **settings)
