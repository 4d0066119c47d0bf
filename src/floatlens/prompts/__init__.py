"""Prompts: template + question + documents → token ids and the region of every token."""

from floatlens.prompts.builder import build, from_ids, from_text
from floatlens.prompts.encode import answer_text, continuation, token_pieces
from floatlens.prompts.hole import HoleLike, check_hole, from_passage
from floatlens.prompts.template import Template, load_template, template_names
from floatlens.prompts.types import (
    Document,
    DocumentLike,
    Dropped,
    EvidenceKind,
    Hole,
    Prompt,
    as_documents,
    region_names,
)
from floatlens.prompts.words import structural_tokens

__all__ = [
    "Document",
    "DocumentLike",
    "Dropped",
    "EvidenceKind",
    "Hole",
    "HoleLike",
    "Prompt",
    "Template",
    "answer_text",
    "as_documents",
    "build",
    "check_hole",
    "continuation",
    "from_ids",
    "from_passage",
    "from_text",
    "load_template",
    "region_names",
    "structural_tokens",
    "template_names",
    "token_pieces",
]
