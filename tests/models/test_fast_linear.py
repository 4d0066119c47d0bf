"""Products by oneDNN: those of float64, their gradients, and torch's own where they do not apply."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from floatlens.models.fast_linear import FastLinear, linear


def drawn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize("turned", [False, True])
def test_products_and_gradients_are_those_of_float64(turned):
    inputs, weight, bias, wanted = drawn(2, 9, 5), drawn(7, 5), drawn(7), drawn(2, 9, 7)
    if turned:  # strides that no row-major matrix has
        inputs, wanted = (one.transpose(1, 2).contiguous().transpose(1, 2) for one in (inputs, wanted))
    given = [one.requires_grad_() for one in (inputs, weight, bias)]
    out = linear(*given)
    found = torch.autograd.grad((out * wanted).sum(), given)
    x, w, g = inputs.detach().double(), weight.detach().double(), wanted.double()
    torch.testing.assert_close(out.double(), torch.einsum("btk,nk->btn", x, w) + bias.double(), atol=1e-5, rtol=0)
    exact = [torch.einsum("btn,nk->btk", g, w), torch.einsum("btn,btk->nk", g, x), g.sum((0, 1))]
    for one, other in zip(found, exact, strict=True):
        torch.testing.assert_close(one.double(), other, atol=1e-5, rtol=0)


def test_what_is_not_asked_for_has_no_gradient():
    weight = drawn(7, 5).requires_grad_()
    linear(drawn(3, 5), weight).sum().backward()
    torch.testing.assert_close(weight.grad, drawn(3, 5).sum(0).expand(7, 5))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_types_are_multiplied_by_torch(dtype):
    inputs, weight = drawn(3, 5).to(dtype), drawn(7, 5).to(dtype)
    assert torch.equal(linear(inputs, weight), nn.functional.linear(inputs, weight))


def test_a_module_keeps_its_parameters_and_their_names():
    plain = nn.Linear(5, 7)
    made = FastLinear.of(plain)
    assert made.weight is plain.weight
    assert made.bias is plain.bias
    assert list(made.state_dict()) == list(plain.state_dict())
    assert FastLinear.of(nn.Linear(5, 7, bias=False)).bias is None
    torch.testing.assert_close(made(drawn(3, 5)), plain(drawn(3, 5)))
