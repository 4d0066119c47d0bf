"""What `LanguageModel.forward` promises, for every family: values, rows, direction, padding, cache, observers."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file

from floatlens.core.errors import FloatlensError
from floatlens.models import Pass

PLAIN = ("albert", "bert", "distilbert", "electra", "eurobert", "modernbert", "roberta")
PLAIN += ("gpt2", "llama", "mistral", "qwen2", "qwen3", "qwen3-moe")


def _ids(batch: int, length: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(3, 80, (batch, length), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", ["llada", "dream"])
def test_golden_logits(name, golden, tiny_model):
    tensors = load_file(golden(name) / "golden.safetensors")
    logits = tiny_model(name).forward(tensors["forward.input_ids"])
    torch.testing.assert_close(logits, tensors["forward.logits"], atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", [*PLAIN, "a2d-llama", "a2d-qwen2", "a2d-qwen3"])
def test_logits_are_those_of_the_plain_transformers_class(name, tiny, tiny_model):
    """transformers' own class, called as its documentation says; only the adapted ones are told to see both ways."""
    import transformers

    model, ids = tiny_model(name), _ids(2, 11)
    architecture = getattr(transformers, type(model.module).__name__)
    module = architecture.from_pretrained(tiny(name), config=model.module.config)
    with torch.no_grad():
        expected = module.eval()(ids).logits
    torch.testing.assert_close(model.forward(ids), expected, atol=1e-6, rtol=0)


def test_chosen_rows_equal_the_rows_of_the_full_logits(any_name, tiny_model):
    model, ids = tiny_model(any_name), _ids(3, 9)
    full = model.forward(ids)
    assert full.shape == (3, 9, model.vocab_size)
    rows = torch.tensor([7, 0, 3, -1])
    torch.testing.assert_close(model.forward(ids, logits_at=rows), full[:, rows], atol=1e-5, rtol=0)
    chosen = torch.zeros(3, 9, dtype=torch.bool)
    chosen[0, [2, 8]], chosen[2, 5] = True, True
    picked = model.forward(ids, logits_at=chosen)
    expected = torch.stack([full[0, 2], full[0, 8], full[2, 5]])
    torch.testing.assert_close(picked, expected, atol=1e-5, rtol=0)
    assert model.forward(ids, logits_at=torch.zeros(3, 9, dtype=torch.bool)).shape == (0, model.vocab_size)
    torch.testing.assert_close(model.forward(ids), full, atol=0, rtol=0)  # and the hook is gone


@pytest.mark.parametrize("name", ["bert", "llama", "llada"])
def test_only_the_chosen_rows_reach_the_head(name, tiny_model):
    model = tiny_model(name)
    seen: list[int] = []
    last = model.module.get_output_embeddings()
    hook = last.register_forward_hook(lambda _, __, output: seen.append(output.shape[:-1].numel()))
    try:
        model.forward(_ids(2, 9), logits_at=torch.tensor([4]))
    finally:
        hook.remove()
    assert seen == [2]


def test_direction(any_name, tiny_model):
    """The last token reaches row 0 of an MDM and of no ARM."""
    model, ids = tiny_model(any_name), _ids(1, 8)
    other = ids.clone()
    other[0, -1] = (ids[0, -1] + 7) % 80
    change = (model.forward(ids) - model.forward(other)).abs().amax(dim=-1)[0]
    if model.kind == "mdm":
        assert change[0] > 1e-3
    else:
        assert change[:-1].max() == 0
        assert change[-1] > 1e-3


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_on_either_side_changes_no_real_token(any_name, side, tiny_model):
    model, ids = tiny_model(any_name), _ids(2, 10)
    lengths = (10, 6)
    mask = torch.zeros(2, 10, dtype=torch.long)
    padded = torch.full((2, 10), 1)
    spans = [slice(10 - n, 10) if side == "left" else slice(0, n) for n in lengths]
    for row, (span, n) in enumerate(zip(spans, lengths, strict=True)):
        padded[row, span], mask[row, span] = ids[row, :n], 1
    for given in (mask, mask.bool()):
        logits = model.forward(padded, given)
        for row, (span, n) in enumerate(zip(spans, lengths, strict=True)):
            alone = model.forward(ids[row : row + 1, :n])[0]
            torch.testing.assert_close(logits[row, span], alone, atol=1e-5, rtol=0)


