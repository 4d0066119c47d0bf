"""Files: shards, .bin, damage, sizes that do not fit; the hub, with a stand-in for the network."""

from __future__ import annotations

import json
import os
import pickle
import shutil

import huggingface_hub
import pytest
import torch
from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled, RepositoryNotFoundError
from safetensors.torch import load_file, save_file

from floatlens.core import files
from floatlens.core.errors import FloatlensError
from floatlens.models import load
from floatlens.models.facts import look
from floatlens.models.requirements import requirements

IDS = torch.tensor([[5, 9, 13, 40, 41, 8]])


def _same(model, other):
    torch.testing.assert_close(model.forward(IDS), other.forward(IDS), atol=0, rtol=0)


def _rewrite(folder, change):
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def _shard(folder, suffix="safetensors"):
    """Split the one file in two, as published checkpoints are, and write the index."""
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    stem = "model" if suffix == "safetensors" else "pytorch_model"
    weight_map = {}
    for part in (0, 1):
        name = f"{stem}-{part + 1:05}-of-00002.{suffix}"
        some = {key: tensors[key] for key in sorted(tensors)[part::2]}
        if suffix == "bin":
            torch.save(some, folder / name)
        else:
            save_file(some, folder / name, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(some, name)
    (folder / f"{stem}.{suffix}.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


@pytest.mark.parametrize("name", ["llada", "dream", "llama", "bert", "llada-moe"])
@pytest.mark.parametrize("suffix", ["safetensors", "bin"])
def test_shards(name, suffix, copied, tiny_model):
    folder = copied(name)
    _shard(folder, suffix)
    _same(load(folder), tiny_model(name))


def _to_bin(folder):
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


@pytest.mark.parametrize("name", ["llada", "llama", "bert"])
def test_one_bin_file(name, copied, tiny_model):
    folder = copied(name)
    _to_bin(folder)
    _same(load(folder), tiny_model(name))


class _Trap:
    """What a hostile .bin holds: unpickling it would raise the error below instead of ours."""

    def __reduce__(self):
        return (exec, ("raise SystemExit('the trap was sprung')",))


def test_a_bin_that_holds_more_than_tensors_is_not_unpickled(copied):
    folder = copied("llama")
    (folder / "model.safetensors").unlink()
    with (folder / "pytorch_model.bin").open("wb") as file:
        pickle.dump({"model.norm.weight": _Trap()}, file, protocol=2)
    with pytest.raises(FloatlensError, match=r"its \.bin holds more than tensors"):
        load(folder)


def test_safetensors_are_preferred(copied, tiny_model):
    folder = copied("llama")
    (folder / "pytorch_model.bin").write_bytes(b"rubbish")
    _same(load(folder), tiny_model("llama"))


def test_a_missing_shard_is_named(copied):
    folder = copied("llada")
    _shard(folder)
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(FloatlensError, match=r"model-00002-of-00002\.safetensors: missing, though .*index\.json lists"):
        load(folder)


def test_an_index_without_a_map(copied):
    folder = copied("llada")
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text("{}")
    with pytest.raises(FloatlensError, match="it has no `weight_map`"):
        load(folder)


@pytest.mark.parametrize("keep", [3, 100, -10])
def test_a_damaged_file(keep, copied):
    folder = copied("llada")
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(FloatlensError, match=r"model\.safetensors: damaged or cut short .*; download it again"):
        load(folder)


def test_a_file_far_larger_than_its_header_says_is_refused_before_it_is_mapped(copied, monkeypatch):
    folder = copied("llada")
    path = folder / "model.safetensors"
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size + (1 << 33))  # sparse
    monkeypatch.setattr("safetensors.safe_open", lambda *_, **__: pytest.fail("it was mapped"))
    with pytest.raises(FloatlensError, match=r"model\.safetensors: damaged or cut short \(\d+ bytes, not \d+\)"):
        load(folder)


@pytest.mark.parametrize("header", [b"[1]", b'{"a": 1}', b"{", b"[" * 100_000])
def test_a_header_that_lists_no_tensors(header, copied):
    folder = copied("llada")
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(FloatlensError, match=r"model\.safetensors: damaged or cut short \(its header lists no"):
        load(folder)


def test_no_weights(copied):
    folder = copied("llada")
    (folder / "model.safetensors").unlink()
    with pytest.raises(FloatlensError, match=r"no weights in it; expected model\.safetensors"):
        load(folder)


def test_wrong_sizes_name_the_first_tensor(copied):
    with pytest.raises(FloatlensError, match=r"tensor model\.layers\.0\.mlp\.down_proj\.weight is 64 x 96 .* 64 x 80$"):
        load(copied("llada", mlp_hidden_size=80))


def test_a_missing_tensor_is_named(copied):
    folder = copied("dream")
    _rewrite(folder, lambda tensors: [tensors.pop(f"model.layers.{i}.self_attn.q_proj.bias") for i in (1, 2)])
    with pytest.raises(
        FloatlensError,
        match=r"tensor model\.layers\.1\.self_attn\.q_proj\.bias of Qwen2\S+ is missing .* \(and 1 more\)",
    ):
        load(folder)


def test_a_missing_layer_is_not_left_random(copied):
    with pytest.raises(FloatlensError, match=r"tensor model\.layers\.3\.\S+ of LlamaForCausalLM is missing"):
        load(copied("llada", n_layers=4))


def test_a_tensor_too_many_is_named(copied):
    with pytest.raises(
        FloatlensError, match=r"tensor model\.\S*2\.\S+ of the weights has no place in LlamaForCausalLM"
    ):
        load(copied("llada", n_layers=2))


def test_wrong_sizes_of_experts(copied):
    with pytest.raises(FloatlensError, match="experts"):
        load(copied("llada-moe", expert_intermediate_size=20))


def test_values_that_transformers_refuses(copied):
    with pytest.raises(FloatlensError, match=r"config\.json: transformers refuses this configuration"):
        load(copied("llama", num_attention_heads=5))


@pytest.mark.parametrize(
    ("text", "message"), [("{", "not valid JSON"), ("[1]", "expected a JSON object"), (b"\xff\xfe", "not valid JSON")]
)
def test_a_configuration_that_is_none(text, message, tmp_path):
    (tmp_path / "config.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(FloatlensError, match=rf"config\.json: {message}"):
        load(tmp_path)


def test_a_folder_without_a_configuration(tmp_path):
    with pytest.raises(FloatlensError, match=r"there is no config\.json in it, so it is not a checkpoint"):
        load(tmp_path)


def test_an_adapter(tmp_path):
    (tmp_path / "adapter_config.json").write_text('{"base_model_name_or_path": "org/base"}')
    with pytest.raises(FloatlensError, match="its base model cannot be loaded: org/base"):
        load(tmp_path)


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize(
    "ref", ["/no/such/folder", "./absent", "../absent", "a/b/c", "~/absent-folder", "C:\\models\\x"]
)
def test_a_path_that_is_not_there(ref):
    with pytest.raises(FloatlensError, match="no such folder, and not a hub id"):
        load(ref)


def test_a_file_is_no_checkpoint(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(FloatlensError, match=r"expected a folder with a config\.json, or a \.gguf file"):
        load(tmp_path / "model.safetensors")


def test_a_local_folder_has_no_revision(tiny):
    with pytest.raises(FloatlensError, match="revision= is for hub repositories"):
        load(tiny("llama"), revision="main")


# -- the hub ------------------------------------------------------------------------------------------------------

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class _Hub:
    """Stands in for `snapshot_download`: a repository in one folder, its snapshot in another, and a list of calls."""

    def __init__(self, repository, snapshots):
        self.repository, self.snapshot = repository, snapshots / COMMIT
        self.calls = []

    def __call__(self, hub_id, *, revision, allow_patterns, ignore_patterns):
        self.calls.append((hub_id, revision, tuple(allow_patterns)))
        assert ignore_patterns == ["*/*"]
        self.snapshot.mkdir(parents=True, exist_ok=True)
        for pattern in allow_patterns:
            for file in self.repository.glob(pattern):
                shutil.copy(file, self.snapshot)
        return str(self.snapshot)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    def make(folder):
        stand_in = _Hub(folder, tmp_path / "snapshots")
        monkeypatch.setattr(huggingface_hub, "snapshot_download", stand_in)
        return stand_in

    return make


@pytest.mark.usefixtures("no_network")
def test_a_hub_id_fetches_the_configuration_then_the_weights(hub, copied, tiny_model):
    folder = copied("llada")
    (folder / "modeling_llada.py").write_text("raise SystemExit")
    repository = hub(folder)
    model = load("org/tiny", revision="v2")
    _same(model, tiny_model("llada"))
    assert (model.ref, model.revision) == ("org/tiny", COMMIT)
    small, weights = repository.calls
    assert small[:2] == ("org/tiny", "v2")
    assert weights == ("org/tiny", COMMIT, ("model.safetensors",))
    assert not list(repository.snapshot.glob("*.py"))


@pytest.mark.usefixtures("no_network")
def test_a_hub_repository_with_a_bin_only(hub, copied, tiny_model):
    folder = copied("llama")
    _to_bin(folder)
    repository = hub(folder)
    _same(load("org/tiny"), tiny_model("llama"))
    assert [call[2] for call in repository.calls[1:]] == [("model.safetensors",), ("pytorch_model.bin",)]


@pytest.mark.usefixtures("no_network")
def test_of_a_sharded_repository_only_the_listed_files_are_fetched(hub, copied, tiny_model):
    folder = copied("llama")
    shutil.copy(folder / "model.safetensors", folder / "consolidated.safetensors")
    _shard(folder)
    repository = hub(folder)
    _same(load("org/tiny"), tiny_model("llama"))
    assert sorted(file.name for file in repository.snapshot.glob("*.safetensors")) == [
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
    ]


def test_no_weights_are_fetched_for_a_configuration_that_is_refused(hub, copied):
    repository = hub(copied("llada", alibi=True))
    with pytest.raises(FloatlensError, match="`alibi`"):
        load("org/tiny")
    assert len(repository.calls) == 1


@pytest.mark.parametrize("error", [OfflineModeIsEnabled, HfHubHTTPError.__bases__[0]])
def test_a_hub_that_cannot_be_reached(error, monkeypatch, tmp_path):
    def down(*_, **__):
        raise error("Name or service not known")

    monkeypatch.setattr(huggingface_hub.HfApi, "repo_info", down)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(FloatlensError, match="org/name: no such folder here, and the hub cannot be reached"):
        load("org/name")


def test_a_repository_that_does_not_exist(monkeypatch):
    def fail(*_, **__):
        response = type("Response", (), {"headers": {}, "request": None, "status_code": 404})()
        raise RepositoryNotFoundError("404", response=response)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    with pytest.raises(FloatlensError, match=r"org/name \(revision v1\): no such folder here and no such repository"):
        load("org/name", revision="v1")


def test_a_digest_tells_weights_apart(copied, monkeypatch):
    """Small files as a whole, large ones by size and both ends; a folder's name does not count."""
    folder = copied("llama")
    weights = folder / "model.safetensors"
    first = look(str(folder)).weights
    again = folder.rename(folder.with_name("elsewhere"))
    assert look(str(again)).weights == first
    content = bytearray((again / weights.name).read_bytes())
    content[len(content) // 2] ^= 1
    (again / weights.name).write_bytes(content)
    assert look(str(again)).weights != first
    monkeypatch.setattr(files, "_READ_WHOLE", 100)
    monkeypatch.setattr(files, "_MIB", 50)
    large = look(str(again)).weights
    content[len(content) // 2] ^= 1
    (again / weights.name).write_bytes(content)
    assert look(str(again)).weights == large  # what lies between is not read
    content[-1] ^= 1
    (again / weights.name).write_bytes(content)
    assert look(str(again)).weights != large


def test_a_hub_repository_is_known_by_its_revision(hub, copied):
    hub(copied("llama"))
    facts = look("org/name")
    assert (facts.weights, facts.revision) == (None, COMMIT)


# -- findings of the fuzzer -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"quantization_config": True}, "transformers refuses this configuration"),
        ({"rms_norm_eps": 1}, "transformers refuses this configuration"),
        ({"pad_token_id": [1]}, "transformers refuses this configuration"),
        ({"layer_types": 7}, "transformers refuses this configuration"),
        ({"model_type": "x" * 5000}, "its `model_type` has 5,000 characters"),
    ],
)
def test_what_loading_refuses_inspection_refuses_too(change, said, copied):
    folder = copied("llama", **change)
    for see in (look, requirements, load):
        with pytest.raises(FloatlensError, match=said) as caught:
            see(str(folder))
        assert len(str(caught.value)) < 600


@pytest.mark.parametrize("name", ["config.json", "generation_config.json", "tokenizer.json", "chat_template.jinja"])
@pytest.mark.parametrize("kind", ["pipe", "device", "huge"])
def test_files_that_are_none_are_not_waited_for(name, kind, copied):
    folder = copied("llama")
    path = folder / name
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        with path.open("wb") as file:
            file.truncate(1 << 33)
    for see in (look, requirements, load):
        with pytest.raises(FloatlensError, match=f"{name}: (not a regular file|8,192 MB)"):
            see(str(folder))
