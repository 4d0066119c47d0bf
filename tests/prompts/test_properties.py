"""For any texts at all: every document is spelled by its own tokens, and documents stand apart and in order."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from floatlens import prompts
from floatlens.prompts import Document

TEXT = st.text(max_size=40) | st.text(alphabet="ab {}[]\n\t.1:é😀ש", max_size=40)
DOCUMENT = st.builds(Document, title=TEXT, text=TEXT.filter(lambda text: bool(text.strip())))
QUICK = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def squeeze(text: str) -> str:
    return "".join(text.split())


def own(document: Document) -> str:
    return squeeze(document.title) + squeeze(document.text)


@QUICK
@given(documents=st.lists(DOCUMENT, min_size=1, max_size=4), question=TEXT.filter(lambda text: bool(text.strip())))
def test_offsets_spell_every_document(tokenizer: Any, documents: list[Document], question: str) -> None:
    prompt = prompts.build(tokenizer, question=question, documents=documents)
    # Tokenizers drop characters (control characters, in BERT's case): a document is what is left of it.
    seen = np.zeros(len(prompt.text), dtype=bool)
    for start, stop in prompt.offsets.tolist():
        seen[start:stop] = True
    spoken = "".join(char for char, kept in zip(prompt.text, seen, strict=True) if kept)
    last = -1
    for i, document in enumerate(documents, start=1):
        tokens = np.flatnonzero(prompt.mask(f"doc{i}"))
        if not len(tokens):
            continue
        assert tokens[0] > last
        last = int(tokens[-1])
        places = sorted({place for a, b in prompt.offsets[tokens].tolist() for place in range(a, b)})
        spelled = squeeze("".join(prompt.text[place] for place in places))
        if squeeze(spoken) == squeeze(prompt.text):
            assert spelled == own(document)
            assert tokens[-1] - tokens[0] + 1 == len(tokens)  # one run
        else:
            rest = iter(own(document))
            assert all(char in rest for char in spelled)


@QUICK
@given(documents=st.lists(DOCUMENT, min_size=1, max_size=4), data=st.data())
def test_bytes_decode_to_the_document(make_bpe: Any, documents: list[Document], data: st.DataObject) -> None:
    tokenizer = _bpe(make_bpe, data.draw(st.sampled_from(["none", "llada", "llama3", "chatml"])))
    prompt = prompts.build(tokenizer, question="who?", documents=documents)
    for i, document in enumerate(documents, start=1):
        ids = [token for token, inside in zip(prompt.ids, prompt.mask(f"doc{i}"), strict=True) if inside]
        assert squeeze(tokenizer.decode(ids, clean_up_tokenization_spaces=False)) == own(document)


@QUICK
@given(documents=st.lists(DOCUMENT, min_size=1, max_size=3), room=st.integers(60, 140))
def test_a_cut_prompt_keeps_the_start_of_the_documents(make_bpe: Any, documents: list[Document], room: int) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        prompt = prompts.build(_bpe(make_bpe, "none"), question="who?", documents=documents, max_tokens=room)
    assert len(prompt) <= room
    assert bool(caught) == (prompt.dropped is not None)
    for i, (kept, given_) in enumerate(zip(prompt.documents, documents, strict=False), start=1):
        assert given_.text.startswith(kept.text)
        assert kept.text == given_.text or i == len(prompt.documents)


_MADE: dict[str, Any] = {}


def _bpe(make: Any, chat: str) -> Any:
    if chat not in _MADE:
        _MADE[chat] = make(chat)
    return _MADE[chat]
