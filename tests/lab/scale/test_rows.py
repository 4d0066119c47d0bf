"""Rows: the same for a seed, full, free of held-out people, questions asked once and answered right."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from floatlens.prompts import load_template
from floatlens.prompts.template import render
from floatlens.subjects.scale.lexicon import PLACES
from floatlens.subjects.scale.world import make_world
from floatlens_lab.scale.recipe import RECIPE, Stage
from floatlens_lab.scale.rows import ANSWER, CONTEXT, END, FILL, RowMaker

KINDS = ["words", "sites", "pairs", "couples", "notes", "asked", "asked places", "closed"]
KINDS += ["people", "places", "spouses", "homes"]
MAKER = RowMaker(3)


def stage(kind: str, **changes) -> Stage:
    values = {"name": kind, "steps": 1, "length": 256, "rows": 6, "documents": (2, 4), "mixture": {kind: 1.0}}
    return Stage(**(values | changes))


def text(ids) -> list[str]:
    return [MAKER.tokenizer.id_to_token(int(token)) for token in ids]


def exchanges(ids, part):
    """(context before an answer, answer) of a row, as lists of tokens."""
    tokens, found, start = text(ids), [], 0
    answer = part == ANSWER
    begins = np.flatnonzero(answer & ~np.roll(answer, 1))
    for begin in begins:
        end = begin + int(np.argmin(answer[begin:])) if not answer[begin:].all() else len(ids)
        found.append((tokens[start:begin], tokens[begin:end]))
        start = end
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_rows_depend_on_seed_and_step_alone(kind):
    first, again = (RowMaker(3).rows(stage(kind), 7) for _ in range(2))
    assert np.array_equal(first.ids, again.ids)
    assert np.array_equal(first.part, again.part)
    assert not np.array_equal(first.ids, MAKER.rows(stage(kind), 8).ids)
    assert not np.array_equal(first.ids, RowMaker(4).rows(stage(kind), 7).ids)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_have_one_length_and_start_with_bos(kind):
    rows = MAKER.rows(stage(kind, length=200), 1)
    assert rows.ids.shape == rows.part.shape == (6, 200)
    assert (rows.ids[:, 0] == MAKER.bos).all()
    assert (rows.part[:, 0] == CONTEXT).all()
    assert (rows.ids[np.isin(rows.part, (END, FILL))] == MAKER.eos).all()
    assert not (rows.ids[rows.part == ANSWER] == MAKER.eos).any()
    assert (rows.part == ANSWER).any(axis=1).all()


@pytest.mark.parametrize("kind", KINDS)
def test_no_held_out_person_is_ever_met(kind):
    heldout = set(make_world().names["heldout"])
    for step in range(25):
        for ids in MAKER.rows(stage(kind, documents=(4, 6), length=420), step).ids:
            words = text(ids)
            assert not heldout & {f"{a} {b}" for a, b in itertools.pairwise(words)}


@pytest.mark.parametrize("kind", ["people", "places", "spouses", "homes"])
def test_the_first_question_is_a_prompt_as_evaluation_builds_it(kind):
    template = load_template()
    rows = MAKER.rows(stage(kind), 2)
    opening = MAKER.tokenizer.encode(render(template, "?", ()).text).tokens[:4]
    closing = ["\n", "Answer", ":"]
    for ids, part in zip(rows.ids, rows.part, strict=True):
        found = exchanges(ids, part)
        assert found[0][0][:4] == opening
        assert all(context[-3:] == closing for context, _ in found)
        assert "[1]" in found[0][0]


@pytest.mark.parametrize("kind", ["people", "places", "spouses", "homes", "closed"])
def test_no_question_is_asked_twice(kind):
    for step in range(5):
        rows = MAKER.rows(stage(kind, length=400), step)
        for ids, part in zip(rows.ids, rows.part, strict=True):
            asked = [" ".join(context[context.index("Question") :]) for context, _ in exchanges(ids, part)]
            assert len(asked) == len(set(asked)) > 1


def test_answers_of_documents_can_be_copied_from_them():
    for step in range(10):
        rows = MAKER.rows(stage("spouses", length=400), step)
        for ids, part in zip(rows.ids, rows.part, strict=True):
            found = exchanges(ids, part)
            told = " ".join(found[0][0])
            assert all(" ".join(answer) in told for _, answer in found)


def test_two_hops_are_spelt_out_where_the_stage_says_so():
    short, long = (MAKER.rows(stage("homes", length=400, two_hop=1.0, spelt=spelt), 0) for spelt in (False, True))
    ends, whole = (
        [" ".join(answer) for ids, part in zip(rows.ids, rows.part, strict=True) for _, answer in exchanges(ids, part)]
        for rows in (short, long)
    )
    assert not any("," in answer for answer in ends)
    spelt = [answer.split(" , ") for answer in whole if "," in answer]
    assert len(spelt) > 6
    assert all(between in PLACES and end in ends for between, end in spelt)


def test_places_are_asked_about_a_few_at_a_time_and_never_told_of_twice():
    rows = MAKER.rows(stage("asked places", length=500), 0)
    for ids, part in zip(rows.ids, rows.part, strict=True):
        told: dict[str, set[str]] = {}
        asked = []
        for context, answer in exchanges(ids, part):
            *lines, question, _ = [line.strip() for line in " ".join(context).split("\n") if line.strip()]
            new = {}
            for line in (line for line in lines if line.endswith(".") and "Question" not in line):
                place = next(word for word in line.split() if word in PLACES)
                new.setdefault(place, set()).add(line)
            assert not new.keys() & told.keys()
            told |= new
            place = next(word for word in question.split() if word in PLACES)
            assert any(" ".join(answer) in line for line in told[place])
            asked.append(question)
        assert len(told) > 4
        assert len(set(asked)) == len(asked) > 4


@pytest.mark.parametrize("kind", ["words", "sites", "pairs"])
def test_lines_are_looked_up_by_name(kind):
    rows = MAKER.rows(stage(kind, length=60), 0)
    for ids, part in zip(rows.ids, rows.part, strict=True):
        found = exchanges(ids, part)
        told: dict[str, str] = {}
        for context, answer in found:
            lines = " ".join(context).replace("<bos>", "").split("\n")
            told |= {
                line.strip().rsplit(" ", 1)[0]: line.strip().rsplit(" ", 1)[1] for line in lines[:-1] if line.strip()
            }
            assert told[lines[-1].strip()] == " ".join(answer)


def test_a_gap_puts_words_between_a_name_and_its_value():
    close, apart = (MAKER.rows(stage("words", length=60, gap=gap), 0) for gap in (0, 4))
    assert {"is", "was", "in", "the"} & {word for ids in apart.ids for word in text(ids)}
    assert not {"is", "was", "in", "the"} & {word for ids in close.ids for word in text(ids)}


def test_few_names_bring_few_values():
    rows = MAKER.rows(stage("words", rows=50, length=24, names=4, documents=(2, 2)), 0)
    words = {word for ids in rows.ids for word in text(ids)} - {"<bos>", "<eos>", "\n", "\n\n"}
    assert len(words) <= 4 + 32


def test_known_people_are_asked_about_without_documents():
    world = make_world()
    facts = {who.name: set(who.facts.values()) for who in world.known}
    rows = MAKER.rows(stage("closed", length=200), 4)
    for ids, part in zip(rows.ids, rows.part, strict=True):
        for context, answer in exchanges(ids, part):
            question = context[context.index("Question") :]
            name = next(f"{a} {b}" for a, b in itertools.pairwise(question) if f"{a} {b}" in facts)
            assert " ".join(answer) in facts[name]


def test_a_row_too_short_for_its_question_is_refused():
    with pytest.raises(ValueError, match="does not hold its first question"):
        MAKER.rows(stage("people", length=40), 0)


def test_every_stage_of_the_recipe_has_room():
    maker = RowMaker(RECIPE.seed)
    for first, one in RECIPE.starts():
        for step in range(first, first + 3):
            assert maker.rows(one, step).ids.shape == (one.rows, one.length)
