"""Token classes from text pieces, for the ways in which tokenizers cut text."""

from __future__ import annotations

import pytest

from floatlens.prompts.words import CLASSES, LEXICAL, STRUCTURAL, classify

SHORT = {"s": "special", "p": "punctuation", "f": "function", "c": "content", "n": "number"}


def classes(pieces, special=()):
    return classify(pieces, list(range(len(pieces))), special)


def check(pairs, special=()):
    """`pairs` is a list of (piece, letter of its class)."""
    found = classes([piece for piece, _ in pairs], special)
    assert list(zip([p for p, _ in pairs], found, strict=True)) == [(p, SHORT[letter]) for p, letter in pairs]


def test_every_class_but_the_mask_is_structural_or_lexical():
    assert {*STRUCTURAL, *LEXICAL, "mask"} == set(CLASSES)
    assert not set(STRUCTURAL) & set(LEXICAL)
    assert STRUCTURAL == ("special", "punctuation", "function")
    assert LEXICAL == ("content", "number")


def test_whole_words():
    check([("The", "f"), ("tortoise", "c"), ("of", "f"), ("Flora", "c"), (",", "p"), ("is", "f"), ("42", "n")])


def test_wordpiece_pieces_take_the_class_of_their_word():
    """Here "there" + "##fore" is a function word; "the" + "##sis" is not, though "the" is one."""
    check([("[CLS]", "s"), ("there", "f"), ("##fore", "f"), (",", "p"), ("the", "c"), ("##sis", "c"), ("[SEP]", "s")])
    check([("19", "n"), ("##84", "n"), ("gl", "c"), ("##yc", "c"), ("##ol", "c"), (".", "p")])


def test_byte_pair_pieces_take_the_class_of_their_word():
    """Words begin with a space: " the" + "sis" is one word, " the" + " sister" two."""
    for space in (" ", "Ġ", "▁"):
        check([("A", "f"), (space + "the", "c"), ("sis", "c"), (space + "of", "f"), (space + "Ot", "c"), ("to", "c")])
        check([("In", "f"), (space + "the", "f"), (space + "sister", "c"), (".", "p"), (space + "It", "f")])


def test_a_line_break_ends_a_word():
    check([(" on", "f"), ("\n", "p"), ("the", "f"), (" way", "c"), ("\n\n", "p"), ("to", "f"), (" it", "f")])
    check([("Ġon", "f"), ("Ċ", "p"), ("the", "f"), ("ĊĊ", "p"), ("to", "f")])


def test_a_blank_line_does_not_join_whole_words():
    """A tokenizer of whole words has a piece for an empty line; it must not look like one whose words begin with a
    space, or all words between two marks would be one."""
    check([("Answer", "c"), ("the", "f"), ("question", "c"), (".", "p"), ("\n\n", "p"), ("The", "f"), ("pet", "c")])
    check([("of", "f"), ("the", "f"), ("  ", "p"), ("in", "f")])


def test_contractions():
    check([("it", "f"), ("'s", "f"), ("they", "f"), ("’re", "f")])


@pytest.mark.parametrize("space", [" ", "Ġ", "▁"])
@pytest.mark.parametrize("mark", ["'", "’"])
def test_contractions_of_spaced_pieces_are_the_word_before_the_apostrophe(space, mark):
    """Do, can, it, they and will are function words; a dog, an owner and "tis" are not, whatever follows."""
    for word, clitic in (("don", "t"), ("can", "t"), ("it", "s"), ("They", "re"), ("won", "t"), ("isn", "t")):
        check([(space + "so", "f"), (space + word, "f"), (mark + clitic, "f"), (space + "run", "c")])
    check([(space + "the", "f"), (space + "dog", "c"), (mark + "s", "c"), (space + "own", "c"), ("er", "c")])
    check([(space + "it", "f"), (mark, "f"), ("ll", "f"), (space + "rain", "c")])


@pytest.mark.parametrize("marker", ["[1]", "[10]", "(2)", "[3]:", " [4]", "Ġ[5]"])
def test_list_markers_of_one_token(marker):
    assert classes([marker]) == ["punctuation"]


def test_list_markers_of_several_tokens():
    check([("[", "p"), ("1", "p"), ("]", "p"), (" Title", "c"), (":", "p")])
    check([(" [", "p"), ("1", "p"), ("]", "p")])
    check([("\n\n[", "p"), ("7", "p"), ("]:", "p"), (" a", "f")])


def test_list_markers_whose_number_is_cut_into_digits():
    """Some tokenizers take digits one by one, so "[10]" is four tokens."""
    check([(" [", "p"), ("1", "p"), ("0", "p"), ("]", "p"), (" Title", "c")])
    check([("[", "p"), ("1", "p"), ("##0", "p"), ("]", "p"), ("title", "c")])


def test_numbers_that_are_no_markers():
    check([("[", "p"), ("12", "n"), (",", "p"), ("13", "n"), ("]", "p")])
    check([("1", "n"), ("]", "p")])
    check([("[", "p"), ("1", "n")])
    check([(" [", "p"), ("1", "n"), (" 2", "n"), ("]", "p")])


@pytest.mark.parametrize("text", ["7", "1984", "3.14", "1,000", "-5", "+2", "50%", "12:30", "2024-01-05", " 9", "▁9"])
def test_numbers(text):
    assert classes([text]) == ["number"]


@pytest.mark.parametrize("text", ["4th", "A4", "x2", "1e"])
def test_words_with_digits_are_content(text):
    assert classes([text]) == ["content"]


def test_digits_cut_by_a_byte_pair_tokenizer_are_one_number():
    check([(" in", "f"), (" 19", "n"), ("84", "n"), (".", "p")])
    check([(" the", "f"), (" 4", "c"), ("th", "c")])  # but a number that goes on as a word is a word


@pytest.mark.parametrize(
    "text",
    ["<bos>", "</s>", "<s>", "[CLS]", "[SEP]", "[PAD]", "[UNK]", "[MASK]", "<|endoftext|>", "<|mdm_mask|>", "<unk>"],
)
def test_special_tokens_are_known_by_their_look(text):
    assert classes([text]) == ["special"]


def test_special_tokens_are_known_by_their_id():
    assert classify(["a", "dog", "a"], [5, 6, 7], {7}) == ["function", "content", "special"]
    assert classify(["there", "##fore"], [5, 6], {6}) == ["function", "special"]


def test_chat_template_tokens():
    check(
        [
            ("<|startoftext|>", "s"),
            ("<|start_header_id|>", "s"),
            ("user", "c"),
            ("<|end_header_id|>", "s"),
            ("\n\n", "p"),
            ("Which", "f"),
            (" dog", "c"),
            ("?", "p"),
            ("<|eot_id|>", "s"),
        ]
    )
    check([("<|im_start|>", "s"), ("assistant", "c"), ("\n", "p"), ("The", "f"), (" end", "c"), ("<|im_end|>", "s")])


@pytest.mark.parametrize("text", ["\n", " ", "", "...", "—", "\t", "Ġ", "“", "?!"])
def test_whitespace_and_marks_are_punctuation(text):
    assert classes([text]) == ["punctuation"]


def test_upper_case_and_other_scripts():
    check([("THE", "f"), ("Straße", "c"), ("שלום", "c"), ("日本", "c"), ("،", "p")])


def test_every_token_gets_a_class():
    assert classes([]) == []
    pieces = ["", "##", "##a", "a", "##,", ",", "[", "]", "1"]
    assert all(kind in CLASSES for kind in classes(pieces))
