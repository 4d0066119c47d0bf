"""Block-diffusion models from end to end: decoding, traces with a cache, edits, analyses and figures."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest

import floatlens as fl
from floatlens import Select
from floatlens.analysis import ANALYSES, analyse
from floatlens.analysis.anchors import columns_of, head_mean
from floatlens.attention.softmax import Workspace
from floatlens.edits import AblateHeads, DropAnchors, FreezeLayers, PinAnchors, SinkToken
from floatlens.plots import FIGURES, describe_figures
from floatlens.probes import PROBES, QK, Matrix
from shared.block_models import ENDLESS, NAMES, QUESTION

Load = Callable[[str], fl.LanguageModel]
PROMPT = [7, 33, 12, 98, 45, 61, 20, 74, 9, 110, 57, 88, 31, 14, 129, 66, 23, 41, 95, 52, 80]
PROBES_OF_ALL = [name for name in PROBES if name not in ("qk", "matrix")]


def traced(model: fl.LanguageModel, **how: Any) -> fl.Trace:
    kept = Select(steps=[0, 3, 7])
    probes = [*PROBES_OF_ALL, Matrix(kept), QK(heatmaps=kept)]
    return fl.trace(model, **QUESTION, probes=probes, **endless(model), **how)


def endless(model: fl.LanguageModel) -> dict[str, Any]:
    return {"gen_length": 16, **ENDLESS[str(model.sampler)]}


slow = (pytest.mark.slow, pytest.mark.ci)
SOME_SLOW = [pytest.param("sdar"), *(pytest.param(name, marks=slow) for name in NAMES if name != "sdar")]


@pytest.fixture(scope="module", params=NAMES)
def case(request: pytest.FixtureRequest, block_model: Load) -> tuple[fl.LanguageModel, fl.Trace]:
    model = block_model(request.param)
    return model, traced(model)


def test_a_trace_with_a_cache_is_that_of_full_passes(case: tuple[fl.LanguageModel, fl.Trace]) -> None:
    model, trace = case
    full = traced(model, use_cache=False)
    assert (
        set(trace.data.data_vars) == set(full.data.data_vars) >= {"block_of", "matrix", "qk_matrix", "answer_rollout"}
    )
    for name, expected in full.data.data_vars.items():
        found = trace.data[name].values
        assert np.allclose(found, expected.values, atol=3e-5, rtol=1e-4, equal_nan=True), name
    steps = [int(np.count_nonzero(row >= 0)) for row in trace.data["sequence"].values]
    assert steps == sorted(steps)
    assert len(set(steps)) > 1  # it grows block by block


def test_recorded_steps_are_passes_over_the_sequence_so_far(case: tuple[fl.LanguageModel, fl.Trace]) -> None:
    """An explicit (query, key) mask, made from the trace, gives what was recorded."""
    model, trace = case
    import torch

    for step in (0, 7):
        here = trace.data["sequence"].values[step] >= 0
        ids = torch.from_numpy(trace.data["sequence"].values[step][here]).long()[None]
        of = trace.data["block_of"].values[step][here]
        seen = torch.from_numpy(of[None, :] <= of[:, None])
        with torch.inference_mode():
            model.module.set_attn_implementation("eager")
            found = model.module(
                ids,
                attention_mask=torch.where(seen, 0.0, -torch.inf)[None, None],
                position_ids=torch.arange(len(of))[None],
                output_attentions=True,
            ).attentions
            model.module.set_attn_implementation("sdpa")
        expected = torch.stack(found)[:, 0].mean(2).numpy()
        assert np.abs(trace.data["received"].values[step][..., here] - expected).max() <= 1e-5


def test_nulls_are_those_of_the_mask(case: tuple[fl.LanguageModel, fl.Trace]) -> None:
    _, trace = case
    share = head_mean(trace, "received").values
    columns = columns_of(trace, share, "all")
    for step, (ids, of) in enumerate(zip(trace.data["sequence"].values, trace.data["block_of"].values, strict=True)):
        mask = (of[None, :] <= of[:, None]) & (ids >= 0)[None, :] & (ids >= 0)[:, None]
        rows = mask[ids >= 0]
        dense = (rows / rows.sum(1, keepdims=True)).mean(0)
        assert np.allclose(columns.null[step, 0], dense, atol=1e-12)
        assert np.array_equal(columns.seen[step, 0], rows.sum(0))
        assert np.allclose(np.nansum(share[step], axis=-1), 1, atol=1e-4)


def test_every_analysis_and_its_figures(case: tuple[fl.LanguageModel, fl.Trace]) -> None:
    _, trace = case
    skipped: dict[str, str] = {}
    results = analyse([trace], list(ANALYSES), skipped=skipped)
    assert not skipped
    described = describe_figures(results, [name for name in FIGURES if FIGURES[name].needs[0] in ANALYSES])
    assert not described.skipped
    assert len(described.figures) >= 8
    fl.plot_anchors(trace, layer=1)
    fl.plot_qk_maps(fl.qk_maps(trace, layer=1, head=2, step=7))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = fl.plot_summary(results)
        figure.draw_without_rendering()
    plt.close("all")


EDITS: dict[str, Callable[[], Any]] = {
    "drop": lambda: DropAnchors(k=2),
    "drop answer": lambda: DropAnchors(k=2, rows="answer"),
    "drop control": lambda: DropAnchors(k=2).control(1),
    "drop mass": lambda: DropAnchors(k=2).control(1, "mass"),
    "pin": lambda: PinAnchors(k=2),
    "swap": lambda: PinAnchors(k=2).control(1),
    "zero": lambda: AblateHeads([(0, 1), (2, 3)]),
    "mean": lambda: AblateHeads([(0, 1), (2, 3)], mode="mean"),
    "uniform": lambda: AblateHeads([(0, 1), (2, 3)], mode="uniform"),
    "freeze": lambda: FreezeLayers(range(2), lambda ids: [token % 3 == 0 for token in ids]),
    "sink": lambda: SinkToken(logit=2.0),
}


@pytest.mark.parametrize("case", SOME_SLOW, indirect=True)
@pytest.mark.parametrize("edit", EDITS)
def test_edits_change_attention_and_no_row_sees_a_later_block(
    edit: str, case: tuple[fl.LanguageModel, fl.Trace]
) -> None:
    model, plain = case
    probes = ["received", Matrix(Select(steps=[0, 2]))]
    edited = fl.trace(model, **QUESTION, probes=probes, edits=[EDITS[edit]()], **endless(model))
    before, after = (one.data["received"].values[:3] for one in (plain, edited))  # some act from the second step on
    assert np.nanmax(np.abs(before - after)) > 1e-3
    for number, step in enumerate((0, 2)):
        of = edited.data["block_of"].values[step]
        rows = edited.data["matrix"].values[number]
        later = (of[None, :] > of[:, None]) & (of >= 0)[:, None]
        assert not rows[..., later].any()
    with fl.edit(model, EDITS[edit]()):  # edited passes are full ones, so a cache makes no difference
        ids = [
            fl.decode(model, PROMPT, use_cache=use, **endless(model) | {"gen_length": 8}).sequence.tolist()
            for use in (True, False)
        ]
    assert ids[0] == ids[1]


@pytest.mark.parametrize("edit", EDITS)
def test_edits_do_not_depend_on_how_rows_are_divided(edit: str, block_model: Load) -> None:
    """A block of rows may end before the keys that an edit has chosen."""
    model = block_model("sdar")
    found = []
    for rows in (256, 4):
        with fl.edit(model, EDITS[edit](), workspace=Workspace(rows=rows)):
            found.append(fl.decode(model, PROMPT, **endless(model) | {"gen_length": 8}).sequence.tolist())
    assert found[0] == found[1]


def test_an_edit_of_strength_0_changes_no_token(case: tuple[fl.LanguageModel, fl.Trace]) -> None:
    model, _ = case
    plain = fl.decode(model, PROMPT, gen_length=12).sequence
    with fl.edit(model, DropAnchors(k=2, strength=0)):
        assert fl.decode(model, PROMPT, gen_length=12).sequence.tolist() == plain.tolist()


def test_a_sample_gets_the_same_tokens_alone_and_in_any_batch(case: tuple[fl.LanguageModel, fl.Trace]) -> None:
    model, _ = case
    prompts = [PROMPT, PROMPT[:8], PROMPT[3:16], PROMPT[:5]]
    for how in ({}, {"temperature": 0.7, "seed": 3}):
        alone = [fl.decode(model, prompt, gen_length=12, **how).answers()[0] for prompt in prompts]
        for padding, use_cache in (("left", True), ("right", False)):
            batch = fl.decode(model, prompts, gen_length=12, padding=padding, use_cache=use_cache, **how)
            assert batch.answers() == alone


def test_a_forced_text_is_written_token_by_token(case: tuple[fl.LanguageModel, fl.Trace]) -> None:
    model, _ = case
    likelihoods = []
    for use_cache in (True, False):
        decoded = fl.decode(model, PROMPT, target_ids=PROMPT[:11], use_cache=use_cache)
        assert decoded.answers() == [PROMPT[:11]]
        assert len(decoded.steps) == 11
        likelihoods += decoded.log_likelihood()
    assert likelihoods[0] == pytest.approx(likelihoods[1], abs=1e-4)


def test_patching_uses_the_pass_that_decides_the_first_token(case: tuple[fl.LanguageModel, fl.Trace]) -> None:
    model, _ = case
    other = [*PROMPT[:4], 77, *PROMPT[5:]]
    found = fl.patching(model, PROMPT, other, gen_length=12)
    firsts = [fl.decode(model, prompt, gen_length=12).steps[0] for prompt in (PROMPT, other)]
    assert found.data.sizes["layer"] == model.num_layers
    assert all(len(step.token) for step in firsts)


def test_masks_in_the_prompt_are_refused(case: tuple[fl.LanguageModel, fl.Trace]) -> None:
    model, _ = case
    with pytest.raises(fl.FloatlensError, match="prompt 0 holds the mask token at position 2"):
        fl.decode(model, [5, 6, model.mask_id, 7], gen_length=8)


def test_samplers_for_blocks_count_whole_blocks_against_the_context(case: tuple[fl.LanguageModel, fl.Trace]) -> None:
    model, _ = case
    assert model.max_length in (64, 128)
    with pytest.raises(fl.FloatlensError, match=f"has {model.max_length}"):
        fl.decode(model, PROMPT, gen_length=model.max_length - 8)
