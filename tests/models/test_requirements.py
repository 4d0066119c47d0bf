"""What loading takes, from headers alone: parameters, memory, and the first tensor that does not fit."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from floatlens.core.errors import FloatlensError
from floatlens.models import load
from floatlens.models.requirements import requirements
from floatlens.models.told import Told

pytestmark = pytest.mark.usefixtures("no_network")


def test_it_agrees_with_loading(any_name, tiny, tiny_model):
    found, model = requirements(str(tiny(any_name))), tiny_model(any_name)
    assert (found.facts.family, found.facts.kind, found.facts.mask_id) == (model.family, model.kind, model.mask_id)
    count = sum(parameter.numel() for parameter in model.module.parameters())
    assert found.parameters == count
    assert found.memory == {"float32": 4 * count, "bfloat16": 2 * count, "float16": 2 * count}
    assert found.compared == "names and shapes"
    assert sum(found.stored.values()) == found.tensors


def _changed(folder, change):
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return str(folder)


def _drop(tensors):
    del tensors["model.transformer.blocks.1.up_proj.weight"]


def _add(tensors):
    tensors["model.transformer.extra.weight"] = torch.zeros(2)


def _cut(tensors):
    tensors["model.transformer.ln_f.weight"] = torch.zeros(63)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_drop, r"tensor model\.layers\.1\.mlp\.up_proj\.weight of LlamaForCausalLM is missing"),
        (_add, r"tensor model\.transformer\.extra\.weight of the weights has no place in LlamaForCausalLM"),
        (_cut, r"tensor model\.norm\.weight is 63 in the file, but its configuration makes it 64"),
    ],
)
def test_what_stops_loading_is_named_in_the_same_words(change, words, copied):
    ref = _changed(copied("llada"), change)
    for attempt in (requirements, load):
        with pytest.raises(FloatlensError, match=words) as refused:
            attempt(ref)
        assert "\n" not in str(refused.value)


def _sharded(folder):
    """The folder with an index and no weights, as after downloading the small files alone."""
    names = list(load_file(folder / "model.safetensors"))
    (folder / "model.safetensors").unlink()
    index = {"metadata": {}, "weight_map": dict.fromkeys(names, "model-00001-of-00001.safetensors")}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return index


@pytest.mark.parametrize("name", ["llada", "dream", "illada", "llada-moe", "bert", "gpt2"])
def test_an_index_without_weights_is_enough_for_names(name, copied, tiny_model):
    folder = copied(name)
    _sharded(folder)
    found = requirements(str(folder))
    assert (found.compared, found.missing_files) == ("names", ("model-00001-of-00001.safetensors",))
    assert found.parameters == sum(one.numel() for one in tiny_model(name).module.parameters())
    with pytest.raises(FloatlensError, match="missing, though"):
        load(folder)


@pytest.mark.parametrize(
    ("gone", "more", "words"),
    [
        ("model.transformer.blocks.0.q_proj.weight", None, r"self_attn\.q_proj\.weight of LlamaForCausalLM is missing"),
        (
            None,
            "model.transformer.blocks.0.att_proj.weight",
            r"blocks\.0\.att_proj\.weight of the weights has no place",
        ),
    ],
)
def test_names_of_an_index_that_do_not_fit(gone, more, words, copied):
    folder = copied("llada")
    index = _sharded(folder)
    if gone:
        del index["weight_map"][gone]
    if more:
        index["weight_map"][more] = "model-00001-of-00001.safetensors"
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(FloatlensError, match=words):
        requirements(str(folder))


def test_a_bin_file_is_read_by_its_header(copied, tiny_model):
    folder = copied("bert")
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    found = requirements(str(folder))
    assert found.compared == "names and shapes"
    assert set(found.stored) == {"float32"}


def test_a_damaged_file_and_an_empty_folder(copied, tmp_path):
    folder = copied("llada")
    (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:-100])
    with pytest.raises(FloatlensError, match="damaged or cut short"):
        requirements(str(folder))
    (folder / "model.safetensors").unlink()
    with pytest.raises(FloatlensError, match="no weights in it, and no index of them"):
        requirements(str(folder))


def test_what_the_user_says_counts(copied):
    folder = shutil.copytree(copied("a2d-qwen3", _name_or_path=None, mask_token_id=None), copied("llama") / "plain")
    with pytest.raises(FloatlensError, match="full"):
        requirements(str(folder))
    found = requirements(str(folder), told=Told(attention="block_causal", block_size=4, mask_id=90))
    assert (found.facts.attention, found.facts.block_size, found.facts.mask_id) == ("block_causal", 4, 90)
    assert found.sampler == "bd3lm"
