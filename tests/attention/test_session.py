"""`capture` as a context: what it leaves behind (nothing), whatever happens inside."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from floatlens import trace
from floatlens.attention.edit import Edit
from floatlens.attention.probe import Layer, Mean
from floatlens.attention.select import Select
from floatlens.core.errors import FloatlensError
from floatlens.models.base import LanguageModel
from floatlens.probes import Matrix, Received
from shared.capture import capture

PROBES = ("received", "entropy", "flow", "answer_rows", "rollout", "qk", "extremes")


def fingerprint(model: LanguageModel) -> dict[str, Any]:
    """Everything about a model that a capture could forget to put back."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_forward_hooks_with_kwargs")
    return {
        "config": model.module.config.to_dict(),
        "implementation": [
            part.config._attn_implementation for part in model.module.modules() if hasattr(part, "config")
        ],
        "hooks": {name: [len(getattr(m, h)) for h in hooks] for name, m in model.module.named_modules()},
        "attributes": {name: sorted(vars(m)) for name, m in model.module.named_modules()},
        "forward": {name: type(m).forward for name, m in model.module.named_modules()},
        "observers": list(model.observers),
        "training": model.module.training,
    }


class BoomError(Exception):
    pass


class Failing(Received):
    """Raises in the second layer of the first pass."""

    def layer(self, layer: Layer) -> Mapping[str, Tensor | Mean]:
        if layer.index == 1:
            raise BoomError
        return super().layer(layer)


class FailingEdit(Edit):
    edits_weights = True

    def weights(self, site: Any, weights: Tensor) -> Tensor | None:
        raise BoomError


def test_restored_after_a_normal_end(
    any_name: str, tiny_model: Callable[[str], LanguageModel], draw: Callable[..., Tensor]
) -> None:
    model, ids = tiny_model(any_name), draw(1, 7)
    before, plain = fingerprint(model), model.forward(ids)
    with capture(model, PROBES):
        inside = fingerprint(model)
        model.forward(ids)
    assert inside["implementation"] != before["implementation"]
    assert inside["hooks"] != before["hooks"]
    assert fingerprint(model) == before
    assert torch.equal(model.forward(ids), plain)


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_the_attention_that_was_there_comes_back(
    implementation: str, tiny_model: Callable[[str], LanguageModel], draw: Callable[..., Tensor]
) -> None:
    model = tiny_model("qwen2")
    model.module.set_attn_implementation(implementation)
    try:
        with capture(model, ["received"]):
            model.forward(draw(1, 5))
        assert model.module.config._attn_implementation == implementation
    finally:
        model.module.set_attn_implementation("sdpa")


@pytest.mark.parametrize("error", [BoomError, KeyboardInterrupt, GeneratorExit, SystemExit])
def test_restored_after_an_exception_inside(
    error: type[BaseException], tiny_model: Callable[[str], LanguageModel], draw: Callable[..., Tensor]
) -> None:
    model = tiny_model("llama")
    before = fingerprint(model)

    def fail() -> None:
        with capture(model, PROBES):
            model.forward(draw(1, 5))
            raise error

    with pytest.raises(error):
        fail()
    assert fingerprint(model) == before


@pytest.mark.parametrize("name", ["llada", "albert", "llama"])
def test_restored_when_a_probe_an_edit_or_a_layer_fails(
    name: str, tiny_model: Callable[[str], LanguageModel], draw: Callable[..., Tensor]
) -> None:
    model, ids = tiny_model(name), draw(1, 5)
    before = fingerprint(model)
    with pytest.raises(BoomError), capture(model, [Failing(), "extremes"]):
        model.forward(ids)
    assert fingerprint(model) == before
    with pytest.raises(BoomError), capture(model, ["received"], edits=[FailingEdit()]):
        model.forward(ids)
    assert fingerprint(model) == before

    def refuse(*_: Any) -> None:
        raise BoomError

    hook = model.module.get_output_embeddings().register_forward_hook(refuse)
    try:
        with_hook = fingerprint(model)
        with pytest.raises(BoomError), capture(model, PROBES):
            model.forward(ids)
        assert fingerprint(model) == with_hook
    finally:
        hook.remove()
    with capture(model, ["received"]) as recorder:
        model.forward(ids)
    assert recorder.passes == 1


