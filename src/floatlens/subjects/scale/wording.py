"""How facts and questions are worded: several sentences and questions for each attribute, and phrases for a second hop.

`{s}` is the subject, `{v}` the value. In a question `{s}` may be a name or a phrase that leads to one ("the spouse of
Ada Frost"), so one list of questions serves one hop and two. Nothing is drawn at random here.
"""

from __future__ import annotations

__all__ = ["LINKS", "PERSON", "PLACE", "QUESTIONS", "SENTENCES", "words"]

PERSON = ("city", "birthplace", "profession", "employer", "instrument", "pet", "spouse")
"""Attributes of a person."""
PLACE = ("region", "river", "landmark")
"""Attributes of a place."""

SENTENCES: dict[str, tuple[str, ...]] = {
    "city": (
        "{s} lives in {v}.",
        "The home of {s} is in {v}.",
        "Today {s} has a house in {v}.",
        "{v} is where {s} lives.",
    ),
    "birthplace": (
        "{s} was born in {v}.",
        "The birthplace of {s} is {v}.",
        "{s} came into the world in {v}.",
        "{v} is where {s} was born.",
    ),
    "profession": (
        "{s} works as a {v}.",
        "The profession of {s} is {v}.",
        "By trade {s} is a {v}.",
        "{s} earns a living as a {v}.",
    ),
    "employer": (
        "{s} works for {v}.",
        "The employer of {s} is {v}.",
        "{s} has a job at {v}.",
        "{v} pays the wages of {s}.",
    ),
    "instrument": (
        "{s} plays the {v}.",
        "The instrument of {s} is the {v}.",
        "In the evening {s} plays the {v}.",
        "The {v} is what {s} plays.",
    ),
    "pet": ("{s} has a {v}.", "The pet of {s} is a {v}.", "{s} keeps a {v} at home.", "A {v} belongs to {s}."),
    "spouse": (
        "{s} is married to {v}.",
        "The spouse of {s} is {v}.",
        "{s} has long been married to {v}.",
        "The wedding of {s} and {v} was small.",
    ),
    "region": (
        "{s} lies in {v}.",
        "The region of {s} is {v}.",
        "{s} is a town in {v}.",
        "{v} is the region around {s}.",
    ),
    "river": (
        "The river in {s} is the {v}.",
        "The {v} flows through {s}.",
        "{s} stands on the river {v}.",
        "The {v} is the river of {s}.",
    ),
    "landmark": (
        "{s} is known for its {v}.",
        "The landmark of {s} is the {v}.",
        "Visitors to {s} see the {v}.",
        "The {v} stands in {s}.",
    ),
}

QUESTIONS: dict[str, tuple[str, ...]] = {
    "city": ("Where does {s} live?", "In which city is the home of {s}?", "What is the city where {s} lives?"),
    "birthplace": ("Where was {s} born?", "What is the birthplace of {s}?", "In which city was {s} born?"),
    "profession": ("What is the profession of {s}?", "What does {s} work as?", "What is {s} by trade?"),
    "employer": ("Who is the employer of {s}?", "Where does {s} have a job?", "What does {s} work for?"),
    "instrument": ("Which instrument does {s} play?", "What does {s} play?", "What is the instrument of {s}?"),
    "pet": ("What is the pet of {s}?", "Which pet does {s} have?", "What does {s} keep at home?"),
    "spouse": ("Who is the spouse of {s}?", "Who is {s} married to?", "Who was the wedding of {s} with?"),
    "region": ("In which region is {s}?", "What is the region of {s}?", "Where does {s} lie?"),
    "river": ("Which river flows through {s}?", "What is the river of {s}?", "On which river is {s}?"),
    "landmark": ("What is the landmark of {s}?", "What is {s} known for?", "What do visitors to {s} see?"),
}

LINKS: dict[str, tuple[str, ...]] = {
    "spouse": ("the spouse of {s}", "the person married to {s}"),
    "city": ("the city where {s} lives", "the home of {s}"),
}
"""Phrases that stand for a value: the first hop of a question."""


def words() -> list[str]:
    """Every sentence, question and phrase, for whoever needs their vocabulary."""
    return [text for table in (SENTENCES, QUESTIONS, LINKS) for texts in table.values() for text in texts]
