"""Caduceus: golden logits and samples, both strands, tied and untied directions, padding, and every refusal."""

from __future__ import annotations

import copy
import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers.models.mamba.modeling_mamba import MambaMixer

import floatlens as fl
from floatlens.core.errors import FloatlensError
from floatlens.models import load

IDS = torch.tensor([[7, 8, 3, 10, 9, 9, 3, 7, 11, 8]])


@pytest.mark.parametrize(("name", "bound"), [("caduceus-ph", 1e-5), ("caduceus-ps", 2e-5)])  # logits up to 20
def test_logits_of_the_published_code(name, bound, golden, tiny_model):
    published = load_file(golden(name) / "golden.safetensors")
    logits = tiny_model(name).forward(published["forward.input_ids"])
    assert (logits - published["forward.logits"]).abs().max() <= bound


@pytest.mark.parametrize("name", ["caduceus-ph", "caduceus-ps"])
@pytest.mark.parametrize("case", ["one_block", "blocks"])
def test_ids_of_llada_s_sampler(name, case, golden, tiny_model):
    published = load_file(golden(name) / "golden.safetensors")
    settings = json.loads((golden(name) / "golden.json").read_text())["cases"][case]
    passes = settings.pop("forward_passes")
    decoded = fl.decode(tiny_model(name), published["sample.prompt_ids"][0], **settings)
    assert torch.equal(decoded.sequence, published[f"sample.{case}"])
    assert decoded.forward_passes == passes


@pytest.mark.parametrize("side", ["mamba_fwd", "mamba_rev"])
def test_a_mixer_computes_what_transformers_mixer_computes(side, tiny_model):
    mixer = getattr(tiny_model("caduceus-ph").module.caduceus.backbone.layers[1].mixer, side)
    states = torch.randn(2, 11, 48, generator=torch.Generator().manual_seed(0))
    mask = torch.ones(2, 11, dtype=torch.long)
    mask[1, 8:] = 0
    with torch.no_grad():
        expected = MambaMixer.forward(mixer, states, attention_mask=mask)
        found = mixer(states, attention_mask=mask)
    torch.testing.assert_close(found[0], expected[0], atol=1e-5, rtol=0)
    torch.testing.assert_close(found[1, :8], expected[1, :8], atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["caduceus-ph", "caduceus-ps"])
def test_padding_on_either_side_changes_nothing(name, tiny_model):
    model = tiny_model(name)
    padded = torch.nn.functional.pad(IDS, (3, 2), value=4)
    mask = torch.nn.functional.pad(torch.ones_like(IDS), (3, 2))
    torch.testing.assert_close(model.forward(padded, mask)[:, 3:-2], model.forward(IDS), atol=2e-5, rtol=0)


def test_the_reverse_complement_has_the_reverse_complement_of_the_logits(tiny_model):
    model = tiny_model("caduceus-ps")
    complement = model.module.caduceus.backbone.embeddings.word_embeddings.complement_map
    turned = model.forward(complement[IDS.flip(1)]).flip(1)[..., complement]
    torch.testing.assert_close(turned, model.forward(IDS), atol=2e-5, rtol=0)


def test_the_order_of_the_strands_follows_fused_add_norm(copied, tiny_model):
    apart = load(copied("caduceus-ps", fused_add_norm=False)).forward(IDS)
    assert (apart - tiny_model("caduceus-ps").forward(IDS)).abs().max() > 1


def test_copies_of_tied_tensors_may_be_in_the_file_or_not(copied, tiny_model):
    folder = copied("caduceus-ph")
    tensors = load_file(folder / "model.safetensors")
    tensors["lm_head.weight"] = tensors["caduceus.backbone.embeddings.word_embeddings.weight"].clone()
    for name in [name for name in tensors if "mamba_fwd.in_proj" in name or "mamba_fwd.out_proj" in name]:
        tensors[name.replace("mamba_fwd", "mamba_rev")] = tensors[name].clone()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    assert torch.equal(load(folder).forward(IDS), tiny_model("caduceus-ph").forward(IDS))


def test_untied_directions_need_their_own_projections(copied, tiny_model):
    folder = copied("caduceus-ph", bidirectional_weight_tie=False)
    with pytest.raises(FloatlensError, match=r"mamba_rev\.in_proj\.weight"):
        load(folder)
    tensors = load_file(folder / "model.safetensors")
    for name in [name for name in tensors if "mamba_fwd.in_proj" in name or "mamba_fwd.out_proj" in name]:
        tensors[name.replace("mamba_fwd", "mamba_rev")] = tensors[name] * 0
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    forward_only = load(folder)  # nothing comes from the right any more
    changed = IDS.clone()
    changed[0, -1] = 7
    assert torch.equal(forward_only.forward(changed)[:, :-1], forward_only.forward(IDS)[:, :-1])
    assert not torch.equal(
        tiny_model("caduceus-ph").forward(changed)[:, 0], tiny_model("caduceus-ph").forward(IDS)[:, 0]
    )


@pytest.mark.parametrize(
    ("flag", "value", "words"),
    [
        ("bidirectional", False, "does not cover"),
        ("bidirectional_strategy", "ew_multiply", "does not cover"),
        ("rms_norm", False, "does not cover"),
        ("norm_epsilon", None, "is missing"),
        ("ssm_cfg", None, "is missing"),
        ("num_experts", 4, "may change what the model computes"),
        ("tie_word_embeddings", False, "does not cover"),
    ],
)
def test_a_flag_that_is_not_covered_is_refused_by_name(flag, value, words, copied):
    folder = copied("caduceus-ph", **{flag: value})
    (folder / "model.safetensors").unlink()  # refused before weights are read
    with pytest.raises(FloatlensError, match=rf"`{flag}`.*{words}"):
        load(folder)


def test_unknown_sizes_of_the_mixer_and_a_broken_complement(copied, golden, tiny):
    sizes = json.loads((golden("caduceus-ph") / "config.json").read_text())["ssm_cfg"]
    with pytest.raises(FloatlensError, match=r"ssm_cfg.*`chunk_size`"):
        load(copied("caduceus-ph", ssm_cfg=sizes | {"chunk_size": 8}))
    with pytest.raises(FloatlensError, match="`complement_map` must pair each of the 16 token ids"):
        load(copied("caduceus-ps", complement_map={"0": 0}))
    with pytest.raises(FloatlensError, match="the caduceus family reads 'caduceus'"):
        load(tiny("llama"), family="caduceus")


@pytest.mark.parametrize("name", ["caduceus-ph", "caduceus-ps"])
def test_projections_applied_once_give_the_outputs_and_gradients_of_two(name, tiny_model, monkeypatch):
    """In training tied projections are applied to both directions at once."""
    from floatlens.models.bimamba import BiMamba

    found = []
    module = copy.deepcopy(tiny_model(name).module).double().train().requires_grad_()
    weights = list(module.parameters())
    for tied in (BiMamba._tied, lambda *_: False):
        monkeypatch.setattr(BiMamba, "_tied", tied)
        logits = module(input_ids=IDS, attention_mask=(torch.arange(10) > 1).long()[None]).logits
        found.append([logits, *torch.autograd.grad(logits.square().sum(), weights)])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-9, rtol=1e-9)
