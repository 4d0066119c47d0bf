"""Shared fixtures: the golden checkpoints, and tiny random ones that transformers itself writes, made once per session.

`tiny("bert")` is a folder, `tiny_model("bert")` the loaded model. They share files and weights over the session: copy a
folder (`copied`) before changing it. A test that takes `arm_name`, `mdm_name` or `any_name` runs for each such model.
"""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import hypothesis
import pytest
import torch

hypothesis.settings.register_profile("floatlens", deadline=None)  # a busy machine is no reason to fail
hypothesis.settings.load_profile("floatlens")

pytest_plugins = ["shared.block_models", "shared.capture"]
GOLDEN = Path(__file__).parent / "golden"
VOCABULARY = 96
MASK = 90

_SIZE = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4}
_DECODER = _SIZE | {"intermediate_size": 48, "num_key_value_heads": 2, "max_position_embeddings": 64}
_ENCODER = _SIZE | {"intermediate_size": 48, "max_position_embeddings": 40, "type_vocab_size": 2}
_TINY: dict[str, tuple[str, dict[str, Any]]] = {
    "albert": ("AlbertForMaskedLM", _ENCODER | {"embedding_size": 16}),
    "bert": ("BertForMaskedLM", _ENCODER),
    "distilbert": (
        "DistilBertForMaskedLM",
        {"vocab_size": VOCABULARY, "dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 48}
        | {"max_position_embeddings": 40},
    ),
    "electra": ("ElectraForMaskedLM", _ENCODER | {"embedding_size": 16}),
    "eurobert": ("EuroBertForMaskedLM", _DECODER | {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}),
    "modernbert": (
        "ModernBertForMaskedLM",
        _SIZE
        | {"intermediate_size": 48, "max_position_embeddings": 64, "local_attention": 8, "pad_token_id": 0}
        | {"bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2},
    ),
    "roberta": ("RobertaForMaskedLM", _ENCODER | {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}),
    "gpt2": ("GPT2LMHeadModel", {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64}),
    "llama": ("LlamaForCausalLM", _DECODER),
    "mistral": ("MistralForCausalLM", _DECODER | {"sliding_window": 4}),
    "qwen2": ("Qwen2ForCausalLM", _DECODER),
    "qwen3": ("Qwen3ForCausalLM", _DECODER | {"head_dim": 8}),
    "qwen3-moe": (
        "Qwen3MoeForCausalLM",
        _DECODER | {"moe_intermediate_size": 24, "num_experts": 4, "num_experts_per_tok": 2, "head_dim": 8},
    ),
}
_MASKED = ("albert", "bert", "distilbert", "electra", "eurobert", "modernbert", "roberta")
_ADAPTED = {"a2d-llama": "llama", "a2d-qwen2": "qwen2", "a2d-qwen3": "qwen3"}

ARM_NAMES = ("gpt2", "llama", "mistral", "qwen2", "qwen3", "qwen3-moe")
MDM_NAMES = (*_MASKED, *_ADAPTED, "llada-moe", "llada", "dream")


_SLOW_IN_CI = (
    "cli/test_cache.py",
    "docs/",
    "edits/",
    "report/test_size.py",
    "runs/test_killed_",  # in a short form: shared.killing
    "runs/test_publish.py",
    "runs/test_workers.py",
)
"""Slow tests whose outcome does not depend on the machine: CI runs them after `make test`."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    root = Path(__file__).parent
    for item in items:
        if item.get_closest_marker("slow") and str(item.path.relative_to(root)).startswith(_SLOW_IN_CI):
            item.add_marker("ci")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for argument, names in {
        "arm_name": ARM_NAMES,
        "mdm_name": MDM_NAMES,
        "any_name": (*ARM_NAMES, *MDM_NAMES),
    }.items():
        if argument in metafunc.fixturenames:
            metafunc.parametrize(argument, names)


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)  # tiny tensors: more threads only wait for each other


@pytest.fixture(scope="session")
def golden() -> Callable[[str], Path]:
    """The folder of a golden checkpoint: `golden("llada")`, `golden("dream")`, …"""
    return lambda name: GOLDEN / f"{name}-tiny"


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A tiny random checkpoint by name (`ARM_NAMES`, `MDM_NAMES`), without a tokenizer."""
    made: dict[str, Path] = {}

    def make(name: str) -> Path:
        if (GOLDEN / f"{name}-tiny").is_dir():
            return GOLDEN / f"{name}-tiny"
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            _write(name, folder)
            made[name] = folder
        return made[name]

    return make


@pytest.fixture(scope="session")
def tiny_model(tiny: Callable[[str], Path]) -> Callable[[str], Any]:
    """A loaded tiny model by name; one object for the whole session, so leave it as it was."""
    from floatlens.models import load

    loaded: dict[str, Any] = {}

    def get(name: str) -> Any:
        if name not in loaded:
            loaded[name] = load(str(tiny(name)))
        return loaded[name]

    return get


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random Llama with the tokenizer of the scale models, to be adapted."""
    from transformers import LlamaConfig, LlamaForCausalLM

    from floatlens.subjects.scale import WEIGHTS

    folder = tmp_path_factory.mktemp("base")
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes |= {"num_key_value_heads": 2, "vocab_size": 485, "max_position_embeddings": 512}
    LlamaForCausalLM(LlamaConfig(**sizes, bos_token_id=2, eos_token_id=3, pad_token_id=0)).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(WEIGHTS / "llama" / name, folder / name)
    return folder


@pytest.fixture(scope="session")
def world_data(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(questions, text): files of the scale world, to adapt a model on."""
    from floatlens.subjects.scale.examples import questions

    folder = tmp_path_factory.mktemp("data")
    made = questions("rag", 60, documents=2)
    (folder / "asked.jsonl").write_text("".join(f"{example.model_dump_json()}\n" for example in made))
    lines = [f"{document.text} {document.text}" for example in made for document in example.documents]
    (folder / "plain.txt").write_text("\n".join(lines))
    return folder / "asked.jsonl", folder / "plain.txt"


@pytest.fixture(scope="session")
def smollm2_file() -> Path:
    """The GGUF file of SmolLM2; the test is skipped where it is not installed."""
    from floatlens.core.errors import FloatlensError
    from floatlens.subjects.natural import base_file

    try:
        return base_file()
    except FloatlensError as error:
        pytest.skip(f"{error} (or: make natural)")


@pytest.fixture
def copied(tmp_path: Path, tiny: Callable[[str], Path]) -> Callable[..., Path]:
    """`copied("llama", model_type="x", rope=None)`: a copy to change, with config.json edited (None removes a key)."""

    def make(name: str, **changes: Any) -> Path:
        folder = tmp_path / f"copy-of-{name}"
        shutil.copytree(tiny(name), folder)
        _edit_config(folder, **changes)
        return folder

    return make


@pytest.fixture(scope="session")
def edit_config() -> Callable[..., None]:
    """`edit_config(folder, key=value)` changes config.json; None removes a key."""
    return _edit_config


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any attempt to open a connection fails the test."""

    def refuse(*_: object, **__: object) -> NoReturn:
        raise AssertionError("the network was touched")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def _edit_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    values = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in values.items() if value is not None}, indent=1))


def _write(name: str, folder: Path) -> None:
    """transformers' own class and `save_pretrained`; the adapted formats then get their own config.json."""
    import transformers

    base = "qwen3-moe" if name == "llada-moe" else _ADAPTED.get(name, name)
    class_name, sizes = _TINY[base]
    architecture = getattr(transformers, class_name)
    torch.manual_seed(sum(name.encode()))
    module = architecture(architecture.config_class(**sizes))
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.3)  # far from the initial zeros and ones, so that no part can be left out unseen
    module.save_pretrained(folder)
    if name in _ADAPTED:
        _edit_config(folder, model_type=name, architectures=[f"A2D{class_name}"], _name_or_path="tiny-mdlm")
    if name in _MASKED or name in _ADAPTED:
        _edit_config(folder, mask_token_id=MASK)
    if name == "llada-moe":
        (folder / "config.json").write_text(json.dumps(_LLADA_MOE))


_LLADA_MOE = {
    "architectures": ["LLaDAMoEModelLM"],
    "model_type": "llada",
    "attention_bias": False,
    "clip_qkv": None,
    "dense_intermediate_size": 48,
    "expert_intermediate_size": 24,
    "eos_token_id": 2,
    "hidden_act": "silu",
    "hidden_size": 32,
    "mask_token_id": MASK,
    "max_position_embeddings": 64,
    "moe_layer_freq": [1, 1, 1],
    "moe_router_enable_expert_bias": False,
    "moe_router_score_function": "softmax",
    "norm_topk_prob": None,
    "num_attention_heads": 4,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 3,
    "num_key_value_heads": 2,
    "pad_token_id": 2,
    "partial_rotary_factor": 1,
    "qk_layernorm": True,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 10000.0,
    "routed_scaling_factor": 1,
    "shared_expert_intermediate_size": None,
    "tie_word_embeddings": False,
    "vocab_size": VOCABULARY,
}
