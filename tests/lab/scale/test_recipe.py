"""The recipe: stages in order, now and then an earlier one, and the learning rate over the steps."""

from __future__ import annotations

import numpy as np
import pytest

from floatlens.core.errors import FloatlensError
from floatlens_lab.scale.recipe import RECIPE, Recipe, Stage, read_recipe


def stage(name: str, steps: int) -> Stage:
    return Stage(name=name, steps=steps, length=32, rows=2, documents=(2, 2), mixture={"words": 1.0})


MADE = Recipe(stages=(stage("a", 10), stage("b", 400)), warmup=5, decay=100, learning_rate=2e-3, earlier=0.25)


def test_stages_follow_one_another():
    assert MADE.steps == 410
    assert [MADE.stage_at(step)[0].name for step in (0, 9, 10, 409)] == ["a", "a", "b", "b"]
    assert list(MADE.starts()) == [(0, MADE.stages[0]), (10, MADE.stages[1])]
    assert all(MADE.stage_at(step)[1].name == "a" for step in range(10))


def test_a_quarter_of_the_steps_goes_back():
    back = np.mean([MADE.stage_at(step)[1].name == "a" for step in range(10, 410)])
    assert 0.18 < back < 0.32
    assert [MADE.stage_at(step)[1].name for step in range(410)] == [MADE.stage_at(step)[1].name for step in range(410)]


def test_the_rate_rises_stays_and_falls():
    rates = [MADE.rate_at(step) for step in range(410)]
    assert rates[0] == pytest.approx(2e-3 / 5)
    assert rates[4:310] == [pytest.approx(2e-3)] * 306
    assert rates[360] == pytest.approx(1e-3)
    assert rates[-1] == pytest.approx(2e-4)
    assert min(rates[310:]) == rates[-1]


def test_the_rate_falls_within_stages_of_fixed_length():
    assert Recipe(stages=MADE.stages, decay=410).decay == 410  # neither stage has a loss at which it is left
    settled = (MADE.stages[0].model_copy(update={"until": 0.5}), MADE.stages[1])
    with pytest.raises(ValueError, match="decay=401 is longer than the last stages of fixed length, 400 steps"):
        Recipe(stages=settled, decay=401)


def test_lengths_replace_the_steps_of_the_first_stages():
    assert [one.steps for one in MADE.with_lengths([7]).stages] == [7, 400]
    assert MADE.with_lengths([]) == MADE


def test_the_digest_names_the_values():
    assert MADE.digest == Recipe.model_validate_json(MADE.model_dump_json()).digest
    assert MADE.digest != MADE.model_copy(update={"seed": 1}).digest


def test_a_recipe_of_ones_own(tmp_path):
    path = tmp_path / "recipe.json"
    path.write_text(MADE.model_dump_json())
    assert read_recipe(path) == MADE
    assert read_recipe(None) is RECIPE
    path.write_text(MADE.model_dump_json().replace('"warmup"', '"warmpu"'))
    with pytest.raises(FloatlensError, match=r'recipe .*recipe.json: no key "warmpu"; did you mean "warmup"'):
        read_recipe(path)
    with pytest.raises(FloatlensError, match="No such file"):
        read_recipe(tmp_path / "none.json")


def test_adapted_models_join_at_their_stage_and_warm_up_there():
    joined = Recipe(stages=MADE.stages, warmup=5, decay=100, learning_rate=2e-3, adapted_from="b")
    assert joined.first_step(adapted=False) == 0
    assert joined.first_step(adapted=True) == 10
    assert MADE.first_step(adapted=True) == 0
    rates = [joined.rate_at(step, first=10) for step in range(10, 16)]
    assert rates == pytest.approx([4e-4, 8e-4, 12e-4, 16e-4, 2e-3, 2e-3])
    with pytest.raises(ValueError, match='adapted_from="c" is none of the stages'):
        Recipe(stages=MADE.stages, decay=100, adapted_from="c")


def test_a_course_begins_with_a_warm_up_and_ends_with_a_fall():
    again = stage("c", 200).model_copy(update={"anew": True})
    two = Recipe(stages=(*MADE.stages, again), warmup=5, decay=100, learning_rate=2e-3)
    assert two.course_starts() == [0, 410]
    assert MADE.course_starts() == [0]
    assert {two.stage_at(step)[1].name for step in range(410, 610)} == {"c"}  # nothing goes back to another course
    assert [two.rate_at(step) for step in range(410)] == [MADE.rate_at(step) for step in range(410)]
    assert [two.rate_at(step) for step in (410, 414, 510, 560, 609)] == pytest.approx([4e-4, 2e-3, 2e-3, 1e-3, 2e-4])
    assert two.rate_at(412, first=412) == pytest.approx(4e-4)  # of a model that joins in the middle
    with pytest.raises(ValueError, match="decay=201 is longer than the last stages of fixed length, 200 steps"):
        Recipe(stages=two.stages, decay=201)
