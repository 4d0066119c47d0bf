"""The tokenizer of the scale models: every word of the world and of the prompt template is one token.

Words it has never seen are spelt in single characters, so any text in ASCII can be read; other characters become <unk>.
Spaces carry nothing; line breaks are tokens, because prompts are laid out with them. No chat template.
"""

from __future__ import annotations

import re
import string
from typing import TYPE_CHECKING

from floatlens.prompts import load_template
from floatlens.subjects.scale import wording
from floatlens.subjects.scale.lexicon import FIRST_NAMES, LAST_NAMES, PLACES, VALUES

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

__all__ = ["BOS", "EOS", "MASK", "PAD", "SPECIAL", "make_tokenizer", "special_id", "vocabulary", "wrapped_tokenizer"]

PAD, UNK, BOS, EOS, MASK = "<pad>", "<unk>", "<bos>", "<eos>", "<|mask|>"
SPECIAL = (PAD, UNK, BOS, EOS, MASK)

_MARKERS = tuple(f"[{i}]" for i in range(1, 21))
_PIECES = re.compile(r"\[\d+\]|\n+|\w+|[^\w\s]")
_TEMPLATE = "default"


def vocabulary() -> list[str]:
    """Every token in the order of its id: special ones, layout, characters, then words."""
    characters = sorted(string.ascii_letters + string.digits + string.punctuation)
    template = load_template(_TEMPLATE)
    layouts = (template.closed_book, template.rag, template.document, template.document_untitled)
    texts = [literal for layout in layouts for literal, _ in layout] + [
        re.sub(r"\{\w\}", " ", t) for t in wording.words()
    ]
    texts += [*FIRST_NAMES, *LAST_NAMES, *PLACES, *(value for values in VALUES.values() for value in values)]
    words = dict.fromkeys(piece for text in texts for piece in _PIECES.findall(text))
    layout = ["\n", "\n\n", *_MARKERS]
    head = [*SPECIAL, *layout, *characters, *(f"##{c}" for c in characters)]
    return list(dict.fromkeys([*head, *sorted(words)]))


def make_tokenizer() -> Tokenizer:
    """The tokenizer itself, with offsets; it puts a BOS before a text and nothing after it."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors

    ids = {token: number for number, token in enumerate(vocabulary())}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token=UNK, max_input_chars_per_word=100))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\[\d+\]|\n\n|\n|\w+|[^\w\s]"), "isolated"),
            pre_tokenizers.Split(Regex(r"[^\S\n]+"), "removed"),
        ]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", pair=f"{BOS} $A $B", special_tokens=[(BOS, ids[BOS])]
    )
    tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    tokenizer.add_special_tokens(list(SPECIAL))
    return tokenizer


def special_id(tokenizer: Tokenizer, token: str) -> int:
    """The id of one of `SPECIAL`."""
    found = tokenizer.token_to_id(token)
    assert found is not None, token
    return int(found)


def wrapped_tokenizer() -> PreTrainedTokenizerFast:
    """The same for transformers, ready to be saved beside weights."""
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=make_tokenizer(),
        pad_token=PAD,
        unk_token=UNK,
        bos_token=BOS,
        eos_token=EOS,
        mask_token=MASK,
        clean_up_tokenization_spaces=False,
    )
