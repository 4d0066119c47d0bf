"""iLLaDA: the golden checkpoint, its mask token, and every refusal."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from floatlens.core.errors import FloatlensError
from floatlens.models import load
from floatlens.models.facts import look


@pytest.fixture(scope="module")
def published(golden):
    return load_file(golden("illada") / "golden.safetensors")


def test_logits_of_the_published_code(tiny_model, published):
    found = tiny_model("illada").forward(published["forward.input_ids"])
    torch.testing.assert_close(found, published["forward.logits"], atol=1e-4, rtol=0)


def test_padding_hides_keys_and_moves_no_token(tiny_model, published):
    mask = published["forward_padded.attention_mask"]
    found = tiny_model("illada").forward(published["forward_padded.input_ids"], mask)
    torch.testing.assert_close(found[mask.bool()][None], published["forward_padded.logits"], atol=1e-4, rtol=0)


def test_queries_and_keys_after_rotary(tiny_model, published, observe):
    seen = observe(tiny_model("illada"), published["forward.input_ids"]).layers
    for layer, one in enumerate(seen):
        np.testing.assert_allclose(one.query[0], published["forward.query"][layer], atol=1e-4)
        np.testing.assert_allclose(one.keys[0], published["forward.key"][layer], atol=1e-4)


def test_the_mask_token_is_five_whatever_the_tokenizer_calls_a_mask(tmp_path, golden):
    from floatlens.subjects.scale import WEIGHTS

    folder = shutil.copytree(golden("illada"), tmp_path / "illada")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(WEIGHTS / "llada" / name, folder / name)
    model = load(folder)
    assert model.tokenizer is not None
    assert model.tokenizer.mask_token_id not in (None, 5)
    assert model.mask_id == look(str(folder)).mask_id == 5


def test_the_mask_token_that_the_configuration_names(copied):
    assert load(copied("illada", mask_token_id=7)).mask_id == 7


@pytest.mark.parametrize(
    ("flag", "value", "words"),
    [
        ("layer_norm_eps", 1e-6, "RMS norms only"),
        ("hidden_act", "gelu", "does not cover"),
        ("head_dim", 32, "does not cover"),
        ("rope_scaling", {"rope_type": "yarn", "factor": 2.0}, "does not cover"),
        ("sliding_window", 64, "may change what the model computes"),
        ("rope_theta", None, "is missing"),
        ("rms_norm_eps", None, "is missing"),
    ],
)
def test_a_flag_that_is_not_covered_is_refused_by_name(flag, value, words, copied):
    with pytest.raises(FloatlensError, match=rf"config\.json: .*`{flag}`.*{words}"):
        load(copied("illada", **{flag: value}))


def test_named_for_another_type(tiny):
    with pytest.raises(FloatlensError, match="the illada family reads 'illada'"):
        load(tiny("llama"), family="illada")
    with pytest.raises(FloatlensError, match="masked diffusion model; leave family= out or give 'illada'"):
        load(tiny("illada"), family="causal")
