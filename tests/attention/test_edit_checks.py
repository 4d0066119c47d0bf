"""What an edit returns is checked: shape, type and finite values, with one line that names edit, layer and step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from floatlens.attention.blocks import Block, ExtraKey
from floatlens.attention.edit import Edit, Site
from floatlens.attention.probe import Layer
from floatlens.attention.select import Select
from floatlens.attention.softmax import Workspace
from floatlens.core.errors import FloatlensError
from floatlens.models.base import LanguageModel
from shared.capture import capture

NAN, INF = float("nan"), float("inf")


class Returns(Edit):
    """Returns what a function makes of the logits or weights, from layer 1 on."""

    def __init__(self, what: str, make: Callable[[Tensor], Any], needs_copy: bool = True) -> None:
        self.edits_logits, self.edits_weights = what == "logits", what == "weights"
        self.make, self.needs_copy = make, needs_copy
        self.select = Select(layers=slice(1, None))

    def logits(self, site: Site, logits: Tensor) -> Any:
        return self.make(logits)

    weights = logits


class ByBlock(Returns):
    """The same for `edit_block`."""

    def has_fast_path(self, layer: Layer) -> bool:
        return True

    def edit_block(self, site: Site, block: Block, classes: object) -> Block:
        return replace(block, exp=self.make(block.exp))


class Extra(Edit):
    """A key outside the sequence with these logits."""

    adds_key = True

    def __init__(self, logit: float) -> None:
        self.logit = logit

    def extra(self, site: Site) -> ExtraKey:
        samples, heads, queries = (part.stop - part.start for part in (site.batch, site.heads, site.queries))
        return ExtraKey(torch.full((samples, heads, queries), self.logit))


def one_value(value: float) -> Callable[[Tensor], Tensor]:
    """One weight of one row of the last block is replaced."""

    def make(values: Tensor) -> Tensor:
        values[-1, -1, -1, 0] = value
        return values

    return make


@pytest.fixture
def run(
    tiny_model: Callable[[str], LanguageModel], draw: Callable[..., Tensor], blocks: Callable[..., Workspace]
) -> Callable[..., Tensor]:
    def go(edit: Edit, kernel: str = "torch") -> Tensor:
        model, workspace = tiny_model("llada"), blocks(4, 1)
        workspace.fused = Workspace(kernel=kernel).fused
        with capture(model, ["entropy"], edits=[edit], steps=1, length=9, workspace=workspace):
            return model.forward(draw(2, 9))

    return go


@pytest.mark.parametrize("what", ["logits", "weights"])
@pytest.mark.parametrize(
    ("make", "found"),
    [
        (lambda values: values[..., :1], r"\(1, 1, 4, 1\) torch.float32"),
        (lambda values: values.mean(1), r"\(1, 4, 9\) torch.float32"),
        (lambda values: values.double(), r"\(1, 1, 4, 9\) torch.float64"),
        (lambda values: 0.5, "0.5"),
    ],
    ids=["one key", "no heads", "float64", "no tensor"],
)
def test_another_shape_is_refused(what: str, make: Callable[[Tensor], Any], found: str, run: Any) -> None:
    line = rf"^Returns\(\): {what}\(\) returned {found} in layer 1, step 0; return a tensor like .*\(1, 1, 4, 9\)"
    with pytest.raises(FloatlensError, match=line):
        run(Returns(what, make))


@pytest.mark.parametrize("kernel", ["torch", "auto"])
@pytest.mark.parametrize(("what", "value"), [("logits", NAN), ("logits", INF), ("weights", NAN), ("weights", -INF)])
def test_values_that_are_not_finite_are_refused(what: str, value: float, kernel: str, run: Any) -> None:
    """With numba too, whose softmax would make a weight of 0 of a NaN."""
    with pytest.raises(FloatlensError, match=rf"^Returns\(\): {what}\(\) gives NaN or infinite attention in layer 1"):
        run(Returns(what, one_value(value)), kernel)


def test_minus_infinity_is_allowed_in_logits(run: Any) -> None:
    assert run(Returns("logits", one_value(-INF))).isfinite().all()


def test_a_block_is_checked_as_well(run: Any) -> None:
    with pytest.raises(FloatlensError, match=r"^ByBlock\(\): edit_block\(\) returned weights \(1, 1, 4, 3\)"):
        run(ByBlock("weights", lambda exp: exp[..., :3]))
    with pytest.raises(FloatlensError, match=r"^ByBlock\(\): the edit gives NaN or infinite attention in layer 1"):
        run(ByBlock("weights", one_value(NAN)))


def test_without_a_copy_the_given_tensor_is_returned(run: Any) -> None:
    with pytest.raises(FloatlensError, match=r"^Returns\(\): logits\(\) returned another tensor in layer 1, step 0"):
        run(Returns("logits", lambda logits: logits * 2, needs_copy=False))
    with pytest.raises(FloatlensError, match=r"^Returns\(\): the edit gives NaN or infinite attention in layer 1"):
        run(Returns("weights", one_value(NAN), needs_copy=False))


def test_an_extra_key_is_checked_by_what_comes_out(run: Any) -> None:
    assert run(Extra(-INF)).isfinite().all()
    with pytest.raises(FloatlensError, match=r"^Extra\(\): the edit gives NaN or infinite attention in layer 0"):
        run(Extra(NAN))


def test_a_model_that_is_not_finite_itself_is_not_blamed_on_the_edit(
    tiny_model: Callable[[str], LanguageModel], run: Any
) -> None:
    model = tiny_model("llada")
    weight = next(parameter for parameter in model.module.parameters() if parameter.ndim == 2)
    before = weight.detach().clone()
    try:
        weight.data.fill_(NAN)
        with pytest.raises(FloatlensError, match=r'the output of "\S*embed\S*" is NaN or infinite; load it') as refused:
            run(Returns("weights", lambda weights: weights))
        assert "Returns" not in str(refused.value)
    finally:
        weight.data.copy_(before)