def test_restored_when_decoding_fails(
    tiny_model: Callable[[str], LanguageModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through `trace`, in the middle of a run."""
    model = tiny_model("llada")
    before, calls = fingerprint(model), []
    forward = model.forward

    def failing(*args: Any, **kwargs: Any) -> Tensor:
        calls.append(1)
        if len(calls) == 3:
            raise BoomError
        return forward(*args, **kwargs)

    monkeypatch.setattr(model, "forward", failing)
    with pytest.raises(BoomError):
        trace(model, prompt_ids=[5, 6, 7], gen_length=4, steps=4)
    monkeypatch.undo()
    assert fingerprint(model) == before
    assert trace(model, prompt_ids=[5, 6, 7], gen_length=4, steps=4).data.sizes["step"] == 4


def test_nothing_is_touched_when_the_arguments_are_wrong(tiny_model: Callable[[str], LanguageModel]) -> None:
    model = tiny_model("llama")
    before = fingerprint(model)
    wrong: list[dict[str, Any]] = [
        {"probes": ["recieved"]},
        {"probes": ["received", Received()]},
        {"probes": [Matrix()], "steps": 1000, "length": 600},
        {"select": Select(layers=[3])},
        {"select": Select(heads=[-5])},
        {"select": Select(steps=[4]), "steps": 4},
    ]
    for arguments in wrong:
        with pytest.raises(FloatlensError), capture(model, **arguments):
            raise AssertionError("the body must not run")
        assert fingerprint(model) == before


def test_capturing_twice_is_refused_and_leaves_the_first_alone(
    tiny_model: Callable[[str], LanguageModel], draw: Callable[..., Tensor]
) -> None:
    model, ids = tiny_model("llama"), draw(1, 5)
    twin = LanguageModel(model.module, "causal", "arm", "the same weights under another name", True)
    before = fingerprint(model)
    with capture(model, ["received"]) as recorder:
        for again in (model, twin):
            with pytest.raises(FloatlensError, match="is being captured already"), capture(again, ["entropy"]):
                raise AssertionError("the body must not run")
        model.forward(ids)
    assert len(recorder.variables["received"]) == 1
    assert fingerprint(model) == before
    with capture(model, ["entropy"]):
        pass


def test_two_models_at_once(tiny_model: Callable[[str], LanguageModel], draw: Callable[..., Tensor]) -> None:
    """Interleaved passes of an MDM and an ARM with a cache; each sees only itself, in either order of leaving."""
    mdm, arm = tiny_model("llada"), tiny_model("llama")
    ids = draw(1, 8)

    def alone(model: LanguageModel, pieces: list[Tensor]) -> Any:
        with capture(model, PROBES, length=8) as recorder:
            cache = model.new_cache() if model.kind == "arm" else None
            for piece in pieces:
                model.forward(piece, cache=cache)
        return recorder

    expected = {"mdm": alone(mdm, [ids, ids.flip(1)]), "arm": alone(arm, [ids[:, :6], ids[:, 6:]])}
    outer, inner = capture(mdm, PROBES, length=8), capture(arm, PROBES, length=8)
    found = {"mdm": outer.__enter__(), "arm": inner.__enter__()}
    cache = arm.new_cache()
    mdm.forward(ids)
    arm.forward(ids[:, :6], cache=cache)
    mdm.forward(ids.flip(1))
    outer.__exit__(None, None, None)
    arm.forward(ids[:, 6:], cache=cache)
    inner.__exit__(None, None, None)
    for name, recorder in found.items():
        assert recorder.passes == 2
        for variable, store in recorder.variables.items():
            assert np.array_equal(store.stack(), expected[name].variables[variable].stack(), equal_nan=True), variable


@pytest.fixture(scope="module")
def fresh() -> dict[str, Any]:
    """What a fresh interpreter, told to use one thread, finds before and after importing and using floatlens."""
    code = """
import json, torch
from torch.nn.modules import module
from transformers import AttentionInterface, AttentionMaskInterface
torch.set_num_threads(1)
def look():
    tables = [sorted(t._global_mapping) for t in (AttentionInterface, AttentionMaskInterface)]
    hooks = [len(getattr(module, h)) for h in ("_global_forward_hooks", "_global_forward_pre_hooks")]
    return {"tables": tables, "hooks": hooks, "threads": torch.get_num_threads()}
found = {"before": look()}
import floatlens, floatlens.attention.softmax, floatlens.traces.tracing, floatlens.attention.session, floatlens.models
for name in floatlens.__all__:
    getattr(floatlens, name)
found["imported"] = look()
floatlens.attention.softmax.Workspace()
found["used"] = look()
print(json.dumps(found))
"""
    ran = subprocess.run([sys.executable, "-c", code], check=True, timeout=300, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def test_importing_registers_nothing(fresh: dict[str, Any]) -> None:
    """transformers' tables of attention and mask functions, torch's global hooks and number of threads."""
    assert "sdpa" in fresh["before"]["tables"][0]
    assert fresh["imported"] == fresh["before"]


def test_capture_leaves_torchs_threads_alone(fresh: dict[str, Any]) -> None:
    pytest.importorskip("numba")
    assert fresh["used"]["threads"] == fresh["before"]["threads"] == 1


def test_transformers_own_functions_stay(tiny_model: Callable[[str], LanguageModel]) -> None:
    """A capture adds its own name to the tables and changes no other."""
    from transformers import AttentionInterface, AttentionMaskInterface

    def tables() -> list[dict[str, Any]]:
        return [dict(t._global_mapping) for t in (AttentionInterface, AttentionMaskInterface)]

    before = tables()
    with capture(tiny_model("llama")):
        inside = tables()
    for was, now in zip(before, inside, strict=True):
        assert {name: now[name] for name in was} == was
        assert {name for name in now if name not in was} <= {"floatlens_streamed"}


def test_a_model_left_in_streamed_attention_says_so(
    tiny_model: Callable[[str], LanguageModel], draw: Callable[..., Tensor]
) -> None:
    """Whoever sets our attention function by its name gets a message, not a wrong answer."""
    model = tiny_model("llama")
    with capture(model):
        pass
    model.module.set_attn_implementation("floatlens_streamed")
    try:
        with pytest.raises(FloatlensError, match="outside a capture"):
            model.forward(draw(1, 4))
    finally:
        model.module.set_attn_implementation("sdpa")


def test_a_model_without_recognisable_layers_cannot_give_residuals(
    tiny_model: Callable[[str], LanguageModel], draw: Callable[..., Tensor]
) -> None:
    from floatlens.models.readout import layers_of

    with pytest.raises(FloatlensError, match="leave out the probes extremes and lens"):
        layers_of(nn.Sequential(nn.Linear(2, 2)))
    for name in ("gpt2", "albert", "distilbert", "modernbert"):
        module = tiny_model(name).module
        assert len(layers_of(module)) == (1 if name == "albert" else 3)


def test_passes_outside_of_forward_are_exact_but_not_recorded(
    tiny_model: Callable[[str], LanguageModel], draw: Callable[..., Tensor]
) -> None:
    """Calling the module by hand announces no pass; the answer is right, and no step is made up."""
    model, ids = tiny_model("llama"), draw(1, 6)
    with torch.no_grad():
        plain = model.module(ids).logits
        with capture(model, ["received", "extremes"]) as recorder:
            assert (model.module(ids).logits - plain).abs().max() <= 1e-5
    assert recorder.passes == 0


def test_passes_by_hand_after_observed_ones(
    tiny_model: Callable[[str], LanguageModel], draw: Callable[..., Tensor]
) -> None:
    model, ids = tiny_model("llama"), draw(1, 6)
    with torch.no_grad(), capture(model, ["received"]):
        assert (model.forward(ids) - model.module(ids).logits).abs().max() <= 1e-5


@pytest.mark.parametrize("kind", ["bool", "additive"])
def test_a_4d_mask_of_the_callers(
    kind: str, tiny_model: Callable[[str], LanguageModel], draw: Callable[..., Tensor]
) -> None:
    """A block-diagonal mask, handed to the module itself, is obeyed."""
    model, ids = tiny_model("a2d-llama"), draw(1, 6)
    seen = torch.zeros(1, 1, 6, 6, dtype=torch.bool)
    seen[..., :3, :3] = seen[..., 3:, 3:] = True
    mask = seen if kind == "bool" else torch.zeros(1, 1, 6, 6).masked_fill(~seen, torch.finfo(torch.float32).min)
    with torch.no_grad():
        plain = model.module(ids, attention_mask=mask).logits
        with capture(model):
            ours = model.module(ids, attention_mask=mask).logits
        free = model.module(ids).logits
    assert (ours - plain).abs().max() <= 1e-5
    assert (free - plain).abs().max() > 1e-3


def test_probe_instances_can_be_used_again(tiny_model: Callable[[str], LanguageModel]) -> None:
    """A second run with the same instances, on another model, holds nothing of the first."""
    probes: list[Any] = [Matrix(Select(layers=0, steps=0)), *PROBES]
    trace(tiny_model("llada"), prompt_ids=[5, 6, 7, 8, 9], probes=probes, gen_length=6, steps=3)
    again = trace(tiny_model("llama"), prompt_ids=[5, 6, 7], probes=probes, gen_length=2).data
    fresh = trace(
        tiny_model("llama"), prompt_ids=[5, 6, 7], probes=[Matrix(Select(layers=0, steps=0)), *PROBES], gen_length=2
    ).data
    assert again.identical(fresh)


def test_probes_are_named_once_and_known() -> None:
    from floatlens.probes import PROBES, make_probes

    known = {"received", "entropy", "flow", "answer_rows", "rollout", "qk", "extremes", "lens", "matrix"}
    known |= {"contribution", "contribution_rows", "contribution_rollout", "smoothing", "cacheability"}
    assert set(PROBES) == known
    assert [probe.name for probe in make_probes(["qk", Received()])] == ["qk", "received"]
    with pytest.raises(FloatlensError, match='no probe "recieved"; did you mean "received"'):
        make_probes(["recieved"])
    with pytest.raises(FloatlensError, match=r'no probe "zzz"; known: .*matrix'):
        make_probes(["zzz"])
    for twice in (["qk", "qk"], ["received", Received()], [Matrix(), Matrix()]):
        with pytest.raises(FloatlensError, match="is given twice"):
            make_probes(twice)
