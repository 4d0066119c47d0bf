"""Tokenizers without remote code, and where the mask token comes from."""

from __future__ import annotations

import json

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from floatlens.core.errors import FloatlensError, FloatlensWarning
from floatlens.models import load

WORDS = ["<unk>", "<s>", "</s>", "the", "cat", "sat", "<|mask|>", "<|mdm_mask|>", "[MASK]"]
REMOTE = {"AutoTokenizer": ["tokenization_own.OwnTokenizer", None]}


def _write(folder, words=WORDS, **config):
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"))
    values = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"} | config
    (folder / "tokenizer_config.json").write_text(json.dumps(values))


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("name", ["llada", "dream", "llama", "a2d-qwen3", "bert", "llada-moe"])
@pytest.mark.parametrize("own_code", [False, True])
def test_a_tokenizer_file_is_read_whatever_class_it_claims(name, own_code, copied):
    folder = copied(name, auto_map={"AutoConfig": "configuration_own.OwnConfig"})
    extra = {"tokenizer_class": "OwnTokenizer", "auto_map": REMOTE} if own_code else {}
    _write(folder, chat_template="{{ bos_token }}{{ messages[0].content }}", **extra)
    (folder / "tokenization_own.py").write_text("raise SystemExit('remote code was run')")
    model = load(folder)
    assert model.tokenizer("the cat sat")["input_ids"] == [3, 4, 5]
    assert (model.tokenizer.bos_token_id, model.tokenizer.eos_token_id) == (1, 2)
    chat = [{"role": "user", "content": " the cat"}]
    assert model.tokenizer.apply_chat_template(chat, tokenize=False) == "<s> the cat"


def test_no_tokenizer_files_no_tokenizer(any_name, tiny_model):
    assert tiny_model(any_name).tokenizer is None


def test_special_tokens_of_the_tokenizer_fill_what_the_configuration_leaves_out(copied):
    folder = copied("llada", eos_token_id=None, pad_token_id=None)
    _write(folder, pad_token="</s>")
    model = load(folder)
    assert (model.bos_id, model.eos_ids, model.pad_id) == (1, (2,), 2)


@pytest.mark.parametrize(
    ("words", "config", "mask"),
    [
        (WORDS, {"mask_token": "[MASK]"}, 8),
        (WORDS, {}, 6),
        ([word for word in WORDS if word != "<|mask|>"], {}, 6),  # then <|mdm_mask|> has moved to 6
        ([*WORDS[:6], "a", "b", "<|mdm_mask|>"], {}, 8),
    ],
)
@pytest.mark.parametrize("name", ["llada", "a2d-llama", "bert"])
def test_the_mask_token_of_the_tokenizer(name, words, config, mask, copied):
    folder = copied(name, mask_token_id=None)
    _write(folder, words, **config)
    assert load(folder).mask_id == mask


def test_the_mask_token_of_the_configuration_comes_first(copied):
    folder = copied("llada", mask_token_id=77)
    _write(folder, mask_token="[MASK]")
    assert load(folder).mask_id == 77


@pytest.mark.parametrize("name", ["llada", "dream", "bert"])
def test_no_mask_token_anywhere(name, copied):
    folder = copied(name, mask_token_id=None)
    _write(folder, WORDS[:6])
    with pytest.raises(FloatlensError, match=r"no mask token: .* the tokenizer has no mask token; give mask_id= or"):
        load(folder)


def _byte_pairs(folder):
    """Dream's files: a byte-level vocabulary and merges, no tokenizer.json, and a class of its own."""
    letters = ["l", "o", "w", "e", "r", "Ġ", "1", "2", "!"]
    vocabulary = [*letters, "lo", "low", "er", "Ġlow", "12"]
    (folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(vocabulary)}))
    (folder / "merges.txt").write_text("#version: 0.2\nl o\nlo w\ne r\nĠ low\n1 2\n")
    added = {
        str(20 + i): {"content": content, "special": True, "lstrip": False, "rstrip": False, "normalized": False}
        for i, content in enumerate(["<|endoftext|>", "<|mask|>"])
    }
    config = {"tokenizer_class": "DreamTokenizer", "auto_map": REMOTE, "added_tokens_decoder": added}
    config |= {"mask_token": "<|mask|>", "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


@pytest.mark.usefixtures("no_network")
def test_dream_ships_a_vocabulary_and_merges(copied):
    folder = copied("dream", mask_token_id=None)
    _byte_pairs(folder)
    tokenizer = load(folder).tokenizer
    # "lower low12!": low+er, then a space belongs to the next word, and digits are cut one by one before merging
    tokens = tokenizer.convert_ids_to_tokens(tokenizer("lower low12!")["input_ids"])
    assert tokens == ["low", "er", "Ġlow", "1", "2", "!"]
    assert tokenizer.decode(tokenizer("lower low12!")["input_ids"]) == "lower low12!"
    assert tokenizer("low<|mask|>")["input_ids"][-1] == tokenizer.mask_token_id == load(folder).mask_id


def test_a_tokenizer_that_needs_remote_code_is_left_out_with_a_warning(copied):
    folder = copied("llada")
    _byte_pairs(folder)
    with pytest.warns(FloatlensWarning, match="its tokenizer needs code from the checkpoint"):
        model = load(folder)
    assert model.tokenizer is None


@pytest.mark.parametrize("length", ["many", {"max": 4}, True, [512]])
def test_a_length_that_is_no_number(length, copied):
    folder = copied("llada")
    _write(folder, model_max_length=length)
    with pytest.raises(FloatlensError, match=r"`model_max_length` of its tokenizer is .*; give a number"):
        load(folder)


@pytest.mark.parametrize("text", ["{", '{"model": {"type": "Nonsense"}}'])
@pytest.mark.parametrize("name", ["llada", "llama"])
def test_a_damaged_tokenizer(name, text, copied):
    folder = copied(name)
    (folder / "tokenizer.json").write_text(text)
    with pytest.raises(FloatlensError, match="its tokenizer cannot be read"):
        load(folder)
