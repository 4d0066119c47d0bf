"""The weights the Mamba starts from do what they are said to do."""

from __future__ import annotations

import pytest
import torch

from floatlens_lab.scale.blueprints import blueprint, build_module


@pytest.fixture
def new():
    torch.manual_seed(3)
    return build_module(blueprint("mamba")).eval()


@torch.no_grad()
def test_each_quarter_of_the_channels_holds_the_token_so_many_places_back(new):
    mixer = new.caduceus.backbone.layers[0].mixer.mamba_fwd
    for quarter, taps in enumerate(mixer.conv1d.weight[:, 0].unflatten(0, (4, -1)).mean(1)):
        assert int(taps.argmax()) == 3 - quarter  # the last tap is the position itself
        assert float(taps.max()) == pytest.approx(1, abs=0.05)
    quarters = mixer.in_proj.weight[:256].unflatten(0, (4, 64))
    assert all(torch.equal(quarters[0], other) for other in quarters[1:])


@torch.no_grad()
def test_a_state_is_read_with_what_it_is_stored_under(new):
    for layer in new.caduceus.backbone.layers:
        for mixer in (layer.mixer.mamba_fwd, layer.mixer.mamba_rev):
            _, stored, read = mixer.x_proj.weight.split([8, 48, 48])
            assert float(torch.nn.functional.cosine_similarity(stored, read, dim=1).min()) > 0.85


@torch.no_grad()
def test_memory_is_from_a_whole_row_to_a_few_words_and_steps_are_large(new):
    mixer = new.caduceus.backbone.layers[5].mixer.mamba_rev
    decays = mixer.A_log.exp()
    assert torch.equal(decays, decays[:1].expand(256, 48))
    assert 0.0005 <= float(decays.min()) < 0.002
    assert 0.08 < float(decays.max()) <= 0.2
    steps = torch.nn.functional.softplus(mixer.dt_proj.bias)
    assert 0.1 <= float(steps.min()) < 0.12
    assert 0.9 < float(steps.max()) <= 1.0001


@torch.no_grad()
def test_gates_begin_open(new):
    seen = []
    mixer = new.caduceus.backbone.layers[0].mixer.mamba_fwd
    hook = mixer.in_proj.register_forward_hook(lambda _, __, out: seen.append(out[..., 256:]))
    new(torch.arange(5, 485)[None])
    hook.remove()
    assert float(seen[0].mean()) == pytest.approx(1.5, abs=0.3)
    assert float((seen[0] > 0).float().mean()) > 0.95


def test_directions_share_their_projections(new):
    mixer = new.caduceus.backbone.layers[2].mixer
    for name in ("in_proj", "out_proj"):
        assert getattr(mixer.mamba_fwd, name).weight is getattr(mixer.mamba_rev, name).weight
    assert not torch.equal(mixer.mamba_fwd.x_proj.weight, mixer.mamba_rev.x_proj.weight)
