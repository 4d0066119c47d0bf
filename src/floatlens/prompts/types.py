"""`PromptConfig`, `Document`, `Prompt`, and `Dropped` for what did not fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from floatlens.core.config import Config
from floatlens.core.errors import FloatlensError
from floatlens.core.validation import validate

__all__ = [
    "Document",
    "DocumentLike",
    "Dropped",
    "EvidenceKind",
    "GoldFate",
    "Hole",
    "Prompt",
    "PromptConfig",
    "as_documents",
    "region_names",
]

EvidenceKind: TypeAlias = Literal["answer", "passage", "none"]
GoldFate: TypeAlias = Literal["kept", "shortened", "dropped", "none"]


class PromptConfig(Config):
    """How questions and documents become prompts. Example: `PromptConfig(template="mine.yaml", chat=False)`"""

    template: str = Field("default", description="name of a template, or path of a .yaml file")
    chat: bool | None = Field(None, description="as a chat message; None: if the tokenizer has a chat template")


class Document(BaseModel):
    """One passage. Example: `Document(title="Paris", text="Paris is the capital of France.", is_gold=True)`"""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    title: str = ""
    text: str
    is_gold: bool = False


DocumentLike: TypeAlias = Document | str | Mapping[str, Any]


def as_documents(items: Iterable[DocumentLike]) -> tuple[Document, ...]:
    """Documents from documents, bare texts or mappings with the fields of `Document`; a mistake names its position."""
    if isinstance(items, str | Mapping | Document):
        raise FloatlensError("documents: expected a list of documents, got a single one; put it in a list")
    return tuple(_as_document(item, f"documents[{i}]") for i, item in enumerate(items))


def _as_document(item: DocumentLike, where: str) -> Document:
    if isinstance(item, str):
        item = Document(text=item)
    elif isinstance(item, Mapping):
        item = validate(Document, item, where)
    elif not isinstance(item, Document):
        raise FloatlensError(f"{where}: expected a Document, a text or a mapping, got {type(item).__name__}")
    if not item.text.strip():
        raise FloatlensError(f"{where}: the text is empty; leave the document out or give it a text")
    return item


@dataclass(frozen=True)
class Dropped:
    """What was cut to make a prompt fit: whole documents from the end, then the end of the last remaining one.

    `tokens` is the difference between the full prompt and this one; `shortened` is the index of a document cut inside.
    """

    documents: int
    of: int
    tokens: int
    shortened: int | None
    gold: GoldFate


@dataclass(frozen=True)
class Hole:
    """The hole of a passage: `tokens` tokens from `start` on, and whether the model sees the text after it."""

    start: int
    tokens: int
    after_seen: bool


@dataclass(frozen=True, eq=False)
class Prompt:
    """A built prompt: ids, and for every token the region it belongs to.

    `regions` lists the names: bos, question, doc1 .. docN, answer, template. `region_of` (token) indexes into it. No
    prompt token is "answer", except the masks of a `hole`: the region is for tokens still to be written. `offsets`
    (token, 2) are character positions in `text`. `evidence` (token) marks the evidence; `evidence_kind` says how it was
    found. `documents` are those in the prompt, after any cut, and `gold` is the first gold one of them.

    Example: `prompt.ids`, `prompt.mask("doc3").sum()`, `prompt.gold_region  # "doc3"`
    """

    ids: list[int]
    regions: list[str]
    region_of: NDArray[np.int16]
    text: str
    offsets: NDArray[np.int64]
    evidence: NDArray[np.bool_]
    evidence_kind: EvidenceKind = "none"
    question: str | None = None
    documents: tuple[Document, ...] = ()
    gold: int | None = None
    template: str | None = None
    chat: bool = False
    dropped: Dropped | None = None
    hole: Hole | None = None
    passage: str | None = None
    """Digest of a passage with its hole, the same for every model."""

    def __post_init__(self) -> None:
        for array in (self.region_of, self.offsets, self.evidence):
            array.setflags(write=False)

    def __len__(self) -> int:
        return len(self.ids)

    def index(self, region: str) -> int:
        """The index of a region in `region_of`."""
        if region not in self.regions:
            raise FloatlensError(f"this prompt has no region {region!r}; its regions: {', '.join(self.regions)}")
        return self.regions.index(region)

    def mask(self, region: str) -> NDArray[np.bool_]:
        """(token) true where a token belongs to the region."""
        return np.asarray(self.region_of == self.index(region))

    @property
    def golds(self) -> tuple[int, ...]:
        """Every gold document left in the prompt, by 0-based index."""
        return tuple(i for i, document in enumerate(self.documents) if document.is_gold)

    @property
    def gold_region(self) -> str | None:
        """The region name of `gold`, such as "doc3"."""
        return None if self.gold is None else f"doc{self.gold + 1}"


def region_names(documents: int) -> list[str]:
    """bos, question, doc1 .. docN, answer, template: the same order for every prompt."""
    return ["bos", "question", *(f"doc{i}" for i in range(1, documents + 1)), "answer", "template"]
