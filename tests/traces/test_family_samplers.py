"""Samplers that replace tokens, draft them, or see no later mask: traces, edits, analyses and figures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

import floatlens as fl
from floatlens.analysis import ANALYSES, analyse
from floatlens.edits import DropAnchors
from floatlens.plots import FIGURES, describe_figures
from floatlens.probes import PROBES
from shared.block_models import QUESTION

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llada21": ("llada2", {"threshold": 0.5, "editing_threshold": 0.425, "max_post_steps": 2, "eos_id": 150}),
    "llada_var": ("illada", {"block_length": 4}),
    "llada": ("illada", {"block_length": 8}),
    "nemotron_ar": ("nemotron-ar", {"eos_token_id": 100}),
    "nemotron_linear_spec": ("nemotron-diffusion", {"eos_token_id": 100, "block_length": 4, "threshold": 0.2}),
}
PROBES_OF_ALL = [name for name in PROBES if name not in ("qk", "matrix")]
CACHED = ("llada21", "nemotron_ar", "nemotron_linear_spec")


@pytest.fixture(scope="module", params=CASES)
def case(
    request: pytest.FixtureRequest, block_model: Callable[[str], fl.LanguageModel]
) -> tuple[fl.LanguageModel, dict[str, Any], fl.Trace]:
    name, settings = CASES[request.param]
    model, how = block_model(name), {"sampler": request.param, "gen_length": 8, **settings}
    return model, how, fl.trace(model, **QUESTION, probes=PROBES_OF_ALL, **how)


def test_attention_is_shared_out_and_a_cache_changes_nothing(case: tuple[Any, dict[str, Any], fl.Trace]) -> None:
    model, how, trace = case
    received = trace.data["received"].values
    assert np.allclose(np.nansum(received, axis=-1), 1, atol=1e-4)
    decoding = trace.data.attrs["decoding"]
    prompt = torch.from_numpy(trace.data["final"].values[: decoding["prompt_length"]]).long()
    assert decoding["answer_ids"] == fl.decode(model, prompt, **how).answers()[0]
    if how["sampler"] in CACHED:
        full = fl.trace(model, **QUESTION, probes=PROBES_OF_ALL, **how, use_cache=False)
        for name, expected in full.data.data_vars.items():
            assert np.allclose(trace.data[name].values, expected.values, atol=3e-5, rtol=1e-4, equal_nan=True), name


def test_every_analysis_and_its_figures(case: tuple[Any, dict[str, Any], fl.Trace]) -> None:
    skipped: dict[str, str] = {}
    results = analyse([case[2]], [name for name in ANALYSES if name != "qk"], skipped=skipped)
    assert not skipped
    described = describe_figures(results, [name for name in FIGURES if FIGURES[name].needs[0] in results])
    assert not described.skipped
    assert len(described.figures) >= 7
    plt.close("all")


def test_an_edit_acts_in_every_step(case: tuple[Any, dict[str, Any], fl.Trace]) -> None:
    """One edited run is one run for the edit, also where tokens are replaced or drafts are taken back."""
    model, how, trace = case
    edited = fl.trace(model, **QUESTION, probes=["received"], edits=[DropAnchors(k=2)], **how)
    before, after = (one.data["received"].values[:3] for one in (trace, edited))  # from the second step on
    assert np.nanmax(np.abs(before - after)) > 1e-3
    same = fl.trace(model, **QUESTION, probes=["received"], edits=[DropAnchors(k=2, strength=0)], **how)
    assert same.data["final"].values.tolist() == trace.data["final"].values.tolist()
    with fl.edit(model, DropAnchors(k=2)):
        again = [fl.decode(model, [7, 33, 12, 98, 45], **how).sequence.tolist() for _ in range(2)]
    assert again[0] == again[1]


def test_patching_runs(case: tuple[Any, dict[str, Any], fl.Trace]) -> None:
    model, how, _ = case
    found = fl.patching(model, [7, 33, 12, 98, 45], [7, 33, 12, 77, 45], **how)
    assert found.data.sizes["layer"] == model.num_layers
