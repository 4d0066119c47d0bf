"""Training: the same bits after a stop, refusals, the formats of the families, and (slow) that the recipe learns."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from floatlens.core.errors import FloatlensError
from floatlens.models import load
from floatlens.subjects.scale import questions
from floatlens_lab.scale.blueprints import BLUEPRINTS, blueprint, build_module, write_checkpoint
from floatlens_lab.scale.evaluation import evaluate
from floatlens_lab.scale.recipe import Recipe, Stage, read_recipe
from floatlens_lab.scale.training import Progress, read_log, steps_done, train

SMALL = Recipe(
    stages=(
        Stage(name="words", steps=4, length=24, rows=4, documents=(2, 2), mixture={"words": 1.0}, names=4),
        Stage(
            name="people",
            steps=4,
            length=120,
            rows=2,
            documents=(1, 1),
            mixture={"people": 1.0, "closed": 0.3},
            context_mask=0.2,
            every_answer=0.7,
        ),
    ),
    warmup=2,
    decay=3,
)


@pytest.mark.parametrize("name", ["llama", "llada", "mamba"])
def test_a_run_that_was_stopped_equals_one_that_was_not(tmp_path, name):
    assert train(blueprint(name), SMALL, tmp_path / "whole")
    for _ in range(3):
        finished = train(blueprint(name), SMALL, tmp_path / "parts", stop_after=3)
    assert finished
    for file in ("model.safetensors", "training.safetensors"):
        whole, parts = (load_file(tmp_path / run / file) for run in ("whole", "parts"))
        assert whole.keys() == parts.keys()
        assert all(torch.equal(whole[key], parts[key]) for key in whole)


def test_a_new_course_takes_nothing_along_but_the_weights_as_they_are_stored(tmp_path):
    recipe = SMALL.model_copy(update={"stages": (*SMALL.stages, SMALL.stages[1].model_copy(update={"anew": True}))})
    assert train(blueprint("llama"), recipe, tmp_path / "whole")
    assert not train(blueprint("llama"), recipe, tmp_path / "parts", stop_after=8)
    state = tmp_path / "parts" / "training.safetensors"
    with safe_open(state, framework="pt") as file:
        facts = file.metadata()
    stored = {
        key: value.half().float() if key.startswith("weights.") else torch.full_like(value, 7.0)
        for key, value in load_file(state).items()
    }
    save_file(stored, state, metadata=facts)
    assert train(blueprint("llama"), recipe, tmp_path / "parts")
    whole, parts = (load_file(tmp_path / run / "model.safetensors") for run in ("whole", "parts"))
    assert all(torch.equal(whole[key], parts[key]) for key in whole)


def test_settled_lengths_give_the_same_weights_when_they_are_followed(tmp_path):
    patient = [stage.model_copy(update={"steps": 60, "until": 50.0}) for stage in SMALL.stages[:1]]
    endless = [stage.model_copy(update={"steps": 5, "until": 0.0, "name": "capped"}) for stage in SMALL.stages[:1]]
    recipe = SMALL.model_copy(update={"stages": (*patient, *endless, SMALL.stages[1]), "earlier": 0.3})
    assert train(blueprint("llama"), recipe, tmp_path / "settled", settle=True)
    found = read_recipe(tmp_path / "settled" / "recipe.json")
    assert [stage.steps for stage in found.stages] == [40, 5, 4]
    while not train(blueprint("llama"), recipe, tmp_path / "stopped", settle=True, stop_after=19):
        pass
    assert train(blueprint("llama"), found, tmp_path / "followed")
    settled, *others = (load_file(tmp_path / run / "model.safetensors") for run in ("settled", "stopped", "followed"))
    assert all(torch.equal(settled[key], other[key]) for other in others for key in settled)


def test_a_finished_model_is_not_trained_over(tmp_path):
    train(blueprint("llama"), SMALL, tmp_path)
    (tmp_path / "training.safetensors").unlink()
    with pytest.raises(FloatlensError, match="it holds a model and no state of its training"):
        train(blueprint("llama"), SMALL, tmp_path)


def test_training_is_told_about_and_logged(tmp_path):
    told: list[Progress] = []
    train(blueprint("llada"), SMALL, tmp_path, report=told.append)
    assert [now.step for now in told] == [8]
    assert told[0].tokens == sum(SMALL.stage_at(step)[1].tokens for step in range(8))
    assert [line["step"] for line in read_log(tmp_path)] == [8]
    assert steps_done(tmp_path) == 8
    before = (tmp_path / "model.safetensors").stat().st_mtime_ns
    assert train(blueprint("llada"), SMALL, tmp_path, report=told.append)
    assert len(told) == 1
    assert (tmp_path / "model.safetensors").stat().st_mtime_ns == before


def test_the_log_is_cut_back_to_the_checkpoint(tmp_path):
    train(blueprint("llama"), SMALL, tmp_path, stop_after=3)
    log = tmp_path / "training.jsonl"
    log.write_text(log.read_text() + json.dumps({"step": 5}) + '\n{"step": 6, "lo')
    train(blueprint("llama"), SMALL, tmp_path)
    assert [line["step"] for line in read_log(tmp_path)] == [3, 8]


def test_a_checkpoint_of_something_else_is_refused(tmp_path):
    train(blueprint("llama"), SMALL, tmp_path, stop_after=1)
    with pytest.raises(FloatlensError, match="it belongs to model llama, not llada; give another folder"):
        train(blueprint("llada"), SMALL, tmp_path)
    with pytest.raises(FloatlensError, match="it belongs to recipe"):
        train(blueprint("llama"), SMALL.model_copy(update={"seed": 9}), tmp_path)
    (tmp_path / "training.safetensors").write_bytes(b"what")
    with pytest.raises(FloatlensError, match="not a checkpoint of a training run"):
        steps_done(tmp_path)


def test_dream_starts_from_qwen(tmp_path):
    with pytest.raises(FloatlensError, match="dream is adapted from qwen, and there is no trained qwen"):
        train(blueprint("dream"), SMALL, tmp_path / "dream")
    train(blueprint("qwen"), SMALL, tmp_path / "qwen")
    gentle = SMALL.model_copy(update={"learning_rate": 0.0})
    train(blueprint("dream"), gentle, tmp_path / "dream", base=tmp_path / "qwen")
    qwen, dream = (load_file(tmp_path / name / "model.safetensors") for name in ("qwen", "dream"))
    assert all(torch.equal(qwen[key], dream[key]) for key in qwen)


@pytest.mark.parametrize("name", list(BLUEPRINTS))
def test_folders_are_read_by_the_loaders_of_their_families(tmp_path, name):
    plan = blueprint(name)
    torch.manual_seed(0)
    module = build_module(plan).train(False)
    for parameter in module.parameters():  # to float16 and back; the rotary buffer stays as it is
        parameter.data = parameter.data.half().float()
    write_checkpoint(plan, module, tmp_path / name)
    model = load(tmp_path / name)
    family = {"llama": "causal", "qwen": "causal", "llada": "llada", "dream": "dream", "mamba": "caduceus"}[name]
    assert (model.family, model.kind, model.shift) == (family, plan.kind, plan.shift)
    assert (model.num_layers, model.num_heads, model.num_kv_heads) == (8, 1 if name == "mamba" else 8, plan.kv_heads)
    assert (model.bos_id, model.eos_ids, model.pad_id) == (2, (3,), 0)
    assert model.mask_id == (4 if plan.kind == "mdm" else None)
    ids = torch.randint(5, model.vocab_size, (2, 30))
    torch.testing.assert_close(model.forward(ids), module(ids, use_cache=False).logits, atol=1e-5, rtol=1e-5)


def test_an_unknown_blueprint():
    with pytest.raises(FloatlensError, match='no scale model "lada"; did you mean "llada"'):
        blueprint("lada")


@pytest.mark.slow
def test_killed_while_it_trains(tmp_path):
    """SIGKILL at a moment of its own choosing; what is continued equals what was never disturbed."""
    steps = [stage.model_copy(update={"steps": 60}) for stage in SMALL.stages]
    recipe = SMALL.model_copy(update={"stages": tuple(steps)})
    path = tmp_path / "recipe.json"
    path.write_text(recipe.model_dump_json())
    command = ["floatlens.cli", "scale", "train", "--model", "llama", "--out", tmp_path / "killed", "--recipe", path]
    code = f"import sys; from floatlens.cli import main; sys.exit(main({[str(part) for part in command[1:]]!r}))"
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    log = tmp_path / "killed" / "llama" / "training.jsonl"
    deadline = time.monotonic() + 120
    while not log.is_file() and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert train(blueprint("llama"), recipe, tmp_path / "killed" / "llama")
    assert train(blueprint("llama"), recipe, tmp_path / "whole")
    killed, whole = (
        load_file(folder / "model.safetensors") for folder in (tmp_path / "killed/llama", tmp_path / "whole")
    )
    assert all(torch.equal(killed[key], whole[key]) for key in whole)


def test_an_adapted_model_joins_at_its_stage(tmp_path):
    """Dream starts from the finished qwen and sees the rows of the last stage only, with their step numbers."""
    recipe = SMALL.model_copy(update={"adapted_from": "people"})
    assert train(blueprint("qwen"), recipe, tmp_path / "qwen")
    assert train(blueprint("dream"), recipe, tmp_path / "dream", base=tmp_path / "qwen")
    whole, joined = (read_log(tmp_path / name)[-1] for name in ("qwen", "dream"))
    assert whole["step"] == joined["step"] == 8
    assert whole["tokens"] > joined["tokens"]
    assert joined["tokens"] <= 4 * 240  # four steps, of this stage or an earlier, smaller one


@pytest.mark.slow
def test_a_model_learns_to_read_one_document(tmp_path):
    """From scratch, 150 steps of words and 700 of single documents (some five minutes on a busy core): it then answers
    nineteen of twenty questions about held-out people. The recipe works; the weights are not a fluke."""
    words = Stage(name="words", steps=150, length=32, rows=32, documents=(2, 4), mixture={"words": 1})
    one = Stage(name="one document", steps=700, length=128, rows=10, documents=(1, 1), mixture={"people": 1})
    recipe = Recipe(stages=(words, one), learning_rate=2e-3, decay=350, warmup=50, earlier=0.05)
    assert train(blueprint("llama"), recipe, tmp_path)
    found = evaluate(load(tmp_path), questions("rag", 200, documents=1, seed=3))
    assert np.mean([outcome.right for outcome in found]) >= 0.95
