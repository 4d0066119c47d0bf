"""Small tokenizers of the kinds that real models use, built here so that no test needs a download."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

SENTENCES = [
    "Answer the question in as few words as possible, using the documents below. Some of them may be irrelevant.",
    "Question: what is the capital of France?\nAnswer: Paris is the capital of France, and Berlin of Germany.",
    "[1] Title: Paris\nParis lies on the Seine.\n\n[2] Title: Berlin\nBerlin lies on the Spree. [3] [4] [5]",
    "user assistant system You are a helpful assistant.",
]
CONTROL = [
    "<s>",
    "</s>",
    "<unk>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|mask|>",
]

# The shapes of the real ones, written anew: LLaDA trims and always ends with an assistant header, Llama 3 trims and
# ends with one when asked, ChatML adds a system message and does not trim.
LLADA_CHAT = (
    "{% for m in messages %}{{ bos_token if loop.first }}<|start_header_id|>{{ m['role'] }}<|end_header_id|>\n\n"
    "{{ m['content'] | trim }}<|eot_id|>{% endfor %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}"
)
LLAMA3_CHAT = (
    "{{ bos_token }}<|start_header_id|>system<|end_header_id|>\n\nYou are helpful. Today: 26 Jul 2024<|eot_id|>"
    "{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n{{ m.content | trim }}<|eot_id|>"
    "{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
CHATML = (
    "{% if messages[0].role != 'system' %}<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CHATS = {"none": None, "llada": LLADA_CHAT, "llama3": LLAMA3_CHAT, "chatml": CHATML}

Make = Callable[..., PreTrainedTokenizerFast]


def _wrap(backend: Tokenizer, chat: str = "none", **names: str) -> PreTrainedTokenizerFast:
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, **names)
    tokenizer.chat_template = CHATS[chat]
    return tokenizer


def words(chat: str = "none", *, vocabulary: str = "", eos: bool = False) -> PreTrainedTokenizerFast:
    """One token per whitespace-separated word, a BOS in front, and an EOS behind if asked."""
    known = [*CONTROL, *dict.fromkeys(vocabulary.split())]
    backend = Tokenizer(models.WordLevel({word: i for i, word in enumerate(known)}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.add_special_tokens(CONTROL)
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>" if eos else "<s> $A", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    return _wrap(backend, chat, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def byte_bpe(chat: str = "none", *, bos: bool = True, trim_offsets: bool = False) -> PreTrainedTokenizerFast:
    """Byte-level BPE as in GPT-2, Llama 3, Qwen and LLaDA: spaces are part of the token that follows them."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=480, special_tokens=CONTROL, initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator(SENTENCES, trainer)
    steps = [processors.ByteLevel(trim_offsets=trim_offsets)]
    if bos:
        steps.append(processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)]))
    backend.post_processor = processors.Sequence(steps)
    return _wrap(backend, chat, **({"bos_token": "<s>"} if bos else {}), eos_token="</s>")


def metaspace(chat: str = "none") -> PreTrainedTokenizerFast:
    """BPE over "▁" for spaces with byte fallback, as in Llama 2 and Mistral."""
    backend = Tokenizer(models.BPE(unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=CONTROL, show_progress=False)
    backend.train_from_iterator([line for text in SENTENCES for line in text.splitlines()], trainer)
    learned = json.loads(backend.to_str())["model"]
    vocabulary = {**learned["vocab"], **{f"<0x{byte:02X}>": len(learned["vocab"]) + byte for byte in range(256)}}
    merges = [tuple(merge) for merge in learned["merges"]]
    backend.model = models.BPE(vocab=vocabulary, merges=merges, unk_token="<unk>", byte_fallback=True)
    backend.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="first")])
    backend.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return _wrap(backend, chat, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def wordpiece() -> PreTrainedTokenizerFast:
    """WordPiece in lower case without accents between [CLS] and [SEP], as in BERT."""
    special = ["[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    backend = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True, strip_accents=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.train_from_iterator(
        SENTENCES, trainers.WordPieceTrainer(vocab_size=300, special_tokens=special, show_progress=False)
    )
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return _wrap(backend, cls_token="[CLS]", sep_token="[SEP]", unk_token="[UNK]", mask_token="[MASK]")


@pytest.fixture(scope="session")
def make_words() -> Make:
    return words


@pytest.fixture(scope="session")
def make_bpe() -> Make:
    return byte_bpe


@pytest.fixture(scope="session")
def make_metaspace() -> Make:
    return metaspace


@pytest.fixture(scope="session")
def make_wordpiece() -> Make:
    return wordpiece


KINDS: dict[str, Callable[[], PreTrainedTokenizerFast]] = {
    "words": words,
    "words-llada": lambda: words("llada"),
    "bpe": byte_bpe,
    "bpe-trimmed": lambda: byte_bpe(trim_offsets=True),
    "bpe-llada": lambda: byte_bpe("llada"),
    "bpe-llama3": lambda: byte_bpe("llama3", trim_offsets=True),
    "bpe-chatml": lambda: byte_bpe("chatml", bos=False),
    "metaspace": metaspace,
    "metaspace-llama3": lambda: metaspace("llama3"),
    "wordpiece": wordpiece,
}


@pytest.fixture(scope="session", params=list(KINDS))
def tokenizer(request: pytest.FixtureRequest) -> PreTrainedTokenizerFast:
    """Every kind in turn."""
    return KINDS[request.param]()
