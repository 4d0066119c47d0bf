"""Edits of layers without attention, against scans and convolutions written out by hand; refusals by name."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import floatlens as fl
from floatlens.attention.mixing import mixers_of, terms_of
from floatlens.core.errors import FloatlensError
from floatlens.edits import DropAnchors, DropInputs, ZeroMixers, edit
from shared.capture import capture


def forward(model, golden, name):
    return model.forward(load_file(golden(name) / "golden.safetensors")["forward.input_ids"])


def outputs(model, run):
    """What each mixer gets and gives in a pass."""
    seen = {}

    def note(module, args, kwargs, output):
        seen[module.layer_idx] = (args[0] if args else kwargs["hidden_states"], output)

    hooks = [one.register_forward_hook(note, with_kwargs=True) for one in mixers_of(model.module)]
    try:
        run()
    finally:
        for hook in hooks:
            hook.remove()
    return seen


@torch.no_grad()
def test_a_dropped_input_takes_its_term_from_every_row_of_a_scan(tiny_model, golden):
    """The output without it is the output minus the terms of that key, whose own row keeps what the skip gives."""
    model, name = tiny_model("caduceus-ph"), "caduceus-ph"
    mixer = mixers_of(model.module)[0]
    before = outputs(model, lambda: forward(model, golden, name))[0]
    with edit(model, DropInputs([5])):
        after = outputs(model, lambda: forward(model, golden, name))[0]
    assert torch.equal(before[0], after[0])
    terms = terms_of(mixer, before[0], None).rows(0, before[0].shape[1])[:, :, 5]
    own = 0
    for scan, turned in ((mixer.mamba_fwd, False), (mixer.mamba_rev, True)):
        found = scan.scan(before[0].flip(1) if turned else before[0])
        place = before[0].shape[1] - 6 if turned else 5
        own = own + (found.skip * found.inputs[:, place] * found.gate[:, place]) @ scan.out_proj.weight.T
    terms[:, 5] -= own
    torch.testing.assert_close(after[1], before[1] - terms, atol=1e-5, rtol=0)


@torch.no_grad()
def test_a_dropped_input_takes_its_term_from_a_convolution(tiny_model, golden):
    model, name = tiny_model("lfm2-encoder"), "lfm2-encoder"
    mixer = mixers_of(model.module)[0]
    before = outputs(model, lambda: forward(model, golden, name))[0]
    with edit(model, DropInputs([5, 6])):
        after = outputs(model, lambda: forward(model, golden, name))[0]
    terms = terms_of(mixer, before[0], None).rows(0, before[0].shape[1])[:, :, [5, 6]].sum(2)
    assert float(terms[:, 4:8].abs().min()) > 0
    torch.testing.assert_close(after[1], before[1] - terms, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["caduceus-ph", "caduceus-ps", "lfm2-encoder"])
def test_a_zeroed_mixer_adds_nothing_and_everything_is_put_back(name, tiny_model, golden):
    model = tiny_model(name)
    plain = forward(model, golden, name)
    with edit(model, ZeroMixers([1])):
        seen = outputs(model, lambda: forward(model, golden, name))
        edited = forward(model, golden, name)
    assert not seen[1][1].any()
    assert seen[0][1].any()
    assert not torch.equal(edited, plain)
    assert torch.equal(forward(model, golden, name), plain)


def test_only_the_chosen_layers_and_steps(tiny_model, golden):
    model, name = tiny_model("caduceus-ph"), "caduceus-ph"
    plain = outputs(model, lambda: forward(model, golden, name))
    with edit(model, DropInputs([3], layers=[1])):
        seen = outputs(model, lambda: forward(model, golden, name))
    assert torch.equal(seen[0][1], plain[0][1])
    assert not torch.equal(seen[1][1], plain[1][1])


def test_contributions_are_those_of_the_edited_layer(tiny_model, golden):
    model, name = tiny_model("lfm2-encoder"), "lfm2-encoder"
    ids = load_file(golden(name) / "golden.safetensors")["forward.input_ids"]
    with capture(model, ["contribution"], edits=[DropInputs([4]), ZeroMixers([1])]) as recorder:
        model.forward(ids)
    found = recorder.variables["contribution"].stack()[0, 0]
    assert not found[0, :, 4].any()
    np.testing.assert_allclose(found[0].sum(-1), 1, atol=1e-5)
    assert not found[1].any()
    assert found[2, :, 4].all()  # attention


def test_decoding_under_an_edit(tiny_model):
    model = tiny_model("caduceus-ph")
    trace = fl.trace(model, prompt_ids=[7, 8, 9, 10], gen_length=4, edits=[DropInputs([0])])
    assert trace.data.attrs["edits"] == ["DropInputs(positions=[0])"]
    assert np.isfinite(trace.data["contribution"]).all()


@pytest.mark.parametrize(
    ("name", "wrong", "said"),
    [
        ("caduceus-ph", lambda: DropAnchors(k=1), r"DropAnchors\(.* is an edit of attention, and .* has none"),
        ("llada", lambda: DropInputs([0]), "is an edit of layers without attention; .*all have attention"),
        ("lfm2-encoder", lambda: DropInputs([0], layers=[2]), "layers 2: all have attention"),
        ("lfm2-encoder", lambda: ZeroMixers([2]), "layer 2 of .* has attention; ablate its heads"),
        ("caduceus-ps", lambda: DropInputs([0]), "StrandsMixer: dropping inputs of this kind of layer is not"),
    ],
)
def test_refusals(name, wrong, said, tiny_model, golden):
    model = tiny_model(name)
    with pytest.raises(FloatlensError, match=said), edit(model, wrong()):
        forward(model, golden, name)
    if name != "llada":
        forward(model, golden, name)


def test_positions_that_make_no_sense():
    for positions in ([], [-1], [0.5]):
        with pytest.raises(FloatlensError, match="give positions in the sequence"):
            DropInputs(positions)
