"""The scan in numba: the loop in torch, term by term, and its gradients in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

numba = pytest.importorskip("numba")

from floatlens.core.fast_exp import exp2  # noqa: E402
from floatlens.models.selective_scan import plain_scan, selective_scan  # noqa: E402


def drawn(dtype, batch=2, length=70, channels=6, size=5):
    """Two chunks of 32 positions and a part of one."""
    random = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(shape, generator=random, dtype=torch.float64).to(dtype)

    delta = torch.nn.functional.softplus(normal(batch, length, channels) - 2)
    return (
        normal(batch, length, channels),
        delta,
        normal(batch, length, size),
        normal(batch, length, size),
        -normal(channels, size).exp(),
    )


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 2e-6), (torch.float64, 1e-13)])
def test_a_scan_is_that_of_the_loop(dtype, bound):
    given = drawn(dtype)
    torch.testing.assert_close(selective_scan(*given), plain_scan(*given), atol=bound, rtol=0)


def test_gradients_are_those_of_the_loop():
    given = [one.requires_grad_() for one in drawn(torch.float64)]
    weight = torch.randn(2, 70, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    found, wanted = (torch.autograd.grad((scan(*given) * weight).sum(), given) for scan in (selective_scan, plain_scan))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, atol=1e-11, rtol=1e-11)


def test_gradients_are_those_of_differences():
    given = [one.requires_grad_() for one in drawn(torch.float64, 1, 35, 2, 3)]
    assert torch.autograd.gradcheck(selective_scan, given)


def test_gradients_in_float32_are_near_those_in_float64():
    weight = torch.randn(2, 70, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    found = []
    for dtype in (torch.float32, torch.float64):
        given = [one.requires_grad_() for one in drawn(dtype)]
        found.append(torch.autograd.grad((selective_scan(*given) * weight.to(dtype)).sum(), given))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one.double(), other, atol=1e-5 * float(other.abs().max()), rtol=0)


def test_powers_of_two():
    @numba.njit
    def each(x, out):
        for i in range(len(x)):
            out[i] = exp2(x[i])

    x = np.concatenate([np.linspace(-126.0, 0.0, 100_001), [-127.0, -200.0, -1e30]])
    for dtype, bound in ((np.float32, 3e-7), (np.float64, 1e-15)):
        given = x.astype(dtype)
        out = np.empty_like(given)
        each(given, out)
        exact = np.exp2(given.astype(np.float64))
        assert np.abs(out[:-3] / exact[:-3] - 1).max() < bound
        assert np.abs(out[-2:]).max() == 0 if dtype is np.float32 else True


def test_the_loop_serves_where_numba_is_not_installed(monkeypatch):
    from floatlens.models import selective_scan as module

    monkeypatch.setattr(module, "_has_numba", lambda: False)
    given = drawn(torch.float32)
    assert torch.equal(selective_scan(*given), plain_scan(*given))
