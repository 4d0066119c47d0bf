"""Bounded memory: no (query, key) matrix of any head is made on the way, and long runs go to a file unchanged."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from floatlens import trace
from floatlens.attention import recorder
from floatlens.attention.recorder import StepStore
from floatlens.attention.softmax import Workspace
from floatlens.core.errors import FloatlensError
from floatlens.models.base import LanguageModel
from shared.capture import capture

LENGTH, HEADS = 600, 4
PROBES = ("received", "entropy", "flow", "answer_rows", "rollout", "qk", "extremes")


class Largest(TorchDispatchMode):
    """The largest storage that any operation returned, and by which operation."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes, self.by = 0, ""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, tuple | list) else (out,):
            if isinstance(tensor, Tensor) and tensor.untyped_storage().nbytes() > self.bytes:
                self.bytes, self.by = tensor.untyped_storage().nbytes(), f"{func} {tuple(tensor.shape)}"
        return out


def small_model(kind: str) -> LanguageModel:
    """A vocabulary and width so small that every tensor that grows with the length alone is far below length²."""
    import transformers

    sizes = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2}
    sizes |= {"num_attention_heads": HEADS, "max_position_embeddings": 1024}
    torch.manual_seed(0)
    if kind == "modernbert":
        config = transformers.ModernBertConfig(**sizes, local_attention=32, pad_token_id=0)
        module: Any = transformers.ModernBertForMaskedLM(config)
        return LanguageModel(module, "masked-lm", "mdm", kind, False, mask_id=60, max_length=1024)
    if kind == "mistral":
        config = transformers.MistralConfig(**sizes, num_key_value_heads=2, sliding_window=64)
        return LanguageModel(transformers.MistralForCausalLM(config), "causal", "arm", kind, True, max_length=1024)
    config = transformers.LlamaConfig(**sizes, num_key_value_heads=2, is_causal=kind == "causal")
    module = transformers.LlamaForCausalLM(config)
    if kind == "causal":
        return LanguageModel(module, "causal", "arm", kind, True, max_length=1024)
    return LanguageModel(module, "a2d-llama", "mdm", kind, False, mask_id=60, max_length=1024)


@pytest.mark.parametrize(
    ("kind", "side"), [("full", None), ("full", "left"), ("causal", None), ("mistral", "left"), ("modernbert", None)]
)
def test_no_matrix_of_queries_and_keys(
    kind: str, side: str | None, draw: Callable[..., Tensor], padded: Callable[..., Tensor], kernel: str
) -> None:
    """Not even of one head: what torch makes stays under length² floats, what Python holds under length² bytes × 2."""
    model, ids = small_model(kind), draw(1, LENGTH)
    if model.kind == "mdm":
        ids[:, -64:] = 60
    mask = None if side is None else padded(LENGTH, [30], side)
    workspace = Workspace(1 << 18, kernel=kernel)
    rows = torch.arange(LENGTH - 8, LENGTH)
    with capture(model, PROBES, steps=1, length=LENGTH, workspace=workspace) as found:
        model.forward(ids[:, :20])  # compile, warm up
    with capture(model, PROBES, steps=1, length=LENGTH, workspace=workspace) as found, Largest() as largest:
        tracemalloc.start()
        model.forward(ids, mask, logits_at=rows)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert found.passes == 1
    assert 0 < largest.bytes < 4 * LENGTH * LENGTH, largest.by
    assert peak < 2 * LENGTH * LENGTH
    assert len(found.variables["received"]) == 1


def test_eager_attention_would_be_noticed(draw: Callable[..., Tensor]) -> None:
    """The measure above sees a matrix when there is one."""
    model = small_model("full")
    model.module.set_attn_implementation("eager")
    with Largest() as largest:
        model.forward(draw(1, LENGTH))
    assert largest.bytes >= 4 * HEADS * LENGTH * LENGTH


def test_a_store_is_the_same_in_memory_and_in_a_file() -> None:
    random = np.random.default_rng(0)
    arrays = [random.normal(size=(2, 3, 4)).astype(np.float32) for _ in range(7)]
    arrays[3][:] = np.nan
    for budget in (0, 1, arrays[0].nbytes, 3 * arrays[0].nbytes, 1 << 20):
        store = StepStore(budget)
        for array in arrays:
            store.append(array)
        assert len(store) == 7
        stacked = store.stack()
        assert stacked.dtype == np.float32
        assert np.array_equal(stacked, np.stack(arrays), equal_nan=True)
        assert isinstance(stacked, np.memmap) == (budget < 7 * arrays[0].nbytes)
        store.append(arrays[0])  # and it goes on after a look
        assert np.array_equal(store.stack()[7], arrays[0])


@pytest.mark.parametrize("budget", [0, 1 << 20])
def test_arrays_of_other_shapes_are_refused(budget: int) -> None:
    """In a file they would be read back as garbage."""
    store = StepStore(budget)
    store.append(np.zeros((1, 3, 4), dtype=np.float32))
    with pytest.raises(FloatlensError, match="length="):
        store.append(np.zeros((1, 3, 5), dtype=np.float32))
    assert store.stack().shape == (1, 1, 3, 4)


@pytest.mark.parametrize("name", ["llada", "qwen2"])
def test_a_spilled_trace_is_the_same_trace(
    name: str, tiny_model: Callable[[str], LanguageModel], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    from floatlens import open_trace

    settings: dict[str, Any] = {"prompt_ids": [5, 6, 7, 8], "gen_length": 4, "probes": PROBES}
    held = trace(tiny_model(name), **settings)
    files: list[Any] = []
    temporary = recorder.tempfile.TemporaryFile

    def note(*args: Any, **kwargs: Any) -> Any:
        files.append(temporary(*args, **kwargs))
        return files[-1]

    monkeypatch.setattr(recorder, "StepStore", lambda budget: StepStore(100))
    monkeypatch.setattr(recorder.tempfile, "TemporaryFile", note)
    spilled = trace(tiny_model(name), **settings)
    assert len(files) >= 10
    assert spilled.data.identical(held.data)
    assert open_trace(spilled.save(tmp_path / "spilled")).data.identical(open_trace(held.save(tmp_path / "held")).data)


def test_statistics_grow_with_the_length_not_its_square(draw: Callable[..., Tensor]) -> None:
    """Twice the length: at most about twice the memory kept per step."""
    model = small_model("full")
    kept = []
    for length in (128, 256):
        with capture(model, PROBES, steps=1) as found:
            model.forward(draw(1, length))
        kept.append(sum(store.stack().nbytes for store in found.variables.values()))
    assert kept[0] < kept[1] <= 2 * kept[0]
