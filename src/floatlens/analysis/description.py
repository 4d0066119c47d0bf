"""Words of an analysis as data, for tables, figures, report and command line: question, reading, definitions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

__all__ = ["Variable", "Words", "in_words_of"]


def in_words_of(text: str, measure: str) -> str:
    """A text about attention for another measure: `Attention absorbed` as `Contribution absorbed`."""
    return re.sub(r"\b[Aa]ttention\b", lambda found: measure.capitalize() if found[0][0] == "A" else measure, text)


@dataclass(frozen=True)
class Variable:
    """One number of an analysis: a short label (of an axis or a row), its definition in one sentence, and its unit."""

    label: str
    definition: str
    unit: str = ""

    @property
    def axis(self) -> str:
        """Label and unit, as an axis carries them."""
        return f"{self.label} ({self.unit})" if self.unit else self.label


@dataclass(frozen=True)
class Words:
    """`title` is a noun phrase, `question` what the analysis answers, `reading` how its figure is read, `method` what
    all its numbers have in common. `aliases` are variables that share the definition of another."""

    title: str
    question: str = ""
    reading: str = ""
    method: str = ""
    variables: Mapping[str, Variable] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)

    @property
    def heading(self) -> str:
        """The heading of a section: `Drift: do anchors stay where they are?`"""
        return f"{self.title}: {self.question[:1].lower()}{self.question[1:]}" if self.question else self.title

    def variable(self, name: str) -> Variable:
        """The words of a variable; one that is not described is called by its name."""
        return self.variables.get(self.aliases.get(name, name)) or Variable(name.replace("_", " "), "")

    def by(self, measure: str | None) -> Words:
        """The same words for another measure than attention: where they say attention, they name it."""
        if measure is None or measure == "attention":
            return self

        def named(text: str) -> str:
            return in_words_of(text, measure)

        variables = {
            name: replace(one, label=named(one.label), definition=named(one.definition))
            for name, one in self.variables.items()
        }
        return replace(
            self,
            title=named(self.title),
            question=named(self.question),
            reading=named(self.reading),
            method=named(self.method),
            variables=variables,
        )

    def text(self) -> str:
        """The definitions as plain text, for docstrings."""
        width = max((len(name) for name in self.variables), default=0)
        units = {name: f" [{one.unit}]" if one.unit else "" for name, one in self.variables.items()}
        lines = [f"{name:{width}}  {one.definition}{units[name]}" for name, one in self.variables.items()]
        return "\n".join([self.method, *([""] if self.method and lines else []), *lines]).strip()