def test_a_cache_gives_the_logits_of_a_full_pass(arm_name, tiny_model):
    model, ids = tiny_model(arm_name), _ids(2, 12)
    full = model.forward(ids)
    cache = model.new_cache()
    first = model.forward(ids[:, :5], cache=cache)
    steps = [model.forward(ids[:, i : i + 1], cache=cache, logits_at=torch.tensor([0])) for i in range(5, 12)]
    torch.testing.assert_close(torch.cat([first, *steps], dim=1), full, atol=1e-5, rtol=0)
    assert cache.get_seq_length() == 12
    assert all(layer.keys.shape[-2] == 12 for layer in cache.layers)  # no key is dropped, windows or not


@pytest.mark.parametrize("name", ["llama", "gpt2", "mistral"])
def test_a_cache_with_left_padding(name, tiny_model):
    model, ids = tiny_model(name), _ids(2, 9)
    mask = torch.ones(2, 9, dtype=torch.long)
    mask[1, :3] = 0
    full = model.forward(ids, mask)
    cache = model.new_cache()
    model.forward(ids[:, :6], mask[:, :6], cache=cache)
    rest = [model.forward(ids[:, i : i + 1], mask[:, : i + 1], cache=cache) for i in range(6, 9)]
    torch.testing.assert_close(torch.cat(rest, dim=1), full[:, 6:], atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["llada", "dream", "gpt2", "roberta", "distilbert"])
def test_positions_can_be_given(name, tiny_model):
    model, ids = tiny_model(name), _ids(1, 6)
    counted = torch.arange(6)[None]
    torch.testing.assert_close(model.forward(ids, positions=counted), model.forward(ids), atol=0, rtol=0)
    stretched = model.forward(ids, positions=counted * 3)
    assert (stretched - model.forward(ids)).abs().max() > 1e-3


@pytest.mark.parametrize("name", ["gpt2", "llama", "mistral", "dream"])
def test_positions_with_gaps_are_still_one_sequence(name, tiny_model):
    """transformers takes a gap in the positions for the seam of two packed sequences, unless told otherwise."""
    model, ids = tiny_model(name), _ids(1, 4)
    gaps = torch.tensor([[0, 2, 5, 9]])
    other = ids.clone()
    other[0, 0] = (ids[0, 0] + 7) % 80
    change = model.forward(ids, positions=gaps) - model.forward(other, positions=gaps)
    assert change[0, -1].abs().max() > 1e-3


def test_rows_that_decide(tiny_model):
    assert [tiny_model("llada").row_of(i) for i in (0, 1, 5)] == [0, 1, 5]
    assert [tiny_model("dream").row_of(i) for i in (0, 1, 5)] == [0, 0, 4]
    assert [tiny_model("llama").row_of(i) for i in (1, 5)] == [0, 4]
    with pytest.raises(FloatlensError, match="always given"):
        tiny_model("llama").row_of(0)


class _Recorder:
    def __init__(self, fail: bool = False) -> None:
        self.seen: list[Pass | str] = []
        self.fail = fail

    def begin(self, info: Pass) -> None:
        self.seen.append(info)
        if self.fail:
            raise RuntimeError("observer")

    def end(self) -> None:
        self.seen.append("end")


