"""Which layers, heads and steps are kept, and that keeping fewer changes none of the numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from floatlens import Select, trace
from floatlens.core.errors import FloatlensError
from floatlens.models.base import LanguageModel
from floatlens.probes import QK, Matrix
from shared.capture import capture

PROBES = ("received", "entropy", "flow", "qk", "extremes", "answer_rows")


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (None, (0, 1, 2, 3, 4)),
        (0, (0,)),
        (-1, (4,)),
        ([3, 1], (1, 3)),
        ([4, -1, -5, 0], (0, 4)),
        (range(0, 5, 2), (0, 2, 4)),
        ({2}, (2,)),
        ((), ()),
        (np.array([1, -1]), (1, 4)),
        (np.int64(3), (3,)),
        (slice(1, 3), (1, 2)),
        (slice(-2, None), (3, 4)),
        (slice(None, None, -2), (0, 2, 4)),
        (slice(3, 99), (3, 4)),
        (slice(9, 12), ()),
    ],
    ids=str,
)
def test_indices(wanted: Any, expected: tuple[int, ...]) -> None:
    assert tuple(sorted(Select(layers=wanted).layer_ids(5))) == expected
    assert tuple(sorted(Select(heads=wanted).head_ids(5))) == expected
    assert tuple(sorted(Select(steps=wanted).step_ids(5))) == expected
    assert tuple(step for step in range(7) if Select(steps=wanted).has_step(step, 5) and step < 5) == expected


@pytest.mark.parametrize("wanted", [5, -6, [0, 5], range(3, 8), np.array([9])], ids=str)
def test_indices_outside_are_an_error_that_says_what_there_is(wanted: Any) -> None:
    for what, pick in (("layers", "layer_ids"), ("heads", "head_ids"), ("steps", "step_ids")):
        with pytest.raises(FloatlensError, match=rf"^{what[:-1]} -?\d is outside 0\.\.4"):
            getattr(Select(**{what: wanted}), pick)(5)


@pytest.mark.parametrize("wanted", ["1", [0.5], 1.5, ["a"]], ids=str)
def test_what_is_no_index_is_an_error(wanted: Any) -> None:
    with pytest.raises(FloatlensError, match=r"layers=.*: give a whole number"):
        Select(layers=wanted).layer_ids(5)


@pytest.mark.parametrize("name", ["llada", "qwen2"])
@pytest.mark.parametrize(
    ("select", "layers", "heads", "steps"),
    [
        (Select(layers=[0, -1]), [0, 2], [0, 1, 2, 3], [0, 1, 2, 3]),
        (Select(heads=slice(1, 3)), [0, 1, 2], [1, 2], [0, 1, 2, 3]),
        (Select(steps=[-1, 0]), [0, 1, 2], [0, 1, 2, 3], [0, 3]),
        (Select(steps=slice(1, None, 2)), [0, 1, 2], [0, 1, 2, 3], [1, 3]),
        (Select(layers=1, heads=3, steps=2), [1], [3], [2]),
    ],
    ids=str,
)
def test_what_is_kept_is_what_would_have_been_kept(
    name: str,
    select: Select,
    layers: list[int],
    heads: list[int],
    steps: list[int],
    tiny_model: Callable[[str], LanguageModel],
) -> None:
    settings: dict[str, Any] = {"gen_length": 4} | ({"steps": 4} if name == "llada" else {})
    settings |= {"prompt_ids": [5, 9, 12, 33], "probes": PROBES}
    whole = trace(tiny_model(name), **settings).data
    some = trace(tiny_model(name), **settings, select=select).data
    kept = {"layer": layers, "head": heads, "step": steps}
    for dim, numbers in kept.items():
        assert some[dim].values.tolist() == numbers
    for variable in whole.data_vars:
        expected = whole[variable].sel({dim: kept[dim] for dim in kept if dim in whole[variable].dims})
        if str(variable).startswith("answer_"):
            told = np.isin(whole["token_step"].values, steps)
            expected = expected[told]
            assert np.array_equal(some[variable].values[told], expected.values, equal_nan=expected.dtype.kind == "f")
            continue
        assert np.array_equal(some[variable].values, expected.values, equal_nan=expected.dtype.kind == "f"), variable


@pytest.mark.parametrize("name", ["dream", "qwen2"])
def test_mean_heads_is_the_mean_of_heads(name: str, tiny_model: Callable[[str], LanguageModel]) -> None:
    """Of every per-step variable, key/value heads included; answer rows keep their heads (a mean argmax is nothing)."""
    settings: dict[str, Any] = {"prompt_ids": [5, 9, 12, 33], "probes": PROBES, "gen_length": 3}
    whole = trace(tiny_model(name), **settings).data
    mean = trace(tiny_model(name), **settings, heads="mean").data
    assert set(mean.data_vars) == set(whole.data_vars)
    for variable in whole.data_vars:
        array = whole[variable]
        if str(variable).startswith("answer_"):
            assert np.array_equal(mean[variable].values, array.values, equal_nan=array.dtype.kind == "f")
            continue
        over = [dim for dim in ("head", "kv_head") if dim in array.dims]
        expected = array.mean(over, skipna=False) if over else array
        assert mean[variable].dims == expected.dims, variable
        scale = max(1.0, float(np.abs(np.nan_to_num(array.values)).max()))
        assert np.allclose(mean[variable].values, expected.values, atol=1e-6 * scale, rtol=0, equal_nan=True), variable
    some = trace(tiny_model(name), **settings, heads="mean", select=Select(heads=[0, 3])).data
    expected = whole["received"].sel(head=[0, 3]).mean("head")
    assert np.allclose(some["received"].values, expected.values, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("probe", [Matrix, lambda select, max_bytes: QK(heatmaps=select, max_bytes=max_bytes)])
def test_the_guard_on_whole_matrices(probe: Callable[..., Any], tiny_model: Callable[[str], LanguageModel]) -> None:
    """4 bytes × steps × layers × heads × length²; one byte less than that is refused, with the sum and the way out."""
    model = tiny_model("llama")
    need = 4 * 3 * 2 * 1 * 20**2
    select = Select(layers=[0, 2], heads=1, steps=range(3))
    with capture(model, [probe(select, need)], steps=5, length=20):
        pass
    with (
        pytest.raises(FloatlensError) as caught,
        capture(model, [probe(select, need - 1)], steps=5, length=20),
    ):
        raise AssertionError("the body must not run")
    message = str(caught.value)
    assert "3 steps × 2 layers × 1 heads × 20² positions" in message
    assert "Select(layers=…, heads=…, steps=…)" in message
    assert "\n" not in message


def test_the_guard_knows_the_size_of_a_trace(tiny_model: Callable[[str], LanguageModel]) -> None:
    """Through `trace` nothing has to be said about steps and length."""
    model = tiny_model("llada")
    with pytest.raises(FloatlensError, match=r'probe "matrix": 4 steps × 3 layers × 4 heads × 7² positions'):
        trace(model, prompt_ids=[5, 6, 7], gen_length=4, steps=4, probes=[Matrix(max_bytes=4 * 4 * 12 * 49 - 1)])
    data = trace(model, prompt_ids=[5, 6, 7], gen_length=4, steps=4, probes=[Matrix(max_bytes=4 * 4 * 12 * 49)]).data
    assert data["matrix"].shape == (4, 3, 4, 7, 7)


def test_a_guard_without_a_known_length_is_still_a_guard(
    tiny_model: Callable[[str], LanguageModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the caller nor the model says how long sequences are: the size is then known at the first pass."""
    import torch

    model = tiny_model("llama")
    monkeypatch.setattr(model, "max_length", None)
    with (
        pytest.raises(FloatlensError, match='probe "matrix"'),
        capture(model, [Matrix(Select(steps=0), max_bytes=1000)], steps=1),
    ):
        model.forward(torch.arange(5, 25)[None])


def test_pictures_of_chosen_places(tiny_model: Callable[[str], LanguageModel]) -> None:
    """Selectors of Matrix and QK are their own, beside the trace's, and come with their own coordinates."""
    settings: dict[str, Any] = {"prompt_ids": [5, 9, 12, 33], "gen_length": 4, "steps": 4}
    model = tiny_model("dream")
    whole = trace(model, **settings, probes=[Matrix(), QK(heatmaps=Select())]).data
    probes = [Matrix(Select(layers=[-1], heads=[0, 2], steps=[1, 3])), QK(heatmaps=Select(layers=0, heads=3, steps=2))]
    some = trace(model, **settings, probes=probes).data
    assert [some[f"matrix_{dim}"].values.tolist() for dim in ("step", "layer", "head")] == [[1, 3], [2], [0, 2]]
    assert [some[f"qk_matrix_{dim}"].values.tolist() for dim in ("step", "layer", "head")] == [[2], [0], [3]]
    assert np.array_equal(some["matrix"].values, whole["matrix"].values[[1, 3]][:, [2]][:, :, [0, 2]])
    assert np.array_equal(some["qk_matrix"].values, whole["qk_matrix"].values[[2]][:, [0]][:, :, [3]])
