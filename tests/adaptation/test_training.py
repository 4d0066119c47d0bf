"""Training: exact resume, one result per seed, adapters that peft itself loads, a loss that is known to be reached."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import floatlens as fl
from floatlens.adaptation import Recipe, adapt
from floatlens.adaptation.state import read_log
from floatlens.adaptation.training import snapshot_folder
from floatlens.core.errors import FloatlensError
from floatlens.models import load

WEIGHTS = "adapter_model.safetensors"


def same(one, other):
    one, other = load_file(one / WEIGHTS), load_file(other / WEIGHTS)
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def checked(folder):
    """What the checks found, by step."""
    names = ("infill_15", "infill_50", "infill_85", "answers")
    found = {line["step"]: {name: line[name] for name in names if name in line} for line in read_log(folder)}
    return {step: numbers for step, numbers in found.items() if numbers}


@pytest.mark.parametrize("options", [{}, {"mask": "block"}, {"to": "autoregressive"}, {"anneal": 3, "distill": 0.5}])
def test_a_run_that_stopped_and_went_on_equals_one_that_did_not(base, data, small, tmp_path, options):
    recipe = small.model_copy(update=options)
    adapt(base, data, tmp_path / "whole", recipe=recipe, check_every=2)
    adapt(base, data, tmp_path / "parts", recipe=recipe, check_every=2, stop_after=2)
    assert not same(tmp_path / "whole", tmp_path / "parts")
    adapt(base, data, tmp_path / "parts", recipe=recipe, check_every=2)
    assert same(tmp_path / "whole", tmp_path / "parts")
    assert checked(tmp_path / "whole")[4] == checked(tmp_path / "parts")[4]
    assert checked(tmp_path / "whole").keys() == {0, 4}
    other = recipe.model_copy(update={"seed": 1})
    adapt(base, data, tmp_path / "other", recipe=other, check_every=0)
    assert not same(tmp_path / "whole", tmp_path / "other")


def test_all_weights_can_be_trained_and_the_folder_is_a_whole_model(base, data, small, tmp_path):
    adapt(base, data, tmp_path / "run", recipe=small.model_copy(update={"full": True}), check_every=0)
    model = load(tmp_path / "run")
    assert (model.kind, model.shift, model.attention, model.mask_id) == ("mdm", True, "full", 4)
    before = load(base).module.state_dict()
    assert any(not torch.equal(before[name], tensor) for name, tensor in model.module.state_dict().items())


def test_the_adapter_loads_through_peft_itself(base, data, small, tmp_path):
    from peft import PeftModel
    from transformers import LlamaForCausalLM

    folder = adapt(base, data, tmp_path / "run", recipe=small, check_every=0)
    theirs = PeftModel.from_pretrained(LlamaForCausalLM.from_pretrained(base), folder)
    theirs.config.is_causal = False
    ids = torch.tensor([[2, 20, 21, 4, 4, 22]])
    ours = load(folder)
    with torch.inference_mode():
        theirs_out = theirs(ids, is_causal=False).logits
        assert torch.allclose(ours.forward(ids), theirs_out, atol=1e-5)
        assert not torch.allclose(ours.forward(ids), load(base).forward(ids), atol=1e-2)


def test_snapshots_start_with_a_model_that_only_sees_more(base, data, small, tmp_path):
    """At step 0 the adapter changes nothing: the base with bidirectional attention."""
    adapt(base, data, tmp_path / "run", recipe=small, check_every=0)
    before = load(snapshot_folder(tmp_path / "run", 0))
    plain = load(base)
    plain.module.config.is_causal = False
    ids = torch.tensor([[2, 20, 21, 4, 22, 23]])
    assert torch.allclose(before.forward(ids), plain.forward(ids), atol=1e-3)  # half precision


def test_training_can_begin_with_an_adapter(base, data, small, tmp_path):
    first = adapt(base, data, tmp_path / "first", recipe=small, check_every=0)
    adapt(base, data, tmp_path / "second", recipe=small, start_from=first, check_every=0)
    assert same(first, snapshot_folder(tmp_path / "second", 0))
    wider = small.model_copy(update={"rank": 3})
    with pytest.raises(FloatlensError, match="does not fit"):
        adapt(base, data, tmp_path / "third", recipe=wider, start_from=first, check_every=0)


def test_another_recipe_or_other_data_in_the_folder_is_refused(base, data, small, tmp_path):
    adapt(base, data, tmp_path / "run", recipe=small, check_every=0, stop_after=1)
    with pytest.raises(FloatlensError, match="belongs to recipe"):
        adapt(base, data, tmp_path / "run", recipe=small.model_copy(update={"seed": 3}))
    with pytest.raises(FloatlensError, match="belongs to data"):
        adapt(base, data[:1], tmp_path / "run", recipe=small)


def test_what_cannot_be_adapted_is_refused(data, small, tmp_path):
    with pytest.raises(FloatlensError, match="only causal Llama"):
        adapt("scale:llada", data, tmp_path / "run", recipe=small)


def test_an_unknown_module_or_mask_token_is_named(base, data, small, tmp_path):
    with pytest.raises(FloatlensError, match="no linear layer 'query'"):
        adapt(base, data, tmp_path / "a", recipe=small.model_copy(update={"modules": ("query",)}))
    with pytest.raises(FloatlensError, match="no token '<mask>'"):
        adapt(base, data, tmp_path / "b", recipe=small, mask_token="<mask>")


def entropy_of_answers(base, path):
    """Nats per token of an answer, for one who knows how often each token occurs and nothing else."""
    tokenizer = load(base).tokenizer
    answers = [json.loads(line)["answers"][0] for line in path.read_text().splitlines()]
    counts = np.array(
        [
            *Counter(
                token for answer in answers for token in tokenizer(answer, add_special_tokens=False).input_ids
            ).values()
        ]
    )
    shares = counts / counts.sum()
    return float(-(shares * np.log(shares)).sum())


KILLED = """
import sys, json
import floatlens as fl
from floatlens.adaptation import Recipe, adapt
recipe = Recipe.model_validate_json(sys.argv[1])
adapt(sys.argv[2], sys.argv[3:5], sys.argv[5], recipe=recipe, check_every=0,
      report=lambda progress: print(progress.step, flush=True))
