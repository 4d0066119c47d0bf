"""Dream, a2d, masked LMs and causal models: what each family reads, refuses and tells; and how one is picked."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from floatlens.core.errors import FloatlensError
from floatlens.models import dream, families, load
from floatlens.models.facts import look
from floatlens.models.settings import Settings
from shared.published import DREAM_7B

IDS = torch.tensor([[5, 9, 13, 40, 41, 8]])


def test_the_families_there_are():
    found = {family.name: (family.kind, family.shift) for family in families()}
    assert found == {
        "llada": ("mdm", False),
        "dream": ("mdm", True),
        "illada": ("mdm", False),
        "llada2": ("mdm", False),
        "nemotron-diffusion": ("mdm", False),
        "a2d-llama": ("mdm", False),
        "a2d-qwen2": ("mdm", False),
        "a2d-qwen3": ("mdm", False),
        "sdar": ("mdm", False),
        "fast-dllm-v2": ("mdm", True),
        "caduceus": ("mdm", False),
        "lfm2-diffusion": ("mdm", False),
        "masked-lm": ("mdm", False),
        "causal": ("arm", True),
    }


EXPECTED = {"llada-moe": "llada", "llada": "llada", "dream": "dream"}
EXPECTED |= {name: name for name in ("a2d-llama", "a2d-qwen2", "a2d-qwen3")}


def test_the_family_is_read_off_the_configuration(any_name, tiny_model):
    model = tiny_model(any_name)
    assert model.family == EXPECTED.get(any_name, "masked-lm" if model.kind == "mdm" else "causal")


@pytest.mark.parametrize(
    ("name", "hint"),
    [("drem", 'did you mean "dream"'), ("causl", 'did you mean "causal"'), ("xyz", "known: a2d-llama")],
)
def test_a_family_that_does_not_exist(name, hint, tiny):
    with pytest.raises(FloatlensError, match=f'no model family "{name}"; {hint}'):
        load(tiny("llama"), family=name)


# -- Dream --------------------------------------------------------------------------------------------------------


def test_the_published_dream_configuration_gives_the_size_of_qwen2_7b():
    plan = dream.FAMILY.plan(Settings(DREAM_7B, "config.json"))
    with torch.device("meta"):
        module = plan.architecture(plan.config)
    assert sum(parameter.numel() for parameter in module.parameters()) == 7_615_616_512
    assert plan.config.is_causal is False


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("use_sliding_window", True),
        ("rope_scaling", {"rope_type": "yarn", "factor": 4.0}),
        ("rope_parameters", {"rope_type": "linear", "rope_theta": 1e6, "factor": 2.0}),
        ("attention_bias", False),
        ("hidden_act", "gelu"),
        ("head_dim", 32),
        ("block_size", 32),
        ("use_mrope", True),
        ("layer_types", ["full_attention", "full_attention", "sliding_attention"]),
        ("tie_word_embeddings", "yes"),
    ],
)
def test_dream_refuses_by_name(flag, value, copied):
    with pytest.raises(FloatlensError, match=rf"config\.json: .*`{flag}`"):
        load(copied("dream", **{flag: value}))


def test_dream_reads_both_spellings_of_the_rotary_base(copied, tiny_model):
    new = load(copied("dream", rope_theta=None, rope_parameters={"rope_type": "default", "rope_theta": 1e6}))
    torch.testing.assert_close(new.forward(IDS), tiny_model("dream").forward(IDS), atol=0, rtol=0)
    assert new.module.config.rope_parameters["rope_theta"] == 1e6


def test_the_dream_family_reads_no_other_type(tiny):
    with pytest.raises(FloatlensError, match="model_type is 'qwen2'; the dream family reads 'Dream'"):
        load(tiny("qwen2"), family="dream")


# -- a2d ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", ["llama", "qwen2", "qwen3"])
def test_a_causal_checkpoint_with_a_mask_token_loads_as_a2d(base, copied, tiny_model):
    folder = copied(base, mask_token_id=90)
    model = load(folder, family=f"a2d-{base}")
    assert (model.kind, model.shift, model.mask_id, model.family) == ("mdm", False, 90, f"a2d-{base}")
    causal, both = tiny_model(base).forward(IDS), model.forward(IDS)
    assert (both[:, 0] - causal[:, 0]).abs().max() > 1e-3  # row 0 now sees the rest
    assert load(folder).kind == "arm"  # without family= it stays what its configuration says


def test_a_causal_checkpoint_without_a_mask_token_does_not(tiny):
    with pytest.raises(
        FloatlensError, match=r"no mask token: .*there is no tokenizer; give mask_id= or add `mask_token_id`"
    ):
        load(tiny("llama"), family="a2d-llama")


def test_a2d_refuses_the_wrong_base_and_what_it_does_not_know(copied, tiny):
    with pytest.raises(FloatlensError, match="model_type is 'qwen2'; the a2d-llama family reads"):
        load(tiny("qwen2"), family="a2d-llama")
    with pytest.raises(FloatlensError, match="does not know `bd3lm_block_size`"):
        load(copied("a2d-llama", bd3lm_block_size=32))


@pytest.mark.parametrize(
    ("flag", "value"), [("use_sliding_window", True), ("layer_types", ["full_attention"] * 2 + ["sliding_attention"])]
)
def test_a2d_refuses_sliding_windows(flag, value, copied):
    with pytest.raises(FloatlensError, match=f"`{flag}`"):
        load(copied("a2d-qwen2", **{flag: value}))


def renamed(folder: Path, name: str) -> Path:
    return folder.rename(folder.with_name(name))


def test_a2d_of_the_block_diffusion_kind_is_told_by_its_name(copied):
    """Both kinds have the same config.json; the name of the repository or its card tells them apart."""
    folder = renamed(copied("a2d-qwen3", _name_or_path=""), "Qwen3-0.6B-diffusion-bd3lm-v0.1")
    model, facts = load(folder), look(str(folder))
    assert (model.attention, model.block_size, model.sampler) == ("block_causal", 32, "bd3lm")
    assert (facts.attention, facts.block_size, facts.sampler) == ("block_causal", 32, "bd3lm")
    assert load(folder, block_size=4).block_size == 4
    assert load(folder, attention="full").attention == "full"  # what the user says comes first


def test_a2d_is_told_by_its_card_and_by_the_hubs_cache(copied, tmp_path):
    folder = copied("a2d-llama", _name_or_path="")
    (folder / "README.md").write_text("# Llama-diffusion-BD3LM\n")
    assert load(folder).attention == "block_causal"
    (folder / "README.md").unlink()
    cached = tmp_path / "models--dllm-hub--Llama-diffusion-bd3lm-v0.1" / "snapshots" / "0123"
    cached.parent.mkdir(parents=True)
    folder.rename(cached)
    assert load(cached).attention == "block_causal"


def test_a2d_that_does_not_say_its_kind_is_refused_with_the_two_ways_to_say_it(copied):
    folder = copied("a2d-qwen2", _name_or_path="")
    (folder / "model.safetensors").unlink()  # nothing reads it
    for read in (load, look):
        for named in (None, "a2d-qwen2"):
            with pytest.raises(FloatlensError, match=r'give attention="full", or attention="block_causal" with'):
                read(str(folder), family=named)


def test_a2d_is_what_the_user_says(copied):
    folder = copied("a2d-qwen2", _name_or_path="")
    assert load(folder, attention="full").attention == "full"
    model = load(folder, attention="block_causal", block_size=3)
    assert (model.attention, model.block_size) == ("block_causal", 3)
    assert load(folder, block_size=3).attention == "block_causal"  # full attention has no blocks
    assert load(renamed(folder, "Qwen2-diffusion-mdlm")).attention == "full"


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"attention": "blockcausal"}, 'did you mean "block_causal"'),
        ({"block_size": 0}, "block_size=0; give a whole number"),
        ({"attention": "full", "block_size": 8}, 'block_size= goes with attention="block_causal"'),
        ({"mask_id": -1}, "mask_id=-1; give a token id"),
        ({"mask_id": 91}, "mask_id=91 was given, but its `mask_token_id` is 90"),
        ({"attention": "block_causal"}, "as dream it has attention full; leave attention= out"),
        ({"block_size": 8}, "as dream it has no block_size; leave block_size= out"),
        ({"mode": "ar"}, "as dream it has no mode; leave mode= out"),
    ],
)
def test_what_is_said_of_a_checkpoint_must_fit_it(told, said, copied):
    folder = copied("dream", mask_token_id=90)
    (folder / "model.safetensors").unlink()  # refused before any weights are read
    with pytest.raises(FloatlensError, match=re.escape(said)):
        load(folder, **told)


def test_the_mask_token_can_be_told(tiny):
    assert load(tiny("llama"), family="a2d-llama", mask_id=90).mask_id == 90
    with pytest.raises(FloatlensError, match="mask token 96 is outside the vocabulary"):
        load(tiny("llama"), family="a2d-llama", mask_id=96)
    with pytest.raises(FloatlensError, match="mask_id= is for diffusion models"):
        load(tiny("llama"), mask_id=90)


# -- block diffusion ----------------------------------------------------------------------------------------------


@pytest.fixture
def changed(golden, tmp_path):
    """A golden checkpoint without weights and with other settings: what is refused is refused before they are read."""

    def make(name, **values):
        folder = tmp_path / name
        folder.mkdir()
        settings = json.loads((golden(name) / "config.json").read_text()) | values
        kept = {key: value for key, value in settings.items() if value is not None}
        (folder / "config.json").write_text(json.dumps(kept))
        return folder

    return make


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("sdar", {"block_size": None}, "`block_size` is missing, and nothing else says it; give block_size="),
        ("sdar", {"use_sliding_window": True}, "`use_sliding_window` is true, which the sdar family does not cover"),
        ("sdar", {"attention_sink": 4}, "the sdar family does not know `attention_sink`"),
        ("sdar", {"rope_scaling": {"rope_type": "yarn"}}, "`rope_scaling` is"),
        ("sdar", {"model_type": "sdar_moe"}, "model_type 'sdar_moe' is not covered"),
        ("fast-dllm-v2", {"bd_size": None}, "`bd_size` is missing, and nothing else says it; give block_size="),
        ("fast-dllm-v2", {"head_dim": 8}, "`head_dim` is 8, which the fast-dllm-v2 family does not cover"),
        ("fast-dllm-v2", {"attention_bias": False}, "`attention_bias` is false"),
        ("fast-dllm-v2", {"num_experts": 4}, "the fast-dllm-v2 family does not know `num_experts`"),
        ("fast-dllm-v2", {}, "mask token 151665 is outside the vocabulary of 160"),
    ],
)
def test_what_block_diffusion_families_refuse_before_reading_weights(name, values, said, changed):
    folder = changed(name, **values)
    for read in (load, look):
        with pytest.raises(FloatlensError, match=re.escape(said)):
            read(str(folder))


@pytest.mark.parametrize("name", ["sdar", "fast-dllm-v2"])
def test_block_diffusion_is_refused_as_another_family(name, golden):
    with pytest.raises(FloatlensError, match="the dream family reads 'Dream'"):
        load(golden(name), family="dream")
    with pytest.raises(FloatlensError, match=f"leave family= out or give '{name}'"):
        load(golden(name), family="causal")
    with pytest.raises(FloatlensError, match=f"as {name} it has attention block_causal; leave attention= out"):
        load(golden(name), attention="full")
    with pytest.raises(FloatlensError, match=f"as {name} it has block_size"):
        load(golden(name), block_size=3)


def test_a_block_size_that_the_checkpoint_lacks_is_told(golden, tmp_path):
    folder = tmp_path / "sdar"
    shutil.copytree(golden("sdar"), folder)
    settings = json.loads((folder / "config.json").read_text())
    del settings["block_size"]
    (folder / "config.json").write_text(json.dumps(settings))
    assert load(folder, block_size=4).block_size == 4


def test_a_mask_token_outside_the_vocabulary(copied):
    with pytest.raises(FloatlensError, match="mask token 96 is outside the vocabulary of 96"):
        load(copied("a2d-llama", mask_token_id=96))


# -- masked language models ---------------------------------------------------------------------------------------


def test_roberta_counts_positions_as_transformers_does(tiny, tiny_model):
    """transformers derives them from the padding ids when given none; ours come from the mask. Same logits."""
    from transformers import RobertaForMaskedLM

    module = RobertaForMaskedLM.from_pretrained(tiny("roberta")).eval()
    ids = torch.tensor([[5, 9, 13, 40, 1, 1], [7, 8, 9, 10, 11, 12]])
    mask = (ids != 1).long()
    with torch.no_grad():
        expected = module(ids, attention_mask=mask).logits
    found = tiny_model("roberta").forward(ids, mask)
    torch.testing.assert_close(found[mask.bool()], expected[mask.bool()], atol=1e-6, rtol=0)
    assert tiny_model("roberta").position_offset == 2


def test_roberta_needs_its_padding_index(copied):
    folder = copied("roberta")
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"pad_token_id": None}))
    with pytest.raises(FloatlensError, match="`pad_token_id` is missing, and roberta counts positions from it"):
        load(folder)


def test_leftovers_of_pretraining_are_let_through(copied, tiny_model):
    folder = copied("bert")
    tensors = load_file(folder / "model.safetensors")
    tensors |= {"bert.pooler.dense.weight": torch.zeros(32, 32), "cls.seq_relationship.bias": torch.zeros(2)}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    torch.testing.assert_close(load(folder).forward(IDS), tiny_model("bert").forward(IDS), atol=0, rtol=0)


def test_a_discriminator_has_no_masked_head(copied):
    folder = copied("electra")
    tensors = load_file(folder / "model.safetensors")
    kept = {key: value for key, value in tensors.items() if not key.startswith("generator_")}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(FloatlensError, match=r"tensor generator_\S+ of ElectraForMaskedLM is missing"):
        load(folder)


@pytest.mark.parametrize(("flag", "value"), [("is_decoder", True), ("position_embedding_type", "relative_key")])
def test_masked_lm_refuses_by_name(flag, value, copied):
    with pytest.raises(FloatlensError, match=f"`{flag}`"):
        load(copied("bert", **{flag: value}), family="masked-lm")


def test_masked_lm_knows_its_types(tiny):
    with pytest.raises(FloatlensError, match="does not know model_type 'llama'"):
        load(tiny("llama"), family="masked-lm")


# -- causal models ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("llada", "'llada' is a masked diffusion model; leave family= out or give 'llada'"),
        ("dream", "'Dream' is a masked diffusion model; leave family= out or give 'dream'"),
        ("a2d-qwen3", "'a2d-qwen3' is a masked diffusion model"),
        ("bert", "'bert' is a bidirectional encoder; leave family= out or give 'masked-lm'"),
    ],
)
def test_causal_refuses_what_is_not(name, message, tiny):
    with pytest.raises(FloatlensError, match=message):
        load(tiny(name), family="causal")


@pytest.mark.parametrize("family", [None, "causal"])
def test_encoder_decoders_are_refused(family, tmp_path):
    from transformers import BartConfig, T5Config

    for config in (BartConfig(d_model=16), T5Config(d_model=16)):
        config.save_pretrained(tmp_path)
        with pytest.raises(FloatlensError, match=f"'{config.model_type}' is an encoder-decoder"):
            load(tmp_path, family=family)


@pytest.mark.parametrize(("flag", "value"), [("is_causal", False), ("use_bidirectional_attention", True)])
def test_causal_refuses_a_decoder_made_bidirectional(flag, value, copied):
    with pytest.raises(FloatlensError, match=f"`{flag}` is {json.dumps(value)}"):
        load(copied("llama", **{flag: value}))


@pytest.mark.parametrize("family", [None, "causal", "llada"])
@pytest.mark.parametrize(
    ("kind", "reason"), [("llada2_moe_veomni", "merged"), ("diffusion_gemma", "random tokens"), ("sdar_moe", "experts")]
)
def test_known_diffusion_models_that_are_not_covered(kind, reason, family, copied):
    with pytest.raises(FloatlensError, match=f"model_type '{kind}' is not covered: .*{reason}"):
        load(copied("llama", model_type=kind), family=family)


def test_an_unknown_model_type(copied):
    with pytest.raises(FloatlensError, match="no family reads model_type 'wonder'; pass family= if"):
        load(copied("llama", model_type="wonder"))


def test_an_unknown_model_type_as_causal(copied):
    with pytest.raises(FloatlensError, match="no causal language model for model_type 'wonder'"):
        load(copied("llama", model_type="wonder"), family="causal")


def test_no_model_type(copied):
    with pytest.raises(FloatlensError, match="it has no `model_type`"):
        load(copied("llama", model_type=None))
