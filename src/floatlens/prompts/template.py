"""Prompt templates: named, versioned YAML files, and the text they render with the spans of its parts.

Only the template's own strings are parsed for placeholders. Questions and documents are inserted verbatim, so braces in
data have no meaning.
"""

from __future__ import annotations

import hashlib
import string
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, TypeAlias

from floatlens.core.borders import check_values, read_bounded
from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.core.yaml_border import MOST_BYTES, load_yaml
from floatlens.prompts.types import Document

__all__ = ["Rendered", "Span", "Template", "load_template", "render", "template_names"]

Piece: TypeAlias = tuple[str, str | None]
"""A literal and the placeholder that follows it (None at the end)."""

_REQUIRED = ("name", "version", "closed_book", "rag", "document")
_OPTIONAL = ("document_untitled", "between_documents", "description")
# For each string: the placeholders it may hold, those it must hold, and those that may stand in it once only.
_PLACEHOLDERS = {
    "closed_book": ({"question"}, {"question"}, set[str]()),
    "rag": ({"question", "documents"}, {"question", "documents"}, {"documents"}),
    "document": ({"i", "title", "text"}, {"text"}, {"title", "text"}),
    "document_untitled": ({"i", "text"}, {"text"}, {"text"}),
}


@dataclass(frozen=True)
class Template:
    """A parsed template. `label` is what a trace records: name and version, and a digest if the file is the user's."""

    name: str
    version: int
    label: str
    closed_book: tuple[Piece, ...]
    rag: tuple[Piece, ...]
    document: tuple[Piece, ...]
    document_untitled: tuple[Piece, ...]
    between_documents: str


@dataclass(frozen=True)
class Span:
    """Characters start..stop of a text belong to a region."""

    region: str
    start: int
    stop: int


@dataclass(frozen=True)
class Rendered:
    """A text, its regions in order (the rest is template text), and the span of each document's own text.

    A document's span covers its title and text; its number and other template words around it do not belong to it.
    """

    text: str
    spans: tuple[Span, ...]
    texts: tuple[tuple[int, int], ...] = ()


def template_names() -> list[str]:
    """The bundled templates."""
    folder = resources.files("floatlens.prompts") / "templates"
    return sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml"))


def load_template(ref: str | Path | Template = "default") -> Template:
    """A template by name, or from the path of a .yaml file of your own. Example: `load_template("./mine.yaml")`"""
    if isinstance(ref, Template):
        return ref
    if isinstance(ref, str) and not ref.endswith((".yaml", ".yml")) and "/" not in ref and "\\" not in ref:
        return _bundled(ref)
    path = Path(ref)
    try:
        raw = read_bounded(path, MOST_BYTES)
    except FloatlensError as error:
        raise FloatlensError(f"template {error}; give a name or the path of a .yaml") from None
    return _parse(raw, str(path), digest=True)


@cache
def _bundled(name: str) -> Template:
    names = template_names()
    if name not in names:
        raise FloatlensError(
            f'no prompt template "{name}"{did_you_mean(name, names)} (or give the path of a .yaml file)'
        )
    file = resources.files("floatlens.prompts") / "templates" / f"{name}.yaml"
    return _parse(file.read_bytes(), f"{name}.yaml", digest=False)


def _parse(raw: bytes, where: str, *, digest: bool) -> Template:
    fields = _fields(raw, where)
    pieces = {key: _pieces(str(fields[key]), f"template {where}, {key}", key) for key in _PLACEHOLDERS if key in fields}
    if "document_untitled" not in pieces:
        if any(slot == "title" for _, slot in pieces["document"]):
            raise FloatlensError(f"template {where}: document uses {{title}}, so document_untitled is needed as well")
        pieces["document_untitled"] = pieces["document"]
    label = f"{fields['name']}@{fields['version']}"
    if digest:
        label += f"#{hashlib.sha256(raw).hexdigest()[:8]}"
    return Template(
        name=fields["name"],
        version=fields["version"],
        label=label,
        between_documents=fields.get("between_documents", "\n\n"),
        **pieces,
    )


def _fields(raw: bytes, where: str) -> dict[str, Any]:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise FloatlensError(f"template {where}: not a text file in UTF-8") from None
    fields = load_yaml(text, f"template {where}")
    check_values(fields, f"template {where}")
    if not isinstance(fields, dict):
        raise FloatlensError(f"template {where}: expected keys such as name, version, rag; got {type(fields).__name__}")
    for key in fields:
        if key not in _REQUIRED + _OPTIONAL:
            raise FloatlensError(
                f'template {where}: unknown key "{key}"{did_you_mean(str(key), _REQUIRED + _OPTIONAL)}'
            )
    for key in _REQUIRED:
        if key not in fields:
            raise FloatlensError(f'template {where}: the key "{key}" is missing')
    for key, value in fields.items():
        wanted = int if key == "version" else str
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise FloatlensError(f"template {where}, {key}: expected {wanted.__name__}, got {type(value).__name__}")
    return fields


def _pieces(source: str, where: str, key: str) -> tuple[Piece, ...]:
    allowed, needed, once = _PLACEHOLDERS[key]
    try:
        parsed = list(string.Formatter().parse(source))
    except ValueError as error:
        raise FloatlensError(f"{where}: {error}; a literal brace is written twice") from None
    slots = [slot for _, slot, _, _ in parsed if slot is not None]
    for _, slot, spec, conversion in parsed:
        if slot is not None and (slot not in allowed or spec or conversion):
            shown = slot + (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "")
            names = ", ".join(f"{{{name}}}" for name in sorted(allowed))
            raise FloatlensError(f"{where}: unknown placeholder {{{shown}}}; known: {names}")
    for slot in sorted(needed):
        if slot not in slots:
            raise FloatlensError(f"{where}: the placeholder {{{slot}}} is missing")
    for slot in sorted(once):
        if slots.count(slot) > 1:
            raise FloatlensError(f"{where}: the placeholder {{{slot}}} may be used only once")
    return tuple((literal, slot) for literal, slot, _, _ in parsed)


def render(template: Template, question: str, documents: Sequence[Document]) -> Rendered:
    """The text of a prompt and its regions; the `closed_book` layout without documents, `rag` with them."""
    whole = ""
    spans: list[Span] = []
    texts: list[tuple[int, int]] = []

    def write(piece: str) -> tuple[int, int]:
        nonlocal whole
        whole += piece
        return len(whole) - len(piece), len(whole)

    for literal, slot in template.rag if documents else template.closed_book:
        write(literal)
        if slot == "question":
            spans.append(Span("question", *write(question)))
        elif slot == "documents":
            for span, text in _write_documents(write, template, documents):
                spans.append(span)
                texts.append(text)
    return Rendered(whole, tuple(spans), tuple(texts))


def _write_documents(
    write: Callable[[str], tuple[int, int]], template: Template, documents: Sequence[Document]
) -> Iterator[tuple[Span, tuple[int, int]]]:
    for i, document in enumerate(documents, start=1):
        if i > 1:
            write(template.between_documents)
        own: dict[str, tuple[int, int]] = {}
        values = {"i": str(i), "title": document.title, "text": document.text}
        for literal, slot in template.document if document.title.strip() else template.document_untitled:
            write(literal)
            if slot is not None:
                own[slot] = write(values[slot])
        data = [own[slot] for slot in ("title", "text") if slot in own]
        yield Span(f"doc{i}", min(start for start, _ in data), max(stop for _, stop in data)), own["text"]