"""


@pytest.mark.slow
def test_a_known_loss_is_reached_through_a_kill(base, data, tmp_path):
    """From a uniform guess over the vocabulary to the entropy of the answers' tokens; a killed run ends alike."""
    modules = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "lm_head")
    settings = {"rows": 8, "width": 64, "rank": 16, "learning_rate": 1e-2, "context_mask": 0.0, "text": 0.1}
    recipe = Recipe(steps=200, modules=modules, **settings)
    whole = adapt(base, data, tmp_path / "whole", recipe=recipe, check_every=0)
    log = read_log(whole)
    assert log[1]["answer_loss"] == pytest.approx(np.log(485), abs=0.15)
    assert log[-1]["answer_loss"] < entropy_of_answers(base, data[0]) + 0.1
    command = [sys.executable, "-c", KILLED, recipe.model_dump_json(), str(base), *map(str, data), str(tmp_path / "b")]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    for line in child.stdout:
        if int(line) >= 120:
            break
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    assert json.loads((tmp_path / "b" / "adaptation.json").read_text())["step"] == 100
    adapt(base, data, tmp_path / "b", recipe=recipe, check_every=0)
    assert same(whole, tmp_path / "b")


def test_a_block_model_sees_nothing_of_what_follows_a_hole(base, data, small, tmp_path):
    block = small.model_copy(update={"mask": "block", "steps": 1})
    passage = "Petra Thorne plays the drums. Petra Calder plays the piano."
    traces = {
        name: fl.trace(model, passage=passage, hole=4)
        for name, model in {
            "arm": load(base),
            "block": load(adapt(base, data, tmp_path / "block", recipe=block, check_every=0)),
            "full": load(adapt(base, data, tmp_path / "full", recipe=small, check_every=0)),
        }.items()
    }
    seen = {name: trace.data.attrs["prompt"]["hole"]["after_seen"] for name, trace in traces.items()}
    assert seen == {"arm": False, "block": False, "full": True}
    ids = traces["full"].data.final.values.tolist()
    stop = traces["arm"].data.sizes["key"]
    assert traces["block"].data.final.values.tolist() == traces["arm"].data.final.values.tolist() == ids[:stop]
    assert len({trace.data.sizes["step"] for trace in traces.values()}) == 1
