"""Edits of layers without attention, against recurrences and convolutions written out by hand; refusals by name."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import floatlens as fl
from floatlens.attention.mixing import mixers_of, terms_of
from floatlens.core.errors import FloatlensError
from floatlens.edits import DropAnchors, DropInputs, PinInputs, ZeroMixers, edit, parse_edit
from floatlens.edits.mixer_edit import fill_up
from floatlens.models.facts import look
from shared.capture import capture

PROMPT = [7, 8, 9, 10, 5, 6, 8, 7]
BOTH = [PROMPT, [9, 7, 10]]


def forward(model, golden, name):
    return model.forward(load_file(golden(name) / "golden.safetensors")["forward.input_ids"])


def outputs(model, run):
    """What each mixer gets and gives in each pass: by (pass, layer), (states, mask, output)."""
    seen, calls = {}, []

    def note(module, args, kwargs, output):
        step = calls.count(module.layer_idx)
        calls.append(module.layer_idx)
        given = [*args, *kwargs.values()] if args else [kwargs["hidden_states"], kwargs.get("attention_mask")]
        seen[step, module.layer_idx] = given[0].clone(), given[1] if len(given) > 1 else None, output.clone()

    hooks = [one.register_forward_hook(note, with_kwargs=True) for one in mixers_of(model.module)]
    try:
        run()
    finally:
        for hook in hooks:
            hook.remove()
    return seen


def writes(scan):
    """(batch, position, channel, state) in float64: what each position writes."""
    return ((scan.delta * scan.inputs)[..., None] * scan.before[:, :, None]).double()


@torch.no_grad()
def by_hand(mixer, states, change):
    """A bidirectional Mamba's output where `change` maps what positions write, by the recurrence in float64."""
    total = 0
    for part, turned in ((mixer.mamba_fwd, False), (mixer.mamba_rev, True)):
        scan = part.scan(states.flip(1) if turned else states)
        written = writes(scan)
        written = change(written.flip(1) if turned else written, turned)
        written = written.flip(1) if turned else written
        state, rows = torch.zeros_like(written[:, 0]), []
        for at in range(written.shape[1]):
            state = state * (scan.delta[:, at, :, None] * scan.decay).double().exp() + written[:, at]
            row = (state * scan.after[:, at, None].double()).sum(-1) + (scan.skip * scan.inputs[:, at]).double()
            rows.append(row * scan.gate[:, at].double())
        out = torch.stack(rows, 1).float() @ part.out_proj.weight.T
        total = total + (out.flip(1) if turned else out)
    return total


def contributions(model, prompt, edits=(), **how):
    """(step, layer, key), and the tokens."""
    settings = {"sampler": "llada", "gen_length": 4, "steps": 4} | how
    trace = fl.trace(model, prompt_ids=prompt, probes=["contribution"], edits=list(edits), **settings)
    return trace.data["contribution"].values[:, :, 0], trace.data["token"].values


# -- given positions --------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_a_dropped_input_takes_its_term_from_every_row_of_a_scan(tiny_model, golden):
    """The output without it is the output minus the terms of that key, whose own row keeps what the skip gives."""
    model, name = tiny_model("caduceus-ph"), "caduceus-ph"
    mixer = mixers_of(model.module)[0]
    states, _, before = outputs(model, lambda: forward(model, golden, name))[0, 0]
    with edit(model, DropInputs([5])):
        seen, _, after = outputs(model, lambda: forward(model, golden, name))[0, 0]
    assert torch.equal(states, seen)
    terms = terms_of(mixer, states, None).rows(0, states.shape[1])[:, :, 5]
    own = 0
    for scan, turned in ((mixer.mamba_fwd, False), (mixer.mamba_rev, True)):
        found = scan.scan(states.flip(1) if turned else states)
        place = states.shape[1] - 6 if turned else 5
        own = own + (found.skip * found.inputs[:, place] * found.gate[:, place]) @ scan.out_proj.weight.T
    terms[:, 5] -= own
    torch.testing.assert_close(after, before - terms, atol=1e-5, rtol=0)


