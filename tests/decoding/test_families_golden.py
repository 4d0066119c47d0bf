"""The samplers of LLaDA2, iLLaDA and Nemotron against what the published code wrote, with and without a cache."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import floatlens as fl
from floatlens.core.errors import FloatlensError

GOLDEN = Path(__file__).parents[1] / "golden"
TOLD = {"llada2": {"block_size": 8, "mask_id": 150}, "illada": {}, "nemotron-diffusion": {}}


def cases():
    found = []
    for name in TOLD:
        described = json.loads((GOLDEN / f"{name}-tiny" / "golden.json").read_text())["cases"]
        found += [(name, case) for case, given in described.items() if given["sampler"] != "llada"]  # see test_golden
    return found


@pytest.fixture(scope="module")
def loaded():
    """A model in the mode that a sampler needs, by name and sampler."""
    held = {}

    def get(name, sampler):
        told = TOLD[name] | ({"mode": "ar"} if sampler == "nemotron_ar" else {})
        key = (name, told.get("mode"))
        if key not in held:
            held[key] = fl.load(GOLDEN / f"{name}-tiny", **told)
        return held[key]

    return get


@pytest.fixture(scope="module")
def golden_of():
    def read(name):
        folder = GOLDEN / f"{name}-tiny"
        return json.loads((folder / "golden.json").read_text())["cases"], load_file(folder / "golden.safetensors")

    return read


def _given(case, published):
    settings = {key: value for key, value in case.items() if key not in ("about", "forward_passes")}
    length = case.get("about", {}).get("prompt_length", published["sample.prompt_ids"].shape[1])
    return settings, published["sample.prompt_ids"][0, :length]


@pytest.mark.parametrize(("name", "case"), cases())
def test_ids_and_passes_are_the_published_ones(name, case, loaded, golden_of):
    described, published = golden_of(name)
    settings, prompt = _given(described[case], published)
    model = loaded(name, settings["sampler"])
    for more in [{}] if settings["sampler"] == "llada_var" else [{"use_cache": True}, {"use_cache": False}]:
        decoded = fl.decode(model, prompt, **settings, **more)
        assert torch.equal(decoded.sequence, published[f"sample.{case}"])
        assert decoded.forward_passes == described[case]["forward_passes"]


def test_the_canvas_before_every_pass_of_a_run_that_edits(loaded, golden_of):
    described, published = golden_of("llada2")
    settings, prompt = _given(described["edit"], published)
    steps = fl.decode(loaded("llada2", "llada21"), prompt, **settings).steps
    expected = published["trace.sequence"]
    assert len(steps) == len(expected)
    for step, before in zip(steps, expected, strict=True):
        assert step.sequence[0].tolist() == before[: step.sequence.shape[1]].tolist()
    written = [(int(p), int(t)) for step in steps for p, t in zip(step.position, step.token, strict=True)]
    edited = len(written) - len({position for position, _ in written})
    assert edited == described["edit"]["about"]["edits_seen"]


def test_families_take_their_own_samplers(loaded):
    assert [loaded(name, None).sampler for name in TOLD] == ["llada2", None, "nemotron_diffusion"]
    assert loaded("nemotron-diffusion", "nemotron_ar").sampler == "nemotron_ar"


BATCHED = ["llada2", "llada21", "llada_var", "nemotron_ar", "nemotron_diffusion"]


@pytest.mark.parametrize("sampler", BATCHED)
def test_a_sample_gets_the_same_tokens_alone_as_in_a_batch(sampler, loaded):
    name = {"lla": "llada2", "nem": "nemotron-diffusion"}[sampler[:3]]
    model = loaded("illada" if sampler == "llada_var" else name, sampler)
    prompts = [torch.randint(6, 60, (length,), generator=torch.Generator().manual_seed(length)) for length in (13, 9)]
    settings = {"sampler": sampler, "gen_length": 12} | ({} if sampler.endswith("_ar") else {"block_length": 4})
    if sampler in ("llada2", "llada21", "nemotron_diffusion"):
        settings["threshold"] = 0.3
    together = fl.decode(model, [prompt.tolist() for prompt in prompts], **settings).answers()
    alone = [fl.decode(model, prompt, **settings).answers()[0] for prompt in prompts]
    assert together == alone


@pytest.mark.parametrize("sampler", [*BATCHED, "nemotron_linear_spec"])
def test_a_text_that_is_forced_is_written(sampler, loaded):
    name = {"lla": "llada2", "nem": "nemotron-diffusion"}[sampler[:3]]
    model = loaded("illada" if sampler == "llada_var" else name, sampler)
    target = [11, 12, 13, 14, 15, 16, 17, 18, 19, 20]
    settings = {"block_length": 5} if not sampler.endswith("_ar") else {}
    decoded = fl.decode(model, [8, 9, 10, 30], target_ids=target, sampler=sampler, **settings)
    assert decoded.answers() == [target]
    assert decoded.log_likelihood()[0] < 0


def test_speculation_writes_what_the_autoregressive_mode_writes(loaded):
    draft, causal = loaded("nemotron-diffusion", None), loaded("nemotron-diffusion", "nemotron_ar")
    for seed in range(4):
        prompt = torch.randint(6, 99, (7,), generator=torch.Generator().manual_seed(seed))
        written = fl.decode(draft, prompt, sampler="nemotron_linear_spec", gen_length=12, block_length=4).answers()[0]
        expected = fl.decode(causal, prompt, gen_length=15).answers()[0]
        assert written[:12] == expected[:12]


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("nemotron-diffusion", {"sampler": "nemotron_linear_spec", "prompts": 2}, "one prompt at a time"),
        ("nemotron-diffusion", {"sampler": "nemotron_ar"}, "for autoregressive models"),
        ("nemotron-diffusion", {"max_thinking_tokens": 4}, "give both"),
        ("nemotron-diffusion", {"max_new_tokens": 4, "gen_length": 5}, "give one of them"),
        (
            "illada",
            {"sampler": "nemotron_diffusion", "block_length": 4},
            "is for nemotron-diffusion models and .* is of the family illada",
        ),
        ("illada", {"sampler": "llada2"}, "for block-causal models"),
        ("illada", {"sampler": "llada_var", "block_length": 4, "steps": 5}, "it is per block"),
        ("llada2", {"sampler": "llada_var"}, "is for full attention"),
        ("llada2", {"minimal_topk": 40}, "more than gen_length"),
    ],
)
def test_settings_that_do_not_fit_are_refused_in_one_line(name, settings, words, loaded):
    settings = dict(settings)
    prompts = [[8, 9, 10]] * settings.pop("prompts", 1)
    with pytest.raises(FloatlensError, match=words) as refused:
        fl.decode(loaded(name, None), prompts, **settings)
    assert "\n" not in str(refused.value)
