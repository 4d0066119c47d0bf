"""Terms of layers without attention, against a dense reference that lets one position at a time enter the mixer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from floatlens.attention.mixing import BothWays, ConvTerms, HeadScanTerms, ScanTerms, mixers_of, terms_of
from floatlens.models.bimamba import Scan

LENGTH = 37


def _draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def scan():
    decay = -torch.arange(1, 5).float().repeat(6, 1) * torch.linspace(0.2, 2, 6)[:, None]
    delta = torch.nn.functional.softplus(_draw(2, LENGTH, 6, seed=1))
    parts = (_draw(2, LENGTH, 4, seed=2), _draw(2, LENGTH, 4, seed=3), _draw(2, LENGTH, 6, seed=4))
    return Scan(_draw(2, LENGTH, 6), delta, *parts, decay, _draw(6, seed=5))


def _gathered(terms, rows):
    return torch.cat([terms.rows(at, min(at + rows, LENGTH)) for at in range(0, LENGTH, rows)], dim=1)


def _alone(scan, weight):
    """(batch, row, key, width): the recurrence with every input but one set to zero, in float64."""
    parts = {name: getattr(scan, name) for name in Scan.__dataclass_fields__}
    wide = Scan(**{name: part.double() for name, part in parts.items() if part is not None})
    found = []
    for key in range(LENGTH):
        only = torch.zeros_like(wide.inputs)
        only[:, key] = wide.inputs[:, key]
        found.append(replace(wide, inputs=only).run() @ weight.double().T)
    return torch.stack(found, dim=2)


@pytest.mark.parametrize("rows", [1, 7, 16])
def test_mamba_terms_are_what_each_position_adds(scan, rows):
    weight = _draw(5, 6, seed=6)
    terms = torch.zeros(2, LENGTH, LENGTH, 5)
    made = ScanTerms(scan, weight)
    for at in range(0, LENGTH, rows):
        stop = min(at + rows, LENGTH)
        terms[:, at:stop, :stop] = made.rows(at, stop)
    expected = _alone(scan, weight)
    assert (terms - expected).abs().max() <= 1e-5
    assert (terms.sum(2) - scan.run() @ weight.T).abs().max() <= 1e-5


def test_both_ways_a_position_adds_to_itself_in_each_direction(scan):
    weight, back = _draw(5, 6, seed=6), replace(scan, inputs=_draw(2, LENGTH, 6, seed=9))
    terms = _gathered(BothWays(ScanTerms(scan, weight), ScanTerms(back, weight)), 16)
    expected = _alone(scan, weight) + _alone(back, weight).flip(1, 2)
    assert (terms - expected).abs().max() <= 1e-5
    assert (expected[:, 5, 5] - _alone(scan, weight)[:, 5, 5]).abs().max() > 0.01  # both are in it


@pytest.mark.parametrize("rows", [5, 16])
def test_mamba_2_terms_are_what_each_position_adds(rows):
    inputs, delta = _draw(2, LENGTH, 3, 4), torch.nn.functional.softplus(_draw(2, LENGTH, 3, seed=1))
    before, after, scale = _draw(2, LENGTH, 5, seed=2), _draw(2, LENGTH, 5, seed=3), _draw(2, LENGTH, 12, seed=4)
    decay, skip, weight = -torch.tensor([0.1, 0.5, 2.0]), _draw(3, seed=5), _draw(7, 12, seed=6)
    made = HeadScanTerms(inputs, delta, before, after, decay, skip, scale, weight)
    for at in range(0, LENGTH, rows):
        stop = min(at + rows, LENGTH)
        found = made.rows(at, stop)
        for key in range(stop):
            state = torch.zeros(2, 3, 4, 5, dtype=torch.float64)
            for row in range(stop):  # the recurrence, in which one position enters
                state = state * (delta[:, row].double() * decay)[..., None, None].exp()
                added = torch.zeros(2, 3, 4, dtype=torch.float64)
                if row == key:
                    entering = (delta[:, row, :, None] * inputs[:, row]).double()
                    state = state + entering[..., None] * before[:, row, None, None].double()
                    added = (skip[:, None] * inputs[:, row]).double()
                read = (state * after[:, row, None, None].double()).sum(-1) + added
                if row >= at:
                    expected = (read.flatten(1) * scale[:, row]) @ weight.double().T
                    assert (found[:, row - at, key] - expected).abs().max() <= 1e-5
        if at:
            break


@pytest.mark.parametrize("back", [1, 2])
def test_convolution_terms_are_what_each_position_adds(back):
    inputs, gate, taps, weight = _draw(2, LENGTH, 6), _draw(2, LENGTH, 6, seed=1), _draw(6, 3, seed=2), _draw(5, 6)
    made = ConvTerms(inputs, gate, taps, weight, back)
    found = _gathered(made, 8)
    expected = torch.zeros(2, LENGTH, LENGTH, 5, dtype=torch.float64)
    for row in range(LENGTH):
        for tap in range(3):
            key = row + tap - back
            if 0 <= key < LENGTH:
                expected[:, row, key] = (gate[:, row] * taps[:, tap] * inputs[:, key]).double() @ weight.double().T
    assert (found - expected).abs().max() <= 1e-5
    norms = torch.cat([made.norms(at, min(at + 8, LENGTH)) for at in range(0, LENGTH, 8)], dim=1)
    assert (norms - expected.norm(dim=-1)).abs().max() <= 1e-5


@pytest.mark.parametrize("name", ["caduceus-ph", "caduceus-ps", "lfm2-encoder"])
def test_signed_terms_of_a_model_add_up_to_the_output_of_each_mixer(name, golden, tiny_model):
    model = tiny_model(name)
    ids = load_file(golden(name) / "golden.safetensors")["forward.input_ids"]
    seen = []
    mixers = mixers_of(model.module)
    hooks = [
        one.register_forward_hook(
            lambda module, args, kwargs, out: seen.append((module, args, kwargs, out)), with_kwargs=True
        )
        for one in mixers
    ]
    try:
        model.forward(ids)
    finally:
        for hook in hooks:
            hook.remove()
    assert len(seen) == len(mixers) == 3
    for module, args, kwargs, out in seen:
        states = args[0] if args else kwargs["hidden_states"]
        with torch.inference_mode():
            whole = _gathered(terms_of(module, states, None), 16).sum(2)
        assert (whole - out).abs().max() <= 1e-5 * max(1, out.abs().max())


def test_the_hidden_attention_of_the_published_code(golden, tiny_model):
    """Mean over channels of the scan as a matrix, without skip and gate, of both directions."""
    model, published = tiny_model("caduceus-ph"), load_file(golden("caduceus-ph") / "golden.safetensors")
    found = []

    def note(module, args, _):
        terms = terms_of(module, args[0], None)
        left, right = terms.forward.channels(0, LENGTH), terms.reverse.channels(0, LENGTH)
        found.append(torch.stack([left.mean(1)[0], right.mean(1)[0].flip(0, 1)]))

    hooks = [one.register_forward_pre_hook(note, with_kwargs=True) for one in mixers_of(model.module)]
    try:
        model.forward(published["forward.input_ids"])
    finally:
        for hook in hooks:
            hook.remove()
    assert np.abs(torch.stack(found).numpy() - published["forward.hidden_attention"].numpy()).max() <= 1e-5