@torch.no_grad()
@pytest.mark.parametrize("strength", [1.0, 0.25])
def test_a_dropped_input_takes_its_term_from_a_convolution(strength, tiny_model, golden):
    model, name = tiny_model("lfm2-encoder"), "lfm2-encoder"
    mixer = mixers_of(model.module)[0]
    states, _, before = outputs(model, lambda: forward(model, golden, name))[0, 0]
    with edit(model, DropInputs([5, 6], strength=strength)):
        after = outputs(model, lambda: forward(model, golden, name))[0, 0][2]
    terms = terms_of(mixer, states, None).rows(0, states.shape[1])[:, :, [5, 6]].sum(2)
    assert float(terms[:, 4:8].abs().min()) > 0
    torch.testing.assert_close(after, before - strength * terms, atol=1e-5, rtol=0)


def test_only_the_chosen_layers_and_steps(tiny_model, golden):
    model, name = tiny_model("caduceus-ph"), "caduceus-ph"
    plain = outputs(model, lambda: forward(model, golden, name))
    with edit(model, DropInputs([3], select=fl.Select(layers=[1]))):
        seen = outputs(model, lambda: forward(model, golden, name))
    assert torch.equal(seen[0, 0][2], plain[0, 0][2])
    assert not torch.equal(seen[0, 1][2], plain[0, 1][2])
    later = DropInputs([3], select=fl.Select(steps=[2]))
    fl.trace(model, prompt_ids=PROMPT, gen_length=4, steps=4, edits=[later])
    assert {one.step for one in later.report()} == {2}


def test_positions_count_from_the_first_token_of_each_sample(tiny_model):
    """In a batch that is padded on the left, position 0 is no padding."""
    model = tiny_model("caduceus-ph")
    alone = [fl.decode(model, [one], gen_length=4, steps=2) for one in BOTH]
    with edit(model, DropInputs([0])):
        together = fl.decode(model, BOTH, gen_length=4, steps=2)
        each = [fl.decode(model, [one], gen_length=4, steps=2) for one in BOTH]
    assert together.answers() == [one.answers()[0] for one in each]
    assert together.answers() != [one.answers()[0] for one in alone]  # else this shows nothing


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


# -- anchors ----------------------------------------------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize("strength", [1.0, 0.5])
def test_anchors_of_the_step_before_are_left_out_of_each_scan(strength, tiny_model):
    """Step 0 is unedited, so its anchors are those of a plain trace; what is left out is their share of step 1."""
    model = tiny_model("caduceus-ph")
    plain, _ = contributions(model, PROMPT)
    made = DropInputs(k=2, strength=strength)
    seen = outputs(model, lambda: contributions(model, PROMPT, [made]))
    for layer, mixer in enumerate(mixers_of(model.module)):
        anchors = sorted(range(12), key=lambda j: -plain[0, layer, j])[:2]

        def weaker(written, _, anchors=anchors):
            written[:, anchors] *= 1 - strength
            return written

        states, _, out = seen[1, layer]
        torch.testing.assert_close(out, by_hand(mixer, states, weaker), atol=1e-5, rtol=0)
        first, _, unedited = seen[0, layer]
        torch.testing.assert_close(unedited, by_hand(mixer, first, lambda w, _: w), atol=1e-5, rtol=0)
        told = next(one for one in made.report() if (one.step, one.layer) == (1, layer))
        assert (told.rows, told.total) == (12, 12)
        if layer == 0:  # the states that enter it are those of the plain run
            assert told.mean == pytest.approx(strength * plain[1, 0, anchors].sum(), abs=1e-5)
    assert min(one.step for one in made.report()) == 1
    shares = made.moved_shares()
    assert shares == pytest.approx([np.mean([one.mean for one in made.report()])], abs=1e-6)


@torch.no_grad()
def test_an_anchor_that_stays_one_stays_dropped(tiny_model):
    """Anchors are chosen from the layer as it is without the edit, not from what is left."""
    model = tiny_model("lfm2-encoder")
    made = DropInputs(k=1, select=fl.Select(layers=[0]))
    seen = outputs(model, lambda: contributions(model, PROMPT, [made]))
    mixer = mixers_of(model.module)[0]
    for step in (1, 2):
        before, now = seen[step - 1, 0][0], seen[step, 0][0]
        terms = terms_of(mixer, before, None)
        shares = terms.norms(0, before.shape[1])
        anchor = int((shares / shares.sum(-1, keepdim=True)).mean(1).argmax())
        whole = terms_of(mixer, now, None).rows(0, now.shape[1])
        torch.testing.assert_close(seen[step, 0][2], whole.sum(2) - whole[:, :, anchor], atol=1e-5, rtol=0)


