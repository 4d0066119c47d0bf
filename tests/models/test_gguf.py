"""A GGUF file as an ARM. The real one is optional (`make natural`); refusals need no file."""

from __future__ import annotations

import pytest
import torch

from floatlens.core.errors import FloatlensError
from floatlens.models import load
from floatlens.models.facts import look
from floatlens.models.requirements import requirements
from floatlens_lab.fuzz.gguf_file import write_gguf


@pytest.mark.natural
@pytest.mark.usefixtures("no_network")
def test_smollm_names_the_capital_of_france(smollm2_file):
    model = load(smollm2_file)
    assert (model.kind, model.family, model.shift, model.mask_id) == ("arm", "causal", True, None)
    assert (model.num_layers, model.num_heads, model.num_kv_heads, model.head_dim) == (30, 9, 3, 64)
    assert model.dtype == torch.float32
    tokenizer = model.tokenizer
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is the capital of France?"}], tokenize=False, add_generation_prompt=True
    )
    ids = torch.tensor([tokenizer(text, add_special_tokens=False)["input_ids"]])
    cache, written = model.new_cache(), []
    for _ in range(10):
        row = model.forward(ids, logits_at=torch.tensor([-1]), cache=cache)
        written.append(int(row[0, 0].argmax()))
        if written[-1] in model.eos_ids:
            break
        ids = torch.tensor([written[-1:]])
    assert tokenizer.decode(written, skip_special_tokens=True) == "The capital of France is Paris."
    assert written[-1] in model.eos_ids


def test_no_such_file():
    with pytest.raises(FloatlensError, match=r"absent\.gguf: no such file"):
        load("absent.gguf")


def test_a_file_that_is_not_gguf(tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(FloatlensError, match="not a GGUF file"):
        load(path)


def test_a_cut_file(tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF" + (3).to_bytes(4, "little") + bytes(8))
    with pytest.raises(FloatlensError, match=r"model\.gguf: transformers cannot load it"):
        load(path)


def test_what_does_not_go_with_a_file(tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF")
    with pytest.raises(FloatlensError, match="family 'causal', not 'llada'"):
        load(path, family="llada")
    with pytest.raises(FloatlensError, match="revision= is for hub repositories"):
        load(path, revision="main")


@pytest.fixture(scope="module")
def small_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("gguf") / "model.gguf"
    write_gguf(path)
    return path


def test_a_small_file_is_loaded(small_file):
    model = load(small_file)
    assert (model.kind, model.num_layers, model.num_heads) == ("arm", 1, 2)
    assert model.tokenizer.convert_tokens_to_ids(["<s>", "!", "th"]) == [1, 3, 99]
    assert requirements(str(small_file)).tensors == 12


@pytest.mark.parametrize("at", [8, 16, 24, 32, 40])
def test_a_header_that_says_something_else_is_one_line(at, small_file, tmp_path):
    """Counts of tensors and entries, the length of the first key: beyond all bounds, and by a little."""
    for change in (b"\xff" * 8, b"\x00\x00\x40" + bytes(5)):
        raw = small_file.read_bytes()
        path = tmp_path / "model.gguf"
        path.write_bytes(raw[:at] + change + raw[at + 8 :])
        for see in (look, requirements, load):
            with pytest.raises(FloatlensError, match=r"model\.gguf: "):
                see(str(path))
