"""The published samplers, id for id, on the golden checkpoints."""

from __future__ import annotations

import pytest
import torch

from floatlens.decoding import decode, decode_steps

LLADA = ["one_block", "four_blocks", "uneven", "cfg", "threshold_0.05", "threshold_0.2", "threshold_0.9"]
DREAM = [f"{alg}_{steps}" for alg in ("maskgit_plus", "topk_margin", "entropy") for steps in (5, 16)]


def _settings(case):
    renamed = {"max_new_tokens": "gen_length"}
    settings = {renamed.get(key, key): value for key, value in case.items() if key != "forward_passes"}
    settings["sampler"] = {"confidence_threshold": "threshold"}.get(case["sampler"], case["sampler"])
    return settings


def test_every_golden_case_is_listed_here(golden_cases):
    assert sorted(golden_cases("llada")[0]) == sorted(LLADA)
    assert sorted(golden_cases("dream")[0]) == sorted(DREAM)


@pytest.mark.parametrize("name", LLADA)
def test_llada_cases(llada, golden_cases, name):
    cases, tensors = golden_cases("llada")
    decoded = decode(llada, tensors["sample.prompt_ids"], **_settings(cases[name]))
    assert decoded.sequence.tolist() == tensors[f"sample.{name}"].tolist()
    if "forward_passes" in cases[name]:
        assert decoded.forward_passes == cases[name]["forward_passes"]


@pytest.mark.parametrize("name", DREAM)
def test_dream_cases(dream, golden_cases, name):
    cases, tensors = golden_cases("dream")
    decoded = decode(dream, tensors["sample.prompt_ids"], **_settings(cases[name]))
    assert decoded.sequence.tolist() == tensors[f"sample.{name}"].tolist()


def test_the_sequence_before_every_pass(llada, golden_cases):
    cases, tensors = golden_cases("llada")
    steps = decode_steps(llada, tensors["sample.prompt_ids"], **_settings(cases["one_block"]))
    before = torch.cat([step.sequence for step in steps])
    assert before.tolist() == tensors["trace.sequence"].tolist()


def test_families_take_their_own_sampler(llada, dream, arm, bert, prompts):
    names = [decode(model, *prompts(4), gen_length=2).canvas.sampler for model in (llada, dream, arm, bert)]
    assert names == ["llada", "dream", "ar", "llada"]


ILLADA = ["one_block", "blocks", "uneven", "cfg"]


@pytest.mark.parametrize("name", ILLADA)
def test_illada_cases(tiny_model, golden_cases, name):
    cases, tensors = golden_cases("illada")
    decoded = decode(tiny_model("illada"), tensors["sample.prompt_ids"], **_settings(cases[name]))
    assert decoded.sequence.tolist() == tensors[f"sample.{name}"].tolist()
    assert decoded.forward_passes == cases[name]["forward_passes"]
