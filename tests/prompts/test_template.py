"""Template files: what they may hold, what is refused and how, and that data is never interpreted."""

from __future__ import annotations

from pathlib import Path

import pytest

from floatlens.core.errors import FloatlensError
from floatlens.prompts.template import Span, load_template, render, template_names
from floatlens.prompts.types import Document

GOOD = """
name: mine
version: 3
closed_book: "Q: {question} A:"
rag: "{documents} | Q: {question} {{json}} A:"
document: "<{i}> {title} = {text}"
document_untitled: "<{i}> {text}"
between_documents: " ; "
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_bundled_templates_are_named_after_their_files() -> None:
    assert "default" in template_names()
    for name in template_names():
        template = load_template(name)
        assert template.name == name
        assert template.label == f"{name}@{template.version}"


def test_the_default_template_makes_exactly_this_text() -> None:
    documents = [Document(title="Paris", text="A city."), Document(text="No title.")]
    rendered = render(load_template(), "Where?", documents)
    assert rendered.text == (
        "Answer the question in as few words as possible, using the documents below. Some of them may be irrelevant."
        "\n\n[1] Title: Paris\nA city.\n\n[2] No title.\n\nQuestion: Where?\nAnswer:"
    )
    closed = render(load_template(), "Where?", [])
    assert closed.text == "Answer the question in as few words as possible.\n\nQuestion: Where?\nAnswer:"


def test_spans_of_a_template_of_ones_own(tmp_path: Path) -> None:
    template = load_template(write(tmp_path, GOOD))
    rendered = render(template, "why", [Document(title="T", text="one"), Document(text="two")])
    assert rendered.text == "<1> T = one ; <2> two | Q: why {json} A:"
    assert rendered.spans == (Span("doc1", 4, 11), Span("doc2", 18, 21), Span("question", 27, 30))
    assert rendered.texts == ((8, 11), (18, 21))
    assert template.label.startswith("mine@3#")


def test_the_digest_of_a_file_of_ones_own_follows_its_content(tmp_path: Path) -> None:
    first = load_template(write(tmp_path, GOOD)).label
    assert load_template(str(write(tmp_path, GOOD))).label == first
    assert load_template(write(tmp_path, GOOD + "# changed\n")).label != first


def test_a_question_may_stand_before_and_after_the_documents(tmp_path: Path) -> None:
    source = GOOD.replace('"{documents} |', '"{question} {documents} |')
    rendered = render(load_template(write(tmp_path, source)), "why", [Document(text="two")])
    assert [span.region for span in rendered.spans] == ["question", "doc1", "question"]
    assert [rendered.text[span.start : span.stop] for span in rendered.spans] == ["why", "two", "why"]


@pytest.mark.parametrize("data", ["{question}", "{", "}}", "{0.__class__}", "{text!r:>9}", "%s {% x %}", "${i}"])
def test_data_is_never_interpreted(data: str) -> None:
    documents = [Document(title=data, text=data)]
    rendered = render(load_template(), data, documents)
    assert [rendered.text[span.start : span.stop] for span in rendered.spans] == [f"{data}\n{data}", data]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("{question} A:", "A:"), ["closed_book", "{question} is missing"]),
        (("{documents} |", "|"), ["rag", "{documents} is missing"]),
        (("= {text}", "= {body}"), ["document:", "unknown placeholder {body}", "{i}, {text}, {title}"]),
        (("Q: {question} A:", "Q: {question!r} A:"), ["closed_book", "unknown placeholder {question!r}"]),
        (("Q: {question} A:", "Q: {question:>9} A:"), ["closed_book", "unknown placeholder {question:>9}"]),
        (("<{i}> {text}", "<{i}> {title} {text}"), ["document_untitled", "unknown placeholder {title}"]),
        (("<{i}> {title} = {text}", "{text} {title} {text}"), ["document:", "{text} may be used only once"]),
        (("{{json}}", "{json"), ["rag", "written twice"]),
        (("version: 3", "version: three"), ["version", "expected int, got str"]),
        (("name: mine", "nme: mine"), ['unknown key "nme"', 'did you mean "name"?']),
        (("name: mine", ""), ['the key "name" is missing']),
        (('document_untitled: "<{i}> {text}"', ""), ["document_untitled is needed"]),
        (("name: mine", "name: ["), ["not valid YAML"]),
        ((GOOD, "just text"), ["expected keys"]),
    ],
)
def test_a_mistake_in_a_file_names_the_file_and_the_key(
    tmp_path: Path, change: tuple[str, str], words: list[str]
) -> None:
    assert change[0] in GOOD
    with pytest.raises(FloatlensError) as error:
        load_template(write(tmp_path, GOOD.replace(*change, 1)))
    message = str(error.value)
    assert "mine.yaml" in message
    assert "\n" not in message
    for word in words:
        assert word in message


def test_unknown_names_and_missing_files() -> None:
    with pytest.raises(FloatlensError, match='did you mean "default"'):
        load_template("defualt")
    with pytest.raises(FloatlensError, match=r"nowhere/mine\.yaml: No such file"):
        load_template("nowhere/mine.yaml")


def test_a_template_without_titles_needs_no_second_line(tmp_path: Path) -> None:
    source = GOOD.replace("{title} = ", "").replace('document_untitled: "<{i}> {text}"\n', "")
    template = load_template(write(tmp_path, source))
    assert render(template, "why", [Document(title="T", text="one")]).text == "<1> one | Q: why {json} A:"
