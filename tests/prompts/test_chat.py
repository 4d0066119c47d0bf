"""Chat templates: the message is found exactly where it stands in the rendered chat, or the template is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from floatlens import prompts
from floatlens.core.errors import FloatlensError
from floatlens.prompts import Prompt

LOOSE = """
name: loose
version: 1
closed_book: "{question}"
rag: "{documents}{question}"
document: "{text}"
between_documents: ""
"""
FRAMES = {
    "llada": (
        "<s><|start_header_id|>user<|end_header_id|>\n\n",
        "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
    ),
    "llama3": (
        "<s><|start_header_id|>system<|end_header_id|>\n\nYou are helpful. Today: 26 Jul 2024<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\n",
        "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
    ),
    "chatml": (
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n",
        "<|im_end|>\n<|im_start|>assistant\n",
    ),
}


def of(prompt: Prompt, region: str) -> str:
    spans = prompt.offsets[prompt.mask(region)]
    return prompt.text[spans[:, 0].min() : spans[:, 1].max()]


@pytest.mark.parametrize("chat", FRAMES)
@pytest.mark.parametrize("make", ["make_bpe", "make_metaspace"])
def test_the_chat_stands_around_the_same_message(request: pytest.FixtureRequest, make: str, chat: str) -> None:
    tokenizer = request.getfixturevalue(make)(chat)
    ask = {"question": "where is Paris?", "documents": ["Paris is in France."]}
    wrapped = prompts.build(tokenizer, **ask)
    bare = prompts.build(tokenizer, **ask, chat=False)
    before, after = FRAMES[chat]
    assert wrapped.text == before + bare.text + after
    assert (wrapped.chat, bare.chat) == (True, False)
    assert of(wrapped, "doc1").strip() == "Paris is in France."
    assert of(wrapped, "question").strip() == "where is Paris?"
    published = tokenizer.apply_chat_template(
        [{"role": "user", "content": bare.text}], add_generation_prompt=True, return_dict=False
    )
    assert wrapped.ids == list(published)


@pytest.mark.parametrize("chat", FRAMES)
def test_one_bos_at_most(make_bpe: Any, chat: str) -> None:
    tokenizer = make_bpe(chat)
    prompt = prompts.build(tokenizer, question="where?", documents=["There."])
    bos = [i for i, token in enumerate(prompt.ids) if token == tokenizer.bos_token_id]
    assert bos == ([] if chat == "chatml" else [0])
    assert prompt.mask("bos").nonzero()[0].tolist() == bos
    bare = prompts.build(tokenizer, question="where?", documents=["There."], chat=False)
    assert bare.ids.count(tokenizer.bos_token_id) == 1
    assert bare.mask("bos")[0]


def test_the_words_of_the_chat_template_are_other(make_bpe: Any) -> None:
    prompt = prompts.build(make_bpe("chatml", bos=False), question="assistant", documents=["system user"])
    assert prompt.text.count("system") == prompt.text.count("user") == 2
    assert prompt.text.count("assistant") == 3
    assert of(prompt, "doc1").strip() == "system user"
    assert of(prompt, "question").strip() == "assistant"
    rest = "".join(prompt.text[a:b] for a, b in prompt.offsets[prompt.mask("template")].tolist())
    assert (rest.count("system"), rest.count("user"), rest.count("assistant")) == (1, 1, 2)


@pytest.mark.parametrize("chat", FRAMES)
def test_spaces_at_the_ends_of_the_message_may_be_trimmed(make_bpe: Any, tmp_path: Path, chat: str) -> None:
    path = tmp_path / "loose.yaml"
    path.write_text(LOOSE, encoding="utf-8")
    tokenizer = make_bpe(chat)
    documents, question = ["\n\t  First one. ", "Second one."], " who? \n\n"
    prompt = prompts.build(tokenizer, question=question, documents=documents, template=path)
    whole = "\n\t  First one. Second one. who? \n\n"
    before, after = FRAMES[chat]
    assert prompt.text == before + (whole if chat == "chatml" else whole.strip()) + after
    assert of(prompt, "doc1").strip() == "First one."
    assert of(prompt, "doc2").strip() == "Second one."
    assert of(prompt, "question").strip() == "who?"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{% for m in messages %}{{ m.content | upper }}{% endfor %}", "0 times"),
        ("{% for m in messages %}{{ m.content }} {{ m.content }}{% endfor %}", "2 times"),
        ("{% for m in messages %}{{ m.content | replace('e', 'E') if 'Question' in m.content else m.content }}"
         "{% endfor %}", "rewrites the user message"),
        ("{{ raise_exception('give a system message') }}", "failed: give a system message"),
    ],
)  # fmt: skip
def test_chat_templates_that_cannot_be_followed(make_bpe: Any, source: str, message: str) -> None:
    tokenizer = make_bpe()
    tokenizer.chat_template = source
    with pytest.raises(FloatlensError, match=message):
        prompts.build(tokenizer, question="where?")
    assert prompts.build(tokenizer, question="where?", chat=False).chat is False
