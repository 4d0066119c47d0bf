"""The host never waits for the device inside a layer, and fetches what a step found in one copy."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode, resolve_name

from floatlens.attention import host
from floatlens.attention.host import to_host
from floatlens.attention.session import Session
from floatlens.attention.softmax import Workspace
from floatlens.models.base import LanguageModel
from floatlens.probes.lens import Lens
from shared.capture import capture

PROBES = ["received", "entropy", "flow", "answer_rows", "rollout", "qk", "extremes", "lens", "contribution"]
PROBES += ["contribution_rows"]
BY_ROWS = [*PROBES, "contribution_rollout"]
WAITING = {"item", "tolist", "numpy", "cpu", "nonzero", "__bool__", "__int__", "__float__", "__index__", "__array__"}


class _Watch(TorchFunctionMode):
    """Counts calls that make the host wait: reads of a tensor, and copies between devices (on a GPU they would be)."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = (resolve_name(func) or getattr(func, "__name__", "")).rsplit(".", 1)[-1]
        moved = name == "to" and any(isinstance(one, torch.device) for one in (*args, *(kwargs or {}).values()))
        if moved and "masking_utils" in sys._getframe(1).f_code.co_filename:
            moved = False  # transformers' rules of masks join tensors that were all made on one device
        made = name in ("from_numpy", "tensor", "as_tensor")
        if name in WAITING or moved or made:
            self.found[name] += 1
        return func(*args, **(kwargs or {}))


@pytest.fixture
def layers(monkeypatch: pytest.MonkeyPatch) -> list[Counter[str]]:
    """What was called inside each layer's attention."""
    found: list[Counter[str]] = []
    original = Session.attention

    def watched(self: Session, *args: Any) -> Tensor:
        with _Watch() as watch:
            out = original(self, *args)
        found.append(watch.found)
        return out

    monkeypatch.setattr(Session, "attention", watched)
    return found


def test_the_watch_sees_what_waits() -> None:
    one = torch.tensor([1.0, 2.0])
    with _Watch() as watch:
        bool((one > 1).any())
        one.sum().item()
        one.cpu()
        one.to(torch.device("cpu"))
        one.float().mean()
    assert watch.found == {"__bool__": 1, "item": 1, "cpu": 1, "to": 1}


@pytest.mark.parametrize("backend", ["rows", "fused"])
@pytest.mark.parametrize("name", ["llada", "llama", "a2d-llama", "mistral"])
def test_no_layer_waits(
    name: str,
    backend: str,
    layers: list[Counter[str]],
    tiny_model: Callable[[str], LanguageModel],
    draw: Callable[..., Tensor],
    padded: Callable[..., Tensor],
) -> None:
    """After the first, in which what belongs to the whole pass is moved to the device once."""
    model = tiny_model(name)
    ids = draw(2, 24, mask_id=model.mask_id, masked=6)
    given: dict[str, Any] = {"workspace": Workspace(kernel="torch"), "backend": backend}
    with capture(model, PROBES if backend == "fused" else BY_ROWS, steps=2, **given) as recorder:
        model.forward(ids, padded(24, [0, 5], "left"))
    assert len(layers) == model.num_layers == len(recorder.layers)
    assert layers[1:] == [Counter()] * (model.num_layers - 1)


@contextmanager
def _far(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Treat every tensor as if it lay on another device."""
    copies: Counter[str] = Counter()
    plain = host._landed

    def counted(flat: Tensor) -> Any:
        copies[str(flat.dtype)] += 1
        return plain(flat)

    monkeypatch.setattr(host, "_is_local", lambda _: False)
    monkeypatch.setattr(host, "_landed", counted)
    yield copies
    monkeypatch.undo()


def test_a_step_is_one_copy(
    tiny_model: Callable[[str], LanguageModel], draw: Callable[..., Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_model("llada")
    ids, probes = draw(2, 24, mask_id=model.mask_id, masked=6), BY_ROWS
    with capture(model, probes, steps=2) as near:
        model.forward(ids)
        model.forward(ids)
    with _far(monkeypatch) as copies, capture(model, probes, steps=2) as far:
        model.forward(ids)
        model.forward(ids)
    assert copies == {"torch.uint8": 2}
    for name, store in near.variables.items():
        if len(store):
            assert np.array_equal(store.stack(), far.variables[name].stack(), equal_nan=True), name
    for here, there in zip(near.probes, far.probes, strict=True):
        for layer in range(model.num_layers):
            one, other = (probe.deciding_row(layer, 1, 18) for probe in (here, there))
            assert one.keys() == other.keys()
            assert all(np.array_equal(one[name], other[name], equal_nan=True) for name in one)


def test_the_lens_keeps_bfloat16() -> None:
    """numpy has no such type, so its bits make the journey."""
    lens, states = Lens(), torch.tensor([[1.5, -2.0]], dtype=torch.bfloat16)
    lens._fresh = {(3, 0): states}
    lens.fetched(to_host(lens.kept()))
    assert lens._states[3][0].dtype == torch.bfloat16
    assert torch.equal(lens._states[3][0], states)


def test_packed_tensors_keep_shape_and_dtype(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"a": torch.arange(6.0).view(2, 3).T, "b": torch.tensor([3, 4]), "c": torch.tensor(5.0), "d": torch.ones(0)}
    with _far(monkeypatch) as copies:
        found = to_host(given)
    assert list(found) == list(given)
    assert copies == {"torch.uint8": 1}
    for name, one in given.items():
        assert np.array_equal(found[name], one.numpy())
        assert found[name].shape == tuple(one.shape)
        assert found[name].dtype == one.numpy().dtype
