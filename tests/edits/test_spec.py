"""Edits by name: how they are written, what they build, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import floatlens as fl
from floatlens.core.errors import FloatlensError
from floatlens.edits import EDITS, parse_edit
from floatlens.models.facts import look


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("drop_anchors", ["drop_anchors k=1"]),
        ("drop_anchors:k=1,5", ["drop_anchors k=1", "drop_anchors k=5"]),
        ("drop_anchors:strength=0.5", ["drop_anchors strength=0.5 k=1"]),
        ("drop_anchors:rule=zscore(3):on=0-3:steps=2", ["drop_anchors rule=zscore(3) on=0-3 steps=2"]),
        ("drop_anchors:k=2:strength=0.5,1", ["drop_anchors k=2 strength=0.5", "drop_anchors k=2 strength=1"]),
        ("pin_anchors:to=bos", ["pin_anchors to=bos k=5"]),
        ("swap_anchors", ["swap_anchors like=step0 k=5"]),
        ("ablate_heads:mode=mean", ["ablate_heads mode=mean top=4"]),
        ("ablate_heads:heads=5.3+7.10,2.0", ["ablate_heads heads=5.3+7.10", "ablate_heads heads=2.0"]),
        ("freeze_layers:strength=0.5", ["freeze_layers strength=0.5 layers=0-1"]),
        ("sink_token:logit=2", ["sink_token logit=2"]),
        ("drop_inputs", ["drop_inputs k=1"]),
        ("drop_inputs:k=1,5:strength=0.5", ["drop_inputs k=1 strength=0.5", "drop_inputs k=5 strength=0.5"]),
        ("drop_inputs:positions=0,0-3", ["drop_inputs positions=0", "drop_inputs positions=0-3"]),
        ("pin_inputs:rule=zscore(3):on=0-3", ["pin_inputs rule=zscore(3) on=0-3"]),
        ("zero_mixers", ["zero_mixers layers=0"]),
        ("zero_mixers:layers=0-1:steps=2", ["zero_mixers layers=0-1 steps=2"]),
        ("freeze_layers:layers=0-1,6-7", ["freeze_layers layers=0-1", "freeze_layers layers=6-7"]),
    ],
)
def test_an_edit_is_written_by_name_and_doses(text: str, labels: list[str]) -> None:
    specs = parse_edit(text)
    assert [spec.label for spec in specs] == labels
    for spec in specs:  # a label can be read back
        assert parse_edit(":".join(spec.label.split())) == [spec]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("drop_anchor", 'no edit "drop_anchor"; did you mean "drop_anchors"'),
        ("drop_anchors:q=1", 'drop_anchors has no setting "q"; its settings: of, k, rule, rows, strength, steps, on'),
        ("drop_anchors:k=1:k=5", "k is given twice; write k=A,B for several doses"),
        ("drop_anchors:k", "k has no value; write k="),
        ("drop_anchors:k=[1", 'k wants a whole number, got "[1"'),
        ("drop_anchors:k=", 'k wants a whole number, got ""'),
        ("drop_anchors:k=0", "k=0: DropAnchors(k=0): k is a number of keys; give a whole number from 1"),
        ("drop_anchors:strength=2", "give a number from 0 to 1"),
        ("drop_anchors:k=1:rule=top1", "give one of them"),
        ("drop_inputs:k=1:positions=0", "positions and k both say which; give one"),
        (
            "pin_inputs:strength=0.5",
            'pin_inputs has no setting "strength"; its settings: k, rule, positions, steps, on',
        ),
        ("zero_mixers:on=1", 'zero_mixers has no setting "on"; its settings: layers, steps'),
        ("ablate_heads:mode=zeros", 'did you mean "zero"'),
        ("ablate_heads:heads=1.0:top=2", "give heads=[(layer, head), …], or"),
        ("ablate_heads:heads=5", "heads wants layer.head, several with +, such as 5.3+7.0, got"),
        ("freeze_layers:layers=3-1", 'layers wants a number or a range, such as 0-3, got "3-1"'),
    ],
)
def test_mistakes_are_named(text: str, message: str) -> None:
    with pytest.raises(FloatlensError) as caught:
        parse_edit(text)
    assert message in str(caught.value)


def test_a_control_is_of_the_same_size_elsewhere() -> None:
    spec = parse_edit("drop_anchors:k=3")[0].with_control(1, "mass")
    assert spec.label == "drop_anchors k=3 (mass control)"
    assert isinstance(spec.build(), fl.edits.DropMass)
    assert isinstance(parse_edit("drop_anchors:k=3")[0].with_control(1, "count").build(), fl.edits.DropRandom)
    with pytest.raises(FloatlensError, match="has no such control"):
        parse_edit("sink_token:logit=1")[0].with_control(0, "count").build()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("drop_anchors:on=6-8", "drop_anchors on=6-8 k=1: layer 8 is outside 0..7"),
        ("freeze_layers:layers=0-99", "outside 0..7"),
        ("ablate_heads:heads=8.0", "there is no head (8, 0)"),
        ("ablate_heads:top=40", "AblateHeads: 40 heads and as many for the random control are more than the 64"),
        ("sink_token:token=99999", "has ids up to"),
    ],
)
def test_what_a_model_does_not_have_is_refused_before_its_weights(text: str, message: str) -> None:
    facts = look("scale:qwen")
    assert (facts.layers, facts.heads) == (8, 8)
    with pytest.raises(FloatlensError) as caught:
        parse_edit(text)[0].check(facts, "--edit")
    assert str(caught.value).startswith(f"--edit {text.partition(':')[0]} ")
    assert message in str(caught.value)


def test_every_edit_can_be_written_and_fits(golden: Callable[[str], Path]) -> None:
    for name in EDITS:
        (spec,) = parse_edit(name)
        model = str(golden("caduceus-ph")) if EDITS[name].edits_mixers else "scale:qwen"
        spec.check(look(model), "here")
        assert spec.waits_for_traces == (name == "ablate_heads")
    assert not parse_edit("ablate_heads:heads=1.2")[0].waits_for_traces
    assert [parse_edit(text)[0].earliest_step for text in ("drop_anchors", "sink_token", "sink_token:steps=3-4")] == [
        1,
        0,
        3,
    ]


def test_layers_and_steps_limit_an_edit() -> None:
    model = fl.load("scale:qwen")
    made = parse_edit("drop_anchors:on=2-3:steps=2-9")[0].build()
    ids = model.tokenizer("who is it ?").input_ids  # type: ignore[misc]
    with fl.edit(model, made):
        fl.decode(model, ids, gen_length=4)
    assert {(one.step, one.layer) for one in made.report()} == {(2, 2), (2, 3), (3, 2), (3, 3)}