@torch.no_grad()
def test_pinned_anchors_write_what_they_wrote_in_step_0(tiny_model):
    """The anchors of this step, as the layer is without the edit; decays, readers and skips are those of the step."""
    model = tiny_model("caduceus-ph")
    made = PinInputs(k=3)
    seen = outputs(model, lambda: contributions(model, PROMPT, [made]))
    for layer, mixer in enumerate(mixers_of(model.module)):
        first, (now, _, out) = seen[0, layer][0], seen[2, layer]
        shares = terms_of(mixer, now, None).rows(0, 12).norm(dim=-1)
        received = (shares / shares.sum(-1, keepdim=True)).mean(1)[0]
        anchors = received.argsort(descending=True)[:3].tolist()
        parts = (mixer.mamba_fwd, mixer.mamba_rev)
        given = [part.scan(first.flip(1) if turned else first) for turned, part in enumerate(parts)]

        def held(written, turned, given=given, anchors=anchors):
            earlier = writes(given[turned])
            written[:, anchors] = (earlier.flip(1) if turned else earlier)[:, anchors]
            return written

        torch.testing.assert_close(out, by_hand(mixer, now, held), atol=1e-5, rtol=0)
        assert float((out - by_hand(mixer, now, lambda w, _: w)).abs().max()) > 1e-4  # it did something
        told = next(one for one in made.report() if (one.step, one.layer) == (2, layer))
        assert told.mean == pytest.approx(float(received[anchors].sum()), abs=1e-5)
    assert min(one.step for one in made.report()) == 1


@torch.no_grad()
def test_a_pinned_convolution_reads_what_it_read_in_step_0(tiny_model):
    model = tiny_model("lfm2-encoder")
    answer = [8, 9, 10, 11]
    made = PinInputs(answer, select=fl.Select(layers=[0]))
    seen = outputs(model, lambda: contributions(model, PROMPT, [made]))
    mixer = mixers_of(model.module)[0]
    first, (now, _, out) = seen[0, 0][0], seen[3, 0]
    (gated, gate), (earlier, _) = mixer.gated(now), mixer.gated(first)
    gated = gated.clone()
    gated[:, answer] = earlier[:, answer]
    taps, mixed = mixer.conv.weight[:, 0], torch.zeros_like(gated)
    for row in range(gated.shape[1]):
        for tap in range(taps.shape[1]):
            key = row + tap - taps.shape[1] // 2
            if 0 <= key < gated.shape[1]:
                mixed[:, row] += taps[:, tap] * gated[:, key]
    torch.testing.assert_close(out, (gate * mixed) @ mixer.out_proj.weight.T, atol=1e-5, rtol=0)
    assert not torch.allclose(earlier[:, answer], mixer.gated(now)[0][:, answer])


def test_nothing_is_left_behind(tiny_model, golden):
    for name in ("caduceus-ph", "lfm2-encoder"):
        model = tiny_model(name)
        plain = forward(model, golden, name)
        for made in (DropInputs(k=2), PinInputs(k=2), PinInputs(k=1).control(1, "mass")):
            contributions(model, PROMPT, [made, DropInputs([1])])
        assert torch.equal(forward(model, golden, name), plain)


# -- controls ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["caduceus-ph", "lfm2-encoder"])
@pytest.mark.parametrize("make", [DropInputs, PinInputs])
def test_controls_take_other_positions_as_many_or_as_much(make, name, tiny_model):
    """In layer 0 of step 1, whose states are those of the unedited run."""
    model = tiny_model(name)
    plain, _ = contributions(model, PROMPT)
    layer = make(k=2, select=fl.Select(layers=[0]))
    contributions(model, PROMPT, [layer])
    moved = layer.report()[0].mean
    anchors = sorted(range(12), key=lambda j: -plain[0 if make is DropInputs else 1, 0, j])[:2]
    assert moved == pytest.approx(plain[1, 0, anchors].sum(), abs=1e-5)
    rest = [plain[1, 0, j] for j in range(12) if j not in anchors]
    drawn = set()
    for seed in range(3):
        count, mass = layer.control(seed, "count"), layer.control(seed, "mass")
        for one in (count, mass):
            contributions(model, PROMPT, [one])
        found = count.report()[0].mean
        pairs = [a + b for i, a in enumerate(rest) for b in rest[:i]]
        assert min(abs(found - pair) for pair in pairs) < 1e-5
        drawn.add(round(found, 6))
        if make is DropInputs:
            assert mass.report()[0].mean == pytest.approx(min(moved, sum(rest)), abs=1e-5)
        else:
            assert abs(mass.report()[0].mean - moved) <= max(rest) / 2 + 1e-5 or moved > sum(rest)
        assert mass.numbers()["unmatched"] == (moved > sum(rest) + 1e-6) or len(mass.report()) > 1
        again = layer.control(seed, "count")
        contributions(model, PROMPT, [again])
        assert [one.mass for one in again.report()] == [one.mass for one in count.report()]
    assert len(drawn) > 1


