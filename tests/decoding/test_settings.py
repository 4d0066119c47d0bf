"""Samplers by name, and settings: defaults, limits, and one line for whatever is wrong."""

from __future__ import annotations

import pytest

from floatlens.core.errors import FloatlensError
from floatlens.decoding import SAMPLERS, decode_steps, plan

_LLADA2 = {"gen_length", "block_length", "temperature", "top_k", "top_p", "threshold", "eos_early_stop", "eos_id"}
_LLADA2 |= {"use_cache", "seed"}
_NEMOTRON = {"max_new_tokens", "gen_length", "block_length", "threshold", "temperature", "eos_token_id"}
_NEMOTRON |= {"use_cache", "seed"}
NAMES = {
    "llada": {"steps", "gen_length", "block_length", "temperature", "cfg_scale", "remasking", "seed"}
    | {"logits_eos_inf", "confidence_eos_eot_inf"},
    "dream": {"steps", "gen_length", "alg", "alg_temp", "temperature", "top_p", "top_k", "eps", "seed"},
    "threshold": {"threshold", "gen_length", "block_length", "temperature", "seed"},
    "ar": {"gen_length", "temperature", "top_p", "use_cache", "seed"},
    "bd3lm": {"max_new_tokens", "gen_length", "block_size", "steps", "steps_per_block", "scheduler", "remasking"}
    | {"temperature", "cfg_scale", "right_shift_logits", "eos_token_id", "pad_token_id", "use_cache", "seed"},
    "sdar": {"gen_length", "block_length", "denoising_steps", "temperature", "top_k", "top_p", "remasking"}
    | {"confidence_threshold", "eb_threshold", "confidence", "stop_token_ids", "use_cache", "seed"},
    "fast_dllm_v2": {"max_new_tokens", "gen_length", "block_size", "small_block_size", "threshold", "temperature"}
    | {"stop_token", "use_block_cache", "use_cache", "seed"},
    "llada2": _LLADA2 | {"steps", "minimal_topk"},
    "llada21": _LLADA2 | {"editing_threshold", "max_post_steps", "num_to_transfer"},
    "lfm2_card": {"gen_length", "suppress_from", "suppress_tokens", "seed"},
    "llada_var": {"gen_length", "block_length", "steps", "temperature", "remasking", "stop_token_ids", "seed"},
    "nemotron_ar": {"max_new_tokens", "gen_length", "temperature", "top_p", "eos_token_id", "use_cache", "seed"},
    "nemotron_diffusion": _NEMOTRON | {"causal_context", "max_thinking_tokens", "end_think_token_id"},
    "nemotron_linear_spec": _NEMOTRON,
}


def test_names_of_samplers_and_settings():
    assert {name: set(sampler.settings.model_fields) for name, sampler in SAMPLERS.items()} == NAMES
    for sampler in SAMPLERS.values():
        assert all(field.description for field in sampler.settings.model_fields.values())


def test_a_name_is_registered_once():
    with pytest.raises(ValueError, match='the sampler "llada" exists already'):
        SAMPLERS.add("llada", SAMPLERS["llada"])
    with pytest.raises(TypeError):
        SAMPLERS["llada"] = SAMPLERS["dream"]


def test_defaults_follow_gen_length(llada):
    settings = plan(llada, [5], gen_length=12).settings
    assert (settings.steps, settings.block_length, settings.blocks, settings.seed) == (12, 12, 1, 0)
    assert plan(llada, [5]).settings.gen_length == 32
    assert plan(llada, [5], gen_length=8, steps=None, block_length=None).settings.steps == 8


def test_settings_survive_json(llada):
    settings = plan(llada, [[5], [6]], gen_length=8, steps=4, block_length=2, seed=[3, 4]).settings
    assert SAMPLERS["llada"].settings.model_validate_json(settings.model_dump_json()) == settings


UNKNOWN = [
    ("llada", {"alg": "entropy"}, 'the sampler "llada" has no setting "alg"; it belongs to dream'),
    (
        "arm",
        {"steps": 3},
        'the sampler "ar" has no setting "steps"; it belongs to bd3lm, dream, llada, llada2 and llada_var',
    ),
    ("llada", {"step": 3}, 'the sampler "llada" has no setting "step"; did you mean "steps"?'),
    ("llada", {"sampler": "llda"}, 'no sampler "llda"; did you mean "llada"?'),
    ("dream", {"sampler": "nucleus"}, 'no sampler "nucleus"; known: ' + ", ".join(sorted(NAMES))),
]


@pytest.mark.parametrize(("name", "given", "message"), UNKNOWN, ids=[f"{name}-{given}" for name, given, _ in UNKNOWN])
def test_unknown_names(request, name, given, message):
    with pytest.raises(FloatlensError) as error:
        plan(request.getfixturevalue(name), [5], **given)
    assert str(error.value) == message


OPEN = "gen_length=0 leaves the number of passes open; set steps"
WRONG = [
    ("llada", {"steps": 0}, "steps wants at least 1, got 0"),
    (
        "llada",
        {"gen_length": 10, "block_length": 4},
        "gen_length=10 is not a multiple of block_length=4; use gen_length=8 or 12",
    ),
    (
        "llada",
        {"gen_length": 8, "block_length": 2, "steps": 3},
        "steps=3 is not a multiple of the number of blocks=4; use steps=4",
    ),
    ("llada", {"block_length": 0}, "block_length wants at least 1, got 0"),
    ("llada", {"gen_length": "many"}, 'gen_length wants a whole number, got "many"'),
    ("llada", {"gen_length": 0}, OPEN),
    ("llada", {"remasking": "low"}, 'remasking wants "low_confidence" or "random", got "low"'),
    (
        "llada",
        {"temperature": -1, "cfg_scale": float("inf")},
        "temperature wants at least 0, got -1; cfg_scale wants a finite number, got Infinity",
    ),
    ("llada", {"seed": "x"}, 'seed wants a whole number, got "x"'),
    ("llada", {"seed": -4}, "seed wants at least 0, got -4"),
    ("dream", {"top_p": 0}, "top_p wants more than 0, got 0"),
    ("dream", {"gen_length": 0}, OPEN),
    ("threshold", {"threshold": 1.5}, "threshold wants at most 1, got 1.5"),
    ("ar", {"gen_length": 0}, "gen_length wants at least 1, got 0"),
]


@pytest.mark.parametrize(("sampler", "given", "message"), WRONG, ids=[f"{name}-{given}" for name, given, _ in WRONG])
def test_wrong_values(llada, arm, sampler, given, message):
    with pytest.raises(FloatlensError) as error:
        plan(arm if sampler == "ar" else llada, [5], sampler=sampler, **given)
    assert str(error.value) == f'settings of the sampler "{sampler}": {message}'


def test_a_sampler_must_fit_the_kind(arm, llada):
    with pytest.raises(
        FloatlensError, match=r'"llada" is for masked diffusion models and .* is autoregressive .*: ar$'
    ):
        plan(arm, [5], sampler="llada")
    with pytest.raises(
        FloatlensError, match=r'"ar" is for autoregressive models .*: dream, lfm2_card, llada, llada_var, threshold$'
    ):
        plan(llada, [5], sampler="ar")
    with pytest.raises(FloatlensError, match=r'"sdar" is for block-causal models and .* is not: its attention is full'):
        plan(llada, [5], sampler="sdar")


def test_mistakes_are_told_before_the_first_pass(llada):
    with pytest.raises(FloatlensError):
        decode_steps(llada, [5], steps=0)  # without asking for a step
