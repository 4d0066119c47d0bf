"""A passage with a hole: which tokens are cut out, what each kind of model gets, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from floatlens.core.errors import FloatlensError
from floatlens.prompts import Prompt, build, continuation, from_ids, from_passage, from_text

PASSAGE = "one two three four five six seven"
MASK = 50


def words(*, eos: bool = False, spaced: bool = False) -> PreTrainedTokenizerFast:
    """A token per word, or per word with the space before it; a BOS in front, an EOS behind if asked."""
    names = ["<s>", "</s>", "<unk>", *PASSAGE.split(), "Question:", "Answer:", "it", "?"]
    vocabulary = {name: i for i, name in enumerate(names)} | {"<m>": MASK}
    if spaced:
        vocabulary |= {f"Ġ{name}": len(names) + i for i, name in enumerate(names)}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = (
        pre_tokenizers.ByteLevel(add_prefix_space=False) if spaced else pre_tokenizers.WhitespaceSplit()
    )
    single = "<s> $A </s>" if eos else "<s> $A"
    backend.post_processor = processors.TemplateProcessing(single=single, special_tokens=[("<s>", 0), ("</s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def regions(prompt: Prompt) -> str:
    """One letter per token."""
    return "".join(prompt.regions[i][0] for i in prompt.region_of)


@pytest.mark.parametrize("eos", [False, True])
@pytest.mark.parametrize(
    ("hole", "start", "cut"),
    [
        (1, 4, [6]),
        (2, 3, [5, 6]),  # of an odd rest the larger part comes after
        (3, 3, [5, 6, 7]),
        (5, 2, [4, 5, 6, 7, 8]),
        ((8, 13), 3, [5]),
        ([9, 10], 3, [5]),  # inside a word: widened
        ((6, 15), 2, [4, 5, 6]),
        ((0, 33), 1, [3, 4, 5, 6, 7, 8, 9]),
    ],
    ids=repr,
)
def test_what_is_cut_out(hole: Any, start: int, cut: list[int], eos: bool) -> None:
    """Ids are 3 to 9 for the words after a BOS; an EOS that the tokenizer puts at the end is no part of the passage."""
    whole = [0, 3, 4, 5, 6, 7, 8, 9]
    masked, target = from_passage(words(eos=eos), PASSAGE, hole, mask_id=MASK)
    assert target == cut
    assert masked.ids == whole[:start] + [MASK] * len(cut) + whole[start + len(cut) :]
    assert regions(masked) == "b" + "q" * (start - 1) + "a" * len(cut) + "q" * (8 - start - len(cut))
    assert masked.hole is not None
    assert (masked.hole.start, masked.hole.tokens, masked.hole.after_seen) == (start, len(cut), True)
    before, again = from_passage(words(eos=eos), PASSAGE, hole)
    assert (before.ids, again) == (whole[:start], cut)
    assert regions(before) == "b" + "q" * (start - 1)
    assert before.hole is not None
    assert (before.hole.start, before.hole.tokens, before.hole.after_seen) == (start, len(cut), False)
    assert before.passage == masked.passage
    assert len(before.offsets) == len(before.evidence) == start
    assert not masked.evidence.any()


def test_one_digest_per_passage_and_hole() -> None:
    digests = [from_passage(words(), text, hole)[0].passage for text in (PASSAGE, PASSAGE + " six") for hole in (2, 3)]
    assert len(set(digests)) == 4
    assert digests[0] == from_passage(words(spaced=True), PASSAGE, 2, mask_id=MASK)[0].passage


@pytest.mark.parametrize(
    ("passage", "hole", "message"),
    [
        (PASSAGE, 6, "hole=6: the passage has 7 tokens, and text must be left on both sides; make it at most 5"),
        ("one", 1, "the passage has 1 tokens"),
        (PASSAGE, 0, "hole=0: expected at least 1 token"),
        (PASSAGE, -3, "hole=-3"),
        (PASSAGE, True, "hole=True: expected a number of tokens, or the characters"),
        (PASSAGE, None, "hole=None"),
        (PASSAGE, "2", "hole='2'"),
        (PASSAGE, (1, 2, 3), "expected a number of tokens, or the characters"),
        (PASSAGE, (1.0, 2.0), "expected a number of tokens"),
        (PASSAGE, (5, 5), r"hole=\[5, 5\]: expected 0 ≤ start < stop ≤ 33"),
        (PASSAGE, (5, 34), r"hole=\[5, 34\]"),
        (PASSAGE, (3, 4), "no token holds these characters; they may be spaces only"),
        ("", 1, "passage: expected a text"),
        (3, 1, "passage: expected a text"),
        ("one two <m> three", 1, "it holds the mask token itself"),
    ],
)
def test_mistakes(passage: Any, hole: Any, message: str) -> None:
    with pytest.raises(FloatlensError, match=message):
        from_passage(words(), passage, hole, mask_id=MASK)


# -- a text that continues a prompt -------------------------------------------------------------------------------


def test_after_a_question_a_text_begins_with_a_space() -> None:
    """After "Answer:" comes " four", as a model would write it; after a prompt of one's own what was given."""
    tokenizer = words(spaced=True)

    def pieces(prompt: Prompt, text: str) -> list[str]:
        return list(tokenizer.convert_ids_to_tokens(continuation(tokenizer, prompt, text)))

    question = build(tokenizer, question="it ?", chat=False)
    assert question.text.endswith("Answer:")
    assert pieces(question, "four five") == pieces(question, " four five") == ["Ġfour", "Ġfive"]
    written = from_text(tokenizer, "one two")
    assert pieces(written, " four") == ["Ġfour"]
    assert pieces(from_ids([3, 4]), "four five") == ["four", "Ġfive"]


def test_no_token_of_the_prompt_changes() -> None:
    """Where prompt and text would become one token, the text is tokenised by itself."""
    tokenizer = words(spaced=True)
    assert continuation(tokenizer, from_text(tokenizer, "one t"), "wo") == [2]  # not " two"
    assert continuation(words(eos=True), from_text(words(eos=True), "one two"), " three four") == [5, 6]


@pytest.mark.parametrize("text", ["", "  ", None, 3])
def test_a_text_is_not_empty(text: Any) -> None:
    with pytest.raises(FloatlensError, match="target: expected a text that is not empty"):
        continuation(words(), from_ids(np.array([3])), text)
