"""Adapters: merged when loaded, refused where they do not fit; and block attention against an explicit mask."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import floatlens as fl
from floatlens.core.errors import FloatlensError, FloatlensWarning
from floatlens.models import load
from floatlens.models.adapted import Adapted
from floatlens.models.facts import look

IDS = torch.tensor([[5, 6, 7, 8, 90, 90, 90, 90]])


@pytest.fixture(scope="module")
def adapter(tiny, tmp_path_factory):
    """An adapter with random weights for the tiny Llama, as a diffusion model with full attention."""
    return make_adapter(tiny("llama"), tmp_path_factory.mktemp("adapter"))


def make_adapter(base, folder, attention="full", to="diffusion"):
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(3)
    module = load(base).module
    config = LoraConfig(r=2, target_modules=["q_proj", "down_proj"], trainable_token_indices={"embed_tokens": [90]})
    wrapped = get_peft_model(module, config)
    for name, parameter in wrapped.named_parameters():
        if "lora_B" in name or "trainable_tokens_delta" in name:
            torch.nn.init.normal_(parameter, std=0.5)
    wrapped.peft_config["default"].base_model_name_or_path = str(base)
    wrapped.save_pretrained(folder)
    mask = 90 if to == "diffusion" else None
    digest = look(str(base)).weights
    Adapted(to=to, attention=attention, mask_token_id=mask, base=str(base), base_weights=digest).write(folder)
    return folder


def by_hand(base, folder, ids, mask):
    """Logits of the base with the adapter's products added to its weights by hand, under a (query, key) mask."""
    module = load(base).module
    tensors = load_file(folder / "adapter_model.safetensors")
    scale = json.loads((folder / "adapter_config.json").read_text())["lora_alpha"] / 2
    with torch.no_grad():
        for name, down in tensors.items():
            if name.endswith("lora_A.weight"):
                up = tensors[name.replace("lora_A", "lora_B")]
                layer = name.removeprefix("base_model.model.").removesuffix(".lora_A.weight")
                module.get_submodule(layer).weight += scale * up @ down
            elif "trainable_tokens" in name:
                module.model.embed_tokens.weight[90] = tensors[name][0]
        additive = torch.zeros(mask.shape).masked_fill(~mask, -1e9)[None, None]
        module.set_attn_implementation("eager")
        return module(ids, attention_mask=additive, position_ids=torch.arange(ids.shape[1])[None]).logits


@pytest.mark.parametrize("attention", ["full", "block"])
def test_an_adapted_model_equals_one_put_together_by_hand(tiny, tmp_path, attention):
    folder = make_adapter(tiny("llama"), tmp_path / "adapter", attention)
    model = load(folder)
    assert (model.kind, model.shift, model.family, model.attention, model.mask_id) == (
        "mdm",
        True,
        "adapted",
        attention,
        90,
    )
    length = IDS.shape[1]
    place = torch.arange(length)
    seen = torch.ones(length, length, dtype=torch.bool)
    if attention == "block":
        seen = (place[None] <= place[:, None]) | ((place[None] >= 4) & (place[:, None] >= 4))
    assert torch.allclose(model.forward(IDS), by_hand(tiny("llama"), folder, IDS, seen), atol=1e-5)


def test_base_and_adapter_can_be_given_apart(tiny, adapter):
    together, apart = load(adapter), load(tiny("llama"), adapter=adapter)
    assert torch.equal(together.forward(IDS), apart.forward(IDS))
    assert apart.kind == "mdm"


def test_an_autoregressive_adapter_leaves_the_kind_of_its_base(tiny, tmp_path):
    model = load(make_adapter(tiny("llama"), tmp_path / "a", "causal", "autoregressive"))
    assert (model.kind, model.family, model.attention) == ("arm", "causal", "causal")
    changed = IDS.clone()
    changed[0, -1] = 9
    assert torch.equal(model.forward(IDS)[:, :-1], model.forward(changed)[:, :-1])


def test_facts_of_an_adapter_need_no_weights(adapter, tiny):
    facts, base = look(str(adapter)), look(str(tiny("llama")))
    assert (facts.kind, facts.family, facts.mask_id, facts.layers) == ("mdm", "adapted", 90, base.layers)
    assert facts.weights != base.weights


