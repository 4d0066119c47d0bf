"""Answers in batches: the same alone as together, scored as the metrics say, errors kept to their question."""

from __future__ import annotations

import pytest
import torch

import floatlens as fl
from floatlens.attention.memory_budget import MemoryBudget
from floatlens.core.errors import FloatlensError
from floatlens.decoding.settings import DecodingConfig
from floatlens.evaluation import answers
from floatlens.evaluation.answers import AskConfig, Asked, ask
from floatlens.evaluation.first_mask import Appended, first_mask
from floatlens.evaluation.metrics import score
from floatlens.prompts import build
from floatlens.subjects.scale import questions

CONFIG = AskConfig(decoding=DecodingConfig(settings={"gen_length": 4}))


@pytest.fixture(scope="module")
def model() -> fl.LanguageModel:
    return fl.load("scale:llada")


EXAMPLES = [*questions("rag", 3, documents=2), *questions("closed-known", 2), *questions("two-hop", 1, documents=3)]


def test_a_question_gets_the_same_answer_alone(model: fl.LanguageModel) -> None:
    together = ask(model, [Asked(e) for e in EXAMPLES], CONFIG)
    alone = [ask(model, [Asked(e)], CONFIG)[0] for e in EXAMPLES]
    assert [(a.prediction, a.prompt, a.scores) for a in together] == [(a.prediction, a.prompt, a.scores) for a in alone]
    for answer, example in zip(together, EXAMPLES, strict=True):
        assert answer.prediction is not None
        assert answer.scores == score(answer.prediction, example.answers)
        tokens = build(model.tokenizer, question=example.question, documents=example.documents).ids
        assert answer.prompt_tokens == len(tokens)
    assert len({answer.prompt for answer in together}) == len(EXAMPLES)


def test_what_is_wrong_with_one_question_is_its_own_error(model: fl.LanguageModel) -> None:
    long = EXAMPLES[0].model_copy(update={"question": "who is it ? " * 2000})
    good, bad = ask(model, [Asked(EXAMPLES[0]), Asked(long)], CONFIG)
    assert (good.status, bad.status) == ("done", "failed")
    assert bad.error is not None
    assert "the question and its template alone take" in bad.error


def test_a_question_without_accepted_answers_has_no_scores(model: fl.LanguageModel) -> None:
    (answer,) = ask(model, [Asked(EXAMPLES[0].model_copy(update={"answers": []}))], CONFIG)
    assert (answer.status, answer.scores) == ("done", None)


def test_a_batch_too_large_for_the_memory_is_halved(model: fl.LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [a.prediction for a in ask(model, [Asked(e) for e in EXAMPLES], CONFIG)]
    sizes = []
    real = answers.decode

    def small(model: fl.LanguageModel, ids: list[list[int]], **more: object) -> fl.Decoded:
        sizes.append(len(ids))
        if len(ids) > 2:
            raise torch.OutOfMemoryError
        return real(model, ids, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(answers, "decode", small)
    room = MemoryBudget()
    found = ask(model, [Asked(e) for e in EXAMPLES], CONFIG, room)
    assert [a.prediction for a in found] == wanted
    assert sizes == [6, 3, 2, 1, 2, 1]
    assert found[0].warnings == (
        "out of memory with 3 questions at once; from now on 2 at a time",
        "out of memory with 6 questions at once; from now on 3 at a time",
    )
    sizes.clear()
    assert [a.warnings for a in ask(model, [Asked(e) for e in EXAMPLES], CONFIG, room)] == [()] * 6  # it has learnt
    assert sizes == [2, 2, 2]
    monkeypatch.setattr(answers, "decode", lambda *_, **__: (_ for _ in ()).throw(MemoryError))
    (answer,) = ask(model, [Asked(EXAMPLES[0])], CONFIG)
    assert answer.status == "failed"
    assert "out of memory" in str(answer.error)


@pytest.mark.parametrize("fill", ["mask", "dot"])
def test_first_mask_is_one_pass_over_prompt_and_tail(model: fl.LanguageModel, fill: str) -> None:
    assert model.tokenizer is not None
    assert model.mask_id is not None
    dot = model.tokenizer(".", add_special_tokens=False)["input_ids"][-1]
    prompts = [build(model.tokenizer, question=e.question, documents=e.documents).ids for e in EXAMPLES]
    found = first_mask(model, prompts, [e.answers for e in EXAMPLES], Appended(3, fill))  # type: ignore[arg-type]
    for prompt, (text, right), example in zip(prompts, found, EXAMPLES, strict=True):
        tail = [model.mask_id] * 3 if fill == "mask" else [model.mask_id, dot, dot]
        logits = model.forward(torch.tensor([prompt + tail]))[0, model.row_of(len(prompt))].clone()
        logits[model.mask_id] = -torch.inf
        token = int(logits.argmax())
        assert text == model.tokenizer.decode([token]).strip()
        assert right == (text == example.answers[0].split()[0])


def test_masks_count_as_one_more_way_to_ask(model: fl.LanguageModel) -> None:
    mixed = [Asked(EXAMPLES[0], Appended(2)), Asked(EXAMPLES[1]), Asked(EXAMPLES[1], Appended(2, "dot"))]
    one, two, three = ask(model, mixed, CONFIG)
    assert two.prediction == ask(model, mixed[1:2], CONFIG)[0].prediction
    assert one.prediction == ask(model, mixed[:1], CONFIG)[0].prediction
    assert " " not in (three.prediction or "")
    assert one.scores is not None
    assert one.scores.accuracy in (0.0, 1.0)


def test_an_autoregressive_model_has_no_masks(model: fl.LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "kind", "arm")
    with pytest.raises(FloatlensError, match="autoregressive and has no masks"):
        first_mask(model, [[1]], [["a"]], Appended(1))
