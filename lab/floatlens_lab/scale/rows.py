"""Training rows: a context and as many of its questions as fit, each about something else, in one row of fixed length.

The first question is in the prompt exactly as evaluation builds it; the others follow in the same words. A row has
no padding: the answer of its last question is followed by EOS to the end, as in a diffusion canvas. A row depends only
on the seed, the step and its number, so training can resume anywhere and every model can be given the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from floatlens.prompts import load_template
from floatlens.prompts.template import Template, render
from floatlens.subjects.scale.contexts import Asked, Context, ask, draw_context
from floatlens.subjects.scale.lexicon import FILLERS, FIRST_NAMES, LAST_NAMES, PLACES, VALUES
from floatlens.subjects.scale.tokenizer import BOS, EOS, MASK, make_tokenizer, special_id
from floatlens.subjects.scale.wording import PERSON, PLACE, QUESTIONS, SENTENCES
from floatlens.subjects.scale.world import Subject, World, make_world
from floatlens_lab.scale.recipe import Stage

__all__ = ["ANSWER", "CONTEXT", "END", "FILL", "RowMaker", "Rows"]

_WORDS = tuple(word for pair in zip(FIRST_NAMES, LAST_NAMES, strict=True) for word in pair)
_VALUES = tuple(value for values in VALUES.values() for value in values if " " not in value)

_LINES = ("words", "sites", "pairs", "couples", "notes")
_SEVERAL = (
    "pairs",
    "couples",
    "notes",
    "asked",
)  # short ones: as many as fit in one row, each about other people

# What a position is, in `Rows.part`.
CONTEXT, ANSWER, END, FILL = 0, 1, 2, 3


@dataclass(frozen=True)
class Rows:
    """One batch: `ids` (row, position), and `part` of each position: context, answer, its EOS, or more EOS after it."""

    ids: NDArray[np.int64]
    part: NDArray[np.int8]


class RowMaker:
    """Makes the rows of any step of any stage. Example: `RowMaker(seed=0).rows(stage, step=12).ids.shape`"""

    def __init__(self, seed: int = 0, world: World | None = None) -> None:
        self.seed = seed
        self._given = world
        self.tokenizer = make_tokenizer()
        self.bos, self.eos, self.mask = (special_id(self.tokenizer, token) for token in (BOS, EOS, MASK))

    def world(self, stage: Stage) -> World:
        """Who is known in a stage."""
        return make_world(known=stage.known_people) if self._given is None else self._given

    @cached_property
    def template(self) -> Template:
        return load_template()

    @cached_property
    def follow_up(self) -> tuple[str, str]:
        """What the template writes before and after a question, for the questions that follow the first."""
        before = next(literal for literal, slot in self.template.rag if slot == "question")
        after = "".join(literal for literal, slot in self.template.rag if slot is None)
        return before, after

    def rows(self, stage: Stage, step: int) -> Rows:
        """The batch of a step."""
        made = [self._row(np.random.default_rng([self.seed, 0, step, row]), stage) for row in range(stage.rows)]
        return Rows(np.stack([ids for ids, _ in made]), np.stack([part for _, part in made]))

    def _row(self, random: np.random.Generator, stage: Stage) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
        kinds, weights = zip(*stage.mixture.items(), strict=True)
        what = kinds[int(random.choice(len(kinds), p=np.array(weights) / sum(weights)))]
        pieces: list[list[int]] = []
        while sum(map(len, pieces)) < stage.length:
            texts = [text for pair in self._pieces(random, stage, what) for text in pair]
            pieces += [made.ids for made in self.tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
            if what not in _SEVERAL:
                break
        return self._lay_out(random, pieces, stage, lines=what in _LINES)

    def _pieces(self, random: np.random.Generator, stage: Stage, what: str) -> list[tuple[str, str]]:
        """What is asked and its answer, in turn; whatever is told comes before the first question."""
        if what in ("notes", "asked"):
            return self._notes(random, stage, asked=what == "asked")
        if what == "asked places":
            return self._asked_places(random, stage)
        if what == "closed":
            return self._closed(random, stage)
        if what in ("words", "sites", "pairs", "couples"):
            return self._pairs(random, stage, what)
        return self._documents(random, stage, what)

    def _documents(self, random: np.random.Generator, stage: Stage, what: str) -> list[tuple[str, str]]:
        count = int(random.integers(stage.documents[0], stage.documents[1] + 1))
        known = random.random() < stage.known
        context = draw_context(
            random,
            self.world(stage),
            what,  # type: ignore[arg-type]
            count,
            group="known" if known else "unknown",
            similar=bool(random.random() < stage.similar),
            altered=0.5 if known and random.random() < 0.5 else 0.0,
        )
        asked = self._questions(random, context, stage.two_hop)
        return self._pack(render(self.template, asked[0].text, context.documents).text, asked, spelt=stage.spelt)

    def _questions(self, random: np.random.Generator, context: Context, two_hop: float) -> list[Asked]:
        """Every question of the context once, in random order, two-hop ones first with probability `two_hop` each."""
        single, double = context.one_hop(), context.two_hop()
        queue = [[pool[i] for i in random.permutation(len(pool)).tolist()] for pool in (single, double)]
        asked = []
        while queue[0] or queue[1]:
            pick = 1 if queue[1] and (not queue[0] or random.random() < two_hop) else 0
            asked.append(ask(random, context, queue[pick].pop()))
        return asked

    def _closed(self, random: np.random.Generator, stage: Stage) -> list[tuple[str, str]]:
        """Questions about known people, without documents."""
        asked = []
        for subject in self.world(stage).draw_known(random, 24):
            attribute = list(subject.facts)[int(random.integers(len(subject.facts)))]
            text = QUESTIONS[attribute][int(random.integers(len(QUESTIONS[attribute])))].format(s=subject.name)
            asked.append(Asked(text, subject.facts[attribute], subject.name, (attribute,), ()))
        return self._pack(render(self.template, asked[0].text, ()).text, asked)

    def _pack(self, prompt: str, asked: Sequence[Asked], *, spelt: bool = False) -> list[tuple[str, str]]:
        before, after = self.follow_up
        texts = [prompt, *(f"{before}{one.text}{after}" for one in asked[1:])]
        return [(text, one.spelt if spelt else one.answer) for text, one in zip(texts, asked, strict=True)]

    def _pairs(self, random: np.random.Generator, stage: Stage, what: str) -> list[tuple[str, str]]:
        """Names with a value each, one to a line, then the names again in another order: look up and copy.

        For `words` single words stand for names, and a stage with few of them has few values; for `sites` places do;
        for `couples` the values are names as well.
        """
        count = int(random.integers(stage.documents[0], stage.documents[1] + 1))
        if what in ("words", "sites"):
            options = PLACES if what == "sites" else _WORDS[: stage.names]
            names = [options[i] for i in random.choice(len(options), count, replace=False).tolist()]
        else:
            similar = bool(random.random() < stage.similar)
            names = self.world(stage).draw_names(random, count, "unknown", similar=similar)
        if what == "couples":
            told = dict(zip(names, self.world(stage).draw_names(random, count, "unknown"), strict=True))
        else:
            told = {name: _VALUES[int(random.random() * min(8 * stage.names, len(_VALUES)))] for name in names}
        listed = "".join(f"\n{name}{self._gap(random, stage)} {value}" for name, value in told.items())
        again = [names[i] for i in random.permutation(count).tolist()]
        heads = [f"{listed}\n\n{again[0]}", *(f"\n{name}" for name in again[1:])]
        return [(head + self._gap(random, stage), told[name]) for head, name in zip(heads, again, strict=True)]

    def _gap(self, random: np.random.Generator, stage: Stage) -> str:
        """A few words that mean nothing, so a value may be at some distance from its name."""
        count = int(random.integers(0, stage.gap + 1))
        return "".join(f" {FILLERS[int(random.random() * len(FILLERS))]}" for _ in range(count))

    def _notes(self, random: np.random.Generator, stage: Stage, *, asked: bool) -> list[tuple[str, str]]:
        """Facts about people in sentences, a line each, then the same facts in another order.

        Each is to be completed as a sentence, or is `asked` for as questions are after documents.
        """
        count = int(random.integers(stage.documents[0], stage.documents[1] + 1))
        similar = bool(random.random() < stage.similar)
        people = self.world(stage).draw_people(random, count, "unknown", similar=similar)
        return self._told(random, people, PERSON, asked=asked)

    def _asked_places(self, random: np.random.Generator, stage: Stage) -> list[tuple[str, str]]:
        """The same about places, all of them, a few at a time: no place occurs twice in a row."""
        places = self.world(stage).draw_places(random, len(PLACES))
        pieces: list[tuple[str, str]] = []
        while places:
            count = int(random.integers(stage.documents[0], stage.documents[1] + 1))
            pieces += self._told(random, places[:count], PLACE, asked=True)
            places = places[count:]
        return pieces

    def _told(
        self, random: np.random.Generator, subjects: Sequence[Subject], attributes: Sequence[str], *, asked: bool
    ) -> list[tuple[str, str]]:
        told = random.choice(len(attributes), int(random.integers(1, 3)), replace=False).tolist()
        facts = [(who, attributes[i]) for who in subjects for i in told]
        order, again = random.permutation(len(facts)).tolist(), random.permutation(len(facts)).tolist()
        tail = "".join(
            f"\n{_pick(random, SENTENCES[a]).format(s=who.name, v=who.facts[a])}"
            for who, a in (facts[i] for i in order)
        )
        tail += "" if asked else "\n"
        pieces = []
        for who, attribute in (facts[i] for i in again):
            if asked:
                before, after = self.follow_up[0] + _pick(random, QUESTIONS[attribute]) + self.follow_up[1], ""
            else:
                wordings = [text for text in SENTENCES[attribute] if text.index("{s}") < text.index("{v}")]
                before, after = ("\n" + _pick(random, wordings)).split("{v}")
            pieces.append((tail + before.format(s=who.name), who.facts[attribute]))
            tail = after
        return pieces

    def _lay_out(
        self, random: np.random.Generator, pieces: Sequence[Sequence[int]], stage: Stage, *, lines: bool
    ) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
        """Questions and answers in turn, as many as fit, and EOS to the end.

        An answer is ended by an EOS and perhaps a few more; of `lines` each holds its answer and nothing else to find.
        """
        length, rest = stage.length, CONTEXT if lines else FILL
        ids = np.full(length, self.eos, dtype=np.int64)
        part = np.full(length, rest, dtype=np.int8)
        ids[0], part[0] = self.bos, CONTEXT
        at = 1
        for question, answer in zip(pieces[::2], pieces[1::2], strict=True):
            end = at + len(question) + len(answer)
            if end + 1 > length:
                break
            ids[at : at + len(question)], part[at : at + len(question)] = question, CONTEXT
            ids[at + len(question) : end], part[at + len(question) : end] = answer, ANSWER
            if lines:
                at = end
            else:
                part[end] = END
                at = end + 1 + int(random.integers(0, stage.spare + 1))
        if at == 1:
            raise ValueError(f"a row of {length} tokens does not hold its first question")
        return ids, part


def _pick(random: np.random.Generator, options: Sequence[str]) -> str:
    return options[int(random.integers(len(options)))]