def test_block_attention_keeps_the_prompt_causal_and_the_answer_bidirectional(tiny, tmp_path):
    model = load(make_adapter(tiny("llama"), tmp_path / "a", "block"))
    before, changed = model.forward(IDS), IDS.clone()
    changed[0, -1] = 9
    writing = IDS == 90
    after = model.forward(changed, writing=writing)
    assert torch.equal(before[:, :4], after[:, :4])
    assert not torch.allclose(before[:, 4], after[:, 4])
    padded = torch.cat([torch.zeros(1, 3, dtype=torch.long), IDS], dim=1)
    real = torch.ones_like(padded)
    real[:, :3] = 0
    assert torch.allclose(model.forward(padded, real)[:, 3:], before, atol=1e-5)
    with pytest.raises(FloatlensError, match="writing must be"):
        model.forward(IDS, writing=writing[:, 1:])


@pytest.mark.parametrize("attention", ["full", "block"])
def test_adapted_models_are_decoded_and_traced(tiny, tmp_path, attention):
    model = load(make_adapter(tiny("llama"), tmp_path / "a", attention))
    prompts = [[5, 6, 7], [8, 9, 10, 11, 12]]
    batch = fl.decode(model, prompts, gen_length=4, steps=4)
    assert batch.canvas.sampler == "dream"
    for prompt, answer in zip(prompts, batch.answers(), strict=True):
        assert fl.decode(model, prompt, gen_length=4, steps=4).answers() == [answer]
    probes = ["received", "flow", "entropy", fl.probes.Matrix()]
    trace = fl.trace(model, prompt_ids=prompts[1], gen_length=4, steps=4, probes=probes)
    assert trace.data.token_id.values.tolist() == [t for s in batch.steps for t in s.token[s.sample == 1].tolist()]
    assert trace.data.attrs["attention"] == attention
    weights = trace.data.matrix.values
    assert np.allclose(weights.sum(-1), 1, atol=1e-5)
    later = np.triu(np.ones((9, 9), dtype=bool), 1)
    hidden = later & ~((np.arange(9)[None] >= 5) & (np.arange(9)[:, None] >= 5))
    assert bool((weights[..., hidden] == 0).all()) == (attention == "block")
    null = fl.anchors(trace).null.values
    visible = ~hidden if attention == "block" else np.ones((9, 9), dtype=bool)
    assert np.allclose(null, (visible / visible.sum(1, keepdims=True)).mean(0), atol=1e-9)


def test_an_adapter_of_another_model_is_refused(tiny, adapter):
    with pytest.raises(FloatlensError, match="does not have; is this its base"):
        load(tiny("gpt2"), adapter=adapter)


def test_an_adapter_of_another_width_is_refused(tiny, adapter, tmp_path):
    folder = shutil.copytree(adapter, tmp_path / "wide")
    tensors = load_file(folder / "adapter_model.safetensors")
    name = next(name for name in tensors if name.endswith("q_proj.lora_A.weight"))
    save_file(tensors | {name: torch.zeros(2, 48)}, folder / "adapter_model.safetensors")
    with pytest.raises(FloatlensError, match="layer of width 48"):
        load(folder)


def test_other_weights_than_it_was_trained_on_are_told(tiny, adapter, tmp_path):
    folder = shutil.copytree(adapter, tmp_path / "moved")
    facts = json.loads((folder / "adaptation.json").read_text())
    (folder / "adaptation.json").write_text(json.dumps(facts | {"base_weights": "0" * 64}))
    with pytest.warns(FloatlensWarning, match="trained on other weights"):
        load(folder)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda folder: (folder / "adapter_model.safetensors").unlink(), "weights must be in the same folder"),
        (lambda folder: (folder / "adapter_model.safetensors").write_bytes(b"no"), "damaged"),
        (
            lambda folder: (folder / "adaptation.json").write_text('{"to": "poetry"}'),
            'to wants "diffusion" or "autoregressive", got "poetry"',
        ),
        (lambda folder: (folder / "adaptation.json").write_text("{"), "not valid JSON"),
    ],
)
def test_a_damaged_adapter_gives_one_line(adapter, tmp_path, change, says):
    folder = shutil.copytree(adapter, tmp_path / "broken")
    change(folder)
    with pytest.raises(FloatlensError, match=says):
        load(folder)


def test_what_is_no_adapter_is_refused(tiny, adapter):
    with pytest.raises(FloatlensError, match=r"no adapter_config\.json"):
        load(tiny("llama"), adapter=tiny("llama"))
    with pytest.raises(FloatlensError, match="an adapter itself"):
        load(adapter, adapter=adapter)
