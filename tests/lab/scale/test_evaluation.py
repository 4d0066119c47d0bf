"""Evaluation: right is right, counts add up, and cards say what was measured."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import torch

from floatlens.core.errors import FloatlensError
from floatlens.models import load
from floatlens.subjects.scale import questions
from floatlens.subjects.scale.sets import SETS
from floatlens_lab.scale import evaluation
from floatlens_lab.scale.blueprints import blueprint, build_module, write_checkpoint
from floatlens_lab.scale.cards import read_card, write_card
from floatlens_lab.scale.evaluation import evaluate, evaluate_all


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An untrained llada in its format, with the log of a training that never was."""
    folder = tmp_path_factory.mktemp("scale") / "llada"
    torch.manual_seed(0)
    write_checkpoint(blueprint("llada"), build_module(blueprint("llada")), folder)
    (folder / "training.jsonl").write_text(json.dumps({"step": 7, "tokens": 5_000_000, "seconds": 90.0}) + "\n")
    return folder


@pytest.fixture
def knows(monkeypatch):
    """`knows(model, {3, 4})` lets the sampler find every answer but those of the examples with these numbers."""

    def patch(model, examples, wrong):
        prompts: list[list[int]] = []

        def decode(_, given, **settings):
            assert settings == {"gen_length": 8}
            first = len(prompts)
            prompts.extend(given)
            answers = [
                model.tokenizer("nobody" if first + i in wrong else examples[first + i].answers[0])["input_ids"][1:]
                for i in range(len(given))
            ]
            return SimpleNamespace(answers=lambda: answers)

        monkeypatch.setattr(evaluation, "decode", decode)
        return prompts

    return patch


def test_an_answer_is_right_when_it_is_the_answer(folder, knows):
    model, examples = load(folder), questions("rag", 30, documents=3)
    prompts = knows(model, examples, {0, 7, 29})
    seen = []
    outcomes = evaluate(model, examples, batch=8, done=seen.append)
    assert outcomes == seen
    assert [outcome.id for outcome in outcomes] == [example.id for example in examples]
    assert [i for i, outcome in enumerate(outcomes) if not outcome.right] == [0, 7, 29]
    assert outcomes[1].answer == examples[1].answers[0]
    words = model.tokenizer.decode(prompts[3])
    assert examples[3].question.removesuffix("?") in words
    assert all(document.title in words for document in examples[3].documents)


def test_counts_by_the_place_of_the_gold_document(folder, knows):
    model, examples = load(folder), questions("rag", 25, seed=5)
    knows(model, examples, {3, 13, 14})
    (summary,) = evaluate_all(model, 25, sets=["rag"], seed=5)
    assert (summary.right, summary.asked, summary.accuracy) == (22, 25, 0.88)
    assert summary.places == ((3, 3), (3, 3), (3, 3), (1, 3), (2, 3), *((2, 2),) * 5)


def test_an_untrained_model_is_as_good_as_chance(folder):
    summaries = evaluate_all(load(folder), 4)
    assert [summary.which for summary in summaries] == list(SETS)
    assert all(summary.asked == 4 and summary.right <= 1 for summary in summaries)
    assert all(0 < summary.chance < 0.1 for summary in summaries)


def test_the_card_says_what_was_measured(folder, knows):
    model, examples = load(folder), questions("rag", 50, seed=5)
    knows(model, examples, {3, 45})
    assert write_card(model, evaluate_all(model, 50, sets=["rag"], seed=5), 5) == folder
    card = read_card(folder)
    assert card["results"]["rag"]["right"] == 48
    assert card["results"]["rag"]["checked_wrong"] == [3]
    assert card["training"] == {"step": 7, "tokens": 5_000_000, "seconds": 90.0}
    assert card["parameters"] == sum(p.numel() for p in model.module.parameters())
    text = (folder / "README.md").read_text()
    assert "| 10 documents, one hop, held-out people | 48 | 50 | 96.0 % |" in text
    assert "5.0 million tokens, 2 minutes" in text
    knows(model, questions("two-hop", 50, seed=5), set())
    write_card(model, evaluate_all(model, 50, sets=["two-hop"], seed=5), 5)
    assert set(read_card(folder)["results"]) == {"rag", "two-hop"}


def test_no_card_without_a_log(tmp_path):
    torch.manual_seed(0)
    write_checkpoint(blueprint("llama"), build_module(blueprint("llama")), tmp_path / "llama")
    with pytest.raises(FloatlensError, match="no training log in it"):
        write_card(load(tmp_path / "llama"), [], 0)
