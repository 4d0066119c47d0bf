"""Samplers and settings of the models of a plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from floatlens.core.errors import FloatlensError
from floatlens.decoding.settings import DecodingConfig
from floatlens.evaluation.answers import AskConfig
from floatlens.models.config import ModelConfig
from floatlens.models.facts import look
from floatlens.runs.models import decide_decoding
from floatlens.runs.plan import make_plan
from floatlens.runs.study_file import read_study

Decided = Callable[..., list[DecodingConfig]]


@pytest.fixture
def both() -> Decided:
    """An autoregressive and a masked diffusion model, by their facts."""
    arm = replace(look("scale:llada"), ref="arm", kind="arm", family="causal")
    mdm = replace(arm, ref="mdm", kind="mdm", family="llada")
    models = [(ModelConfig(ref="arm"), arm), (ModelConfig(ref="mdm"), mdm)]

    def decide(sampler: str | None = None, few: int = 2, say: Any = lambda message: None, **settings: Any) -> Any:
        ask = AskConfig(decoding=DecodingConfig(sampler=sampler, settings=settings))
        return [one.decoding for one in decide_decoding(models[:few], ask, say)]

    return decide


def test_settings_go_to_the_samplers_that_have_them(both: Decided) -> None:
    arm, mdm = both(gen_length=8, steps=4)
    assert (arm.sampler, mdm.sampler) == ("ar", "llada")
    assert mdm.settings["steps"] == 4
    assert "steps" not in arm.settings
    assert arm.settings["gen_length"] == 8
    arm, mdm = both("threshold")
    assert (arm.sampler, mdm.sampler) == ("ar", "threshold")


def test_a_setting_of_another_sampler_is_ignored_and_told(both: Decided) -> None:
    said: list[str] = []
    (arm,) = both(few=1, say=said.append, steps=32)
    assert "steps" not in arm.settings
    assert said == ["steps=32 does not apply to the sampler ar"]


@pytest.mark.parametrize(
    ("sampler", "settings", "message"),
    [
        (None, {"stpes": 4}, 'no setting "stpes"'),
        ("treshold", {}, 'sampler "treshold"; did you mean "threshold"'),
    ],
)
def test_what_fits_no_model_is_refused(both: Decided, sampler: str | None, settings: Any, message: str) -> None:
    with pytest.raises(FloatlensError, match=message):
        both(sampler, **settings)


def test_a_sampler_that_fits_none_of_the_models_is_refused(both: Decided) -> None:
    with pytest.raises(FloatlensError, match='the sampler "threshold" is for masked diffusion models'):
        both("threshold", few=1)


def test_a_model_is_given_once() -> None:
    with pytest.raises(FloatlensError, match="scale:llada is given twice"):
        make_plan(read_study({"models": ["scale:llada"] * 2, "data": ["scale:rag"]}))