def test_a_control_of_given_positions_takes_the_same_ones_everywhere(tiny_model):
    control = DropInputs([0, 1]).control(3, "count")
    found, _ = contributions(tiny_model("lfm2-encoder"), PROMPT, [control])
    gone = {tuple(np.flatnonzero(found[step, layer] == 0).tolist()) for step in (0, 2) for layer in (0, 1)}
    assert len(gone) == 1
    drawn = gone.pop()
    assert len(drawn) == 2
    assert not {0, 1} & set(drawn)


@pytest.mark.parametrize("kind", [None, "count", "mass"])
@pytest.mark.parametrize("make", [DropInputs, PinInputs])
def test_a_batch_changes_nothing(make, kind, tiny_model):
    for name in ("caduceus-ph", "lfm2-encoder"):
        model, seen = tiny_model(name), []
        for prompts in ([BOTH[0]], [BOTH[1]], BOTH):
            made = make(k=2) if kind is None else make(k=2).control(1, kind)
            with edit(model, made):
                decoded = fl.decode(model, prompts, sampler="llada", gen_length=4, steps=4)
            seen.append((decoded.answers(), made.moved_shares()))
        assert seen[2][0] == seen[0][0] + seen[1][0]
        assert seen[2][1] == pytest.approx(seen[0][1] + seen[1][1], abs=1e-4)


def test_filling_up_takes_the_last_position_in_part():
    mass = torch.tensor([[0.1, 0.4, 0.2, 0.3], [0.1, 0.0, 0.2, 0.0]])
    order = torch.tensor([[0.9, 0.1, 0.8, 0.7], [0.5, 0.9, 0.1, 0.2]])
    taken, short = fill_up(mass, order, torch.tensor([0.45, 0.5]))
    torch.testing.assert_close(taken, torch.tensor([[1.0, 0.0, 1.0, 0.5], [1.0, 0.0, 1.0, 0.0]]))
    assert short.tolist() == [False, True]
    assert not fill_up(mass, order, torch.zeros(2))[0].any()


# -- whole mixers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["caduceus-ph", "caduceus-ps", "lfm2-encoder"])
def test_a_zeroed_mixer_adds_nothing_and_everything_is_put_back(name, tiny_model, golden):
    model = tiny_model(name)
    plain = forward(model, golden, name)
    made = ZeroMixers([1])
    with edit(model, made):
        seen = outputs(model, lambda: forward(model, golden, name))
        edited = forward(model, golden, name)
    assert not seen[0, 1][2].any()
    assert seen[0, 0][2].any()
    assert not torch.equal(edited, plain)
    assert torch.equal(forward(model, golden, name), plain)
    assert {(one.layer, one.mean) for one in made.report()} == {(1, 1.0)}