def test_observers_are_told_of_every_observed_pass(tiny_model):
    model, recorder = tiny_model("llama"), _Recorder()
    ids, cache = _ids(1, 4), model.new_cache()
    model.observers.append(recorder)
    try:
        model.forward(ids, cache=cache)
        model.forward(ids[:, :2], torch.ones(1, 6), cache=cache)
        model.forward(ids, observed=False)
    finally:
        model.observers.remove(recorder)
    first, end, second, end_too = recorder.seen
    assert (end, end_too) == ("end", "end")
    assert (first.offset, first.attention_mask) == (0, None)
    assert torch.equal(first.ids, ids)
    assert (second.offset, tuple(second.attention_mask.shape)) == (4, (1, 6))


def test_observers_hear_the_end_when_the_module_or_an_observer_raises(tiny_model):
    model = tiny_model("llama")
    before, failing, never = _Recorder(), _Recorder(fail=True), _Recorder()
    model.observers.append(before)
    try:
        with pytest.raises(IndexError):
            model.forward(torch.tensor([[10_000]]))
        model.observers.extend([failing, never])
        with pytest.raises(RuntimeError, match="observer"):
            model.forward(_ids(1, 3))
    finally:
        model.observers.clear()
    assert [item for item in before.seen if item == "end"] == ["end", "end"]
    assert failing.seen[-1] == "end"
    assert never.seen == []


def test_the_row_hook_is_gone_after_a_failure(tiny_model):
    model = tiny_model("bert")
    with pytest.raises(IndexError):
        model.forward(torch.tensor([[10_000]]), logits_at=torch.tensor([0]))
    assert model.forward(_ids(1, 5)).shape[1] == 5


def test_logits_carry_no_gradient_and_the_module_is_in_eval_mode(any_name, tiny_model):
    model = tiny_model(any_name)
    assert not model.module.training
    assert not any(parameter.requires_grad for parameter in model.module.parameters())
    assert not model.forward(_ids(1, 3)).requires_grad
    assert model.module.config._attn_implementation == "sdpa"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, ids: m.forward(ids[0]), r"ids must be \(batch, query\)"),
        (lambda m, ids: m.forward(ids, torch.ones(2, 5)), r"attention_mask must be \(batch, key\) = \(2, 4\)"),
        (lambda m, ids: m.forward(ids, positions=torch.zeros(1, 4).long()), "positions must be"),
        (lambda m, ids: m.forward(ids, logits_at=torch.zeros(2, 4).long()), "logits_at must be"),
        (lambda m, ids: m.forward(ids, logits_at=torch.zeros(4, dtype=torch.bool)), "logits_at must be"),
        (lambda m, ids: m.new_cache(), "no use for a key/value cache"),
        (lambda m, ids: m.forward(ids, cache=object()), "cannot use a key/value cache"),
    ],
)
def test_wrong_calls_say_what_is_wrong(call, message, tiny_model):
    with pytest.raises(FloatlensError, match=message):
        call(tiny_model("llada"), _ids(2, 4))


@pytest.mark.parametrize(("name", "limit"), [("bert", 40), ("roberta", 38), ("gpt2", 64)])
def test_a_position_table_has_an_end(name, limit, tiny_model):
    model = tiny_model(name)
    assert model.max_length == limit
    assert model.forward(_ids(1, limit), logits_at=torch.tensor([-1])).shape == (1, 1, model.vocab_size)
    with pytest.raises(FloatlensError, match=f"has {limit} positions and was given a sequence that needs {limit + 1}"):
        model.forward(_ids(1, limit + 1))


def test_facts_of_the_configuration(any_name, tiny_model):
    model = tiny_model(any_name)
    assert (model.num_layers, model.num_heads) == (3, 4)
    grouped = any_name not in ("albert", "bert", "distilbert", "electra", "modernbert", "roberta", "gpt2", "llada")
    assert model.num_kv_heads == (2 if grouped else 4)
    assert model.head_dim == (16 if any_name in ("llada", "dream") else 8)
    assert model.vocab_size == (160 if any_name in ("llada", "dream") else 96)
    assert (model.device.type, model.dtype) == ("cpu", torch.float32)
    assert model.shift == (model.kind == "arm" or any_name == "dream")
    assert (model.mask_id is not None) == (model.kind == "mdm")