def test_the_control_of_zeroed_mixers_takes_other_layers_without_attention(tiny_model, golden):
    model = tiny_model("lfm2-encoder")
    free = [layer for layer in range(model.num_layers) if layer not in model.attention_layers]
    drawn = set()
    for seed in range(6):
        control = ZeroMixers([free[0]]).control(seed)
        with edit(model, control):
            seen = outputs(model, lambda: forward(model, golden, "lfm2-encoder"))
        zeroed = [layer for (_, layer), (*_, out) in seen.items() if not out.any()]
        assert len(zeroed) == 1
        assert zeroed[0] in free[1:]
        drawn |= set(zeroed)
    assert len(drawn) == len(free) - 1


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "wrong", "said"),
    [
        ("caduceus-ph", lambda: DropAnchors(k=1), r"DropAnchors\(.* is an edit of attention, and .* has none"),
        ("llada", lambda: DropInputs([0]), "is an edit of layers without attention; .*all have attention"),
        ("llada", lambda: PinInputs(k=1), "is an edit of layers without attention; .*all have attention"),
        ("llada", lambda: ZeroMixers([0]), "is an edit of layers without attention; .*all have attention"),
        ("lfm2-encoder", lambda: DropInputs([0], select=fl.Select(layers=[2])), "layers 2 of .*: all have attention"),
        ("lfm2-encoder", lambda: ZeroMixers([2]), "layer 2 of .* has attention; ablate its heads"),
        ("caduceus-ph", lambda: ZeroMixers([0, 1]).control(), "2 of the 3 layers without .* leave too few"),
        ("caduceus-ps", lambda: DropInputs([0]), "StrandsMixer: edits of the inputs of this kind of layer are not"),
        ("caduceus-ps", lambda: PinInputs(k=1), "StrandsMixer: edits of the inputs of this kind of layer are not"),
    ],
)
def test_refusals_come_before_the_first_pass(name, wrong, said, tiny_model, golden):
    model = tiny_model(name)
    with pytest.raises(FloatlensError, match=said), edit(model, wrong()):
        pytest.fail("the edit was let in")
    if name != "llada":
        forward(model, golden, name)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "caduceus-ph-tiny",
            "drop_anchors:k=1",
            "is an edit of attention, and .* has none; edits of other layers: drop",
        ),
        ("caduceus-ph-tiny", "stale:refresh=2", "is an edit of attention, and .* has none"),
        ("caduceus-ph-tiny", "ablate_heads:heads=0.0", "is an edit of attention, and .* has none"),
        (
            "llada-tiny",
            "drop_inputs",
            r"edit drop_inputs k=1: DropInputs\(k=1\) is an edit of layers without attention; ",
        ),
        ("llada-tiny", "zero_mixers:layers=1", "is an edit of layers without attention"),
        ("lfm2-encoder-tiny", "freeze_layers:layers=0-1", "layers 0, 1 of .* have none"),
        ("lfm2-encoder-tiny", "pin_inputs:on=2", "layers 2 of .*: all have attention"),
        ("lfm2-encoder-tiny", "zero_mixers:layers=1-2", "layer 2 of .* has attention"),
        ("caduceus-ph-tiny", "zero_mixers:layers=0-1", "leave too few for a random control"),
    ],
)
def test_refusals_come_before_weights_are_read(name, text, said, golden):
    facts = look(str(golden(name.removesuffix("-tiny"))))
    with pytest.raises(FloatlensError, match=said) as caught:
        parse_edit(text)[0].check(facts, "edit")
    assert "\n" not in str(caught.value)


def test_what_fits_is_let_in(golden):
    for name, texts in {
        "caduceus-ph": ("drop_inputs:k=1", "pin_inputs:positions=0", "zero_mixers:layers=1"),
        "lfm2-encoder": ("drop_inputs:on=0-1", "drop_anchors:k=1", "zero_mixers:layers=0"),
    }.items():
        for text in texts:
            parse_edit(text)[0].check(look(str(golden(name))), "edit")


def test_settings_that_make_no_sense(tiny_model):
    for positions in ([], [-1], [0.5]):
        with pytest.raises(FloatlensError, match="give positions in the sequence"):
            DropInputs(positions)
    for wrong, said in (
        (lambda: DropInputs([0], k=1), "positions and k both say which; give one"),
        (lambda: PinInputs([0], rule="top1"), "positions and rule both say which; give one"),
        (lambda: DropInputs(k=0), "k is a number of keys"),
        (lambda: DropInputs(strength=2), "give a number from 0 to 1"),
        (lambda: DropInputs(matched="weight"), "matched="),
        (lambda: DropInputs(k=1).control(0).control(0), "is itself a control"),
        (lambda: ZeroMixers([0]).control(0).control(0), "is itself a control"),
        (lambda: ZeroMixers([0], select=fl.Select(layers=[1])), "the layers are its first argument"),
    ):
        with pytest.raises(FloatlensError, match=said):
            wrong()
    model = tiny_model("caduceus-ph")
    with pytest.raises(FloatlensError, match="the sequence has 7 positions"), edit(model, DropInputs([8])):
        fl.decode(model, BOTH, gen_length=4)
    with pytest.raises(FloatlensError, match="the sequence has 12 positions"):
        fl.trace(model, prompt_ids=PROMPT, gen_length=4, edits=[PinInputs([12])])


def test_strength_0_is_no_edit(tiny_model):
    model = tiny_model("caduceus-ph")
    made = DropInputs(k=2, strength=0)
    plain, same = contributions(model, PROMPT), contributions(model, PROMPT, [made])
    assert all(np.array_equal(a, b) for a, b in zip(plain, same, strict=True))
    assert made.report() == []
