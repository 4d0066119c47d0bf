"""`fl.trace` from a question to a labelled dataset, on tiny models that come with a tokenizer of their own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import floatlens as fl
from floatlens.core.errors import FloatlensError, FloatlensWarning

DOCUMENTS = [
    {"title": "Berlin", "text": "Berlin lies on the Spree ."},
    {"title": "Paris", "text": "Paris lies on the Seine river ."},
    "It rained all day in Rome .",
]
QUESTION = "Which river flows through Paris ?"
WORDS = (
    "Answer the question in as few words as possible, using documents below. Some of them may be irrelevant. "
    "possible. Question: Answer: Title: [1] [2] [3] [4] Berlin lies on Spree . Paris Seine river It rained all day "
    "Rome Which flows through ? one two three four"
)


@pytest.fixture(scope="session")
def with_tokenizer(tiny: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """`with_tokenizer("llada")`: the tiny checkpoint in its own format, in a folder with a word-level tokenizer."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    made: dict[str, Any] = {}

    def make(name: str) -> Any:
        if name in made:
            return made[name]
        folder = tmp_path_factory.mktemp(f"{name}-with-tokenizer")
        shutil.copytree(tiny(name), folder, dirs_exist_ok=True)
        known = ["<s>", "</s>", "<unk>", *dict.fromkeys(WORDS.split())]
        vocabulary = {word: number for number, word in enumerate(known)}
        mask = json.loads((folder / "config.json").read_text()).get("mask_token_id")
        names = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
        if mask is not None:
            vocabulary["<|mask|>"] = mask
            names["mask_token"] = "<|mask|>"
        backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
        backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        backend.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
        PreTrainedTokenizerFast(tokenizer_object=backend, **names).save_pretrained(folder)
        made[name] = fl.load(str(folder))
        return made[name]

    return make


CASES = [
    ("llada", {"gen_length": 4, "steps": 2}),
    ("dream", {"gen_length": 4, "steps": 4}),
    ("a2d-llama", {"gen_length": 4, "steps": 4}),
    ("qwen3", {"gen_length": 4}),
]


@pytest.mark.parametrize(("name", "settings"), CASES, ids=[case[0] for case in CASES])
def test_a_question_with_documents(
    name: str, settings: dict[str, Any], with_tokenizer: Callable[[str], Any], tmp_path: Path
) -> None:
    model = with_tokenizer(name)
    trace = fl.trace(model, question=QUESTION, documents=DOCUMENTS, gold=1, answers=["Seine"], **settings)
    data = trace.data
    text = (
        "Answer the question in as few words as possible, using the documents below. Some of them may be irrelevant. "
        "[1] Title: Berlin Berlin lies on the Spree . [2] Title: Paris Paris lies on the Seine river . "
        "[3] It rained all day in Rome . Question: Which river flows through Paris ? Answer:"
    )
    words = text.split()
    length = 1 + len(words) + 4
    assert data.sizes["key"] == length
    regions = trace.regions
    assert regions == ("bos", "question", "doc1", "doc2", "doc3", "answer", "template")
    where = [regions[r] for r in data["region_of"].values]
    expected = ["bos"] + ["template"] * words.index("[1]")
    expected += ["doc1"] * (words.index("[2]") - words.index("[1]"))
    expected += ["doc2"] * (words.index("[3]") - words.index("[2]"))
    expected += ["doc3"] * (words.index("Question:") - words.index("[3]"))
    expected += ["template"] + ["question"] * 6 + ["template"] + ["answer"] * 4
    labels = {r: [i for i, x in enumerate(expected) if x == r] for r in set(expected)}
    found = {r: [i for i, x in enumerate(where) if x == r] for r in set(where)}
    # whether "[1] Title:" counts as document or template text is the template's business; everything else is not
    for region in ("bos", "question", "answer"):
        assert found[region] == labels[region], region
    for document in ("doc1", "doc2", "doc3"):
        assert set(found[document]) <= set(labels[document])
        assert len(found[document]) >= 5
    seine = 1 + words.index("Seine")
    assert np.flatnonzero(data["evidence"].values).tolist() == [seine]
    assert data["final"].values[0] == 0
    assert list(trace.tokens[1 : 1 + len(words)]) == words
    assert data["token_text"].values.tolist() == list(trace.tokens)
    assert data["region"].values.tolist() == list(regions)
    # the numbers fit the labels
    flow = data["flow"].values
    present = [r in found for r in regions]
    rows = flow[-1][:, present]
    filled = ~np.isnan(rows).any(-1)
    assert filled[:, :-2].all()
    assert np.abs(rows[filled].sum(-1) - 1).max() <= 1e-5
    assert not np.isnan(data["answer_evidence"].values).any()
    assert data["answer_evidence"].values.max() <= 1
    assert fl.open_trace(trace.save(tmp_path / name)).data.equals(data)


def test_provenance(with_tokenizer: Callable[[str], Any]) -> None:
    """Who, with what, how: everything that is needed to make the trace again, as JSON."""
    import transformers

    model = with_tokenizer("llada")
    trace = fl.trace(
        model,
        question=QUESTION,
        documents=DOCUMENTS,
        gold=1,
        answers="Seine",
        gen_length=4,
        steps=2,
        seed=7,
        block_length=2,
        probes=["received"],
    )
    attributes = trace.data.attrs
    assert json.loads(json.dumps(attributes)) == attributes
    assert attributes["model"] == {
        "ref": model.ref,
        "revision": None,
        "family": "llada",
        "kind": "mdm",
        "class": "LlamaForCausalLM",
        "shift": False,
        "mask_id": 150,
        "bos_id": model.bos_id,
        "eos_ids": list(model.eos_ids),
        "layers": 3,
        "heads": 4,
        "kv_heads": 4,
        "dtype": "float32",
    }
    decoding = attributes["decoding"]
    assert decoding["sampler"] == "llada"
    assert decoding["forward_passes"] == 2
    assert decoding["prompt_length"] == trace.data.sizes["key"] - 4
    for name, value in {"seed": 7, "gen_length": 4, "steps": 2, "block_length": 2, "temperature": 0.0}.items():
        assert decoding["settings"][name] == value
    written = trace.data["final"].values[-4:].tolist()
    ends = [i for i, token in enumerate(written) if token in model.eos_ids]
    assert decoding["answer_ids"] == written[: ends[0] if ends else 4]
    assert trace.answer == model.tokenizer.decode(decoding["answer_ids"], skip_special_tokens=True).strip()
    assert attributes["prompt"] == {
        "question": QUESTION,
        "titles": ["Berlin", "Paris", ""],
        "gold": 1,
        "evidence_kind": "answer",
        "template": "default@1",
        "chat": False,
        "dropped_documents": 0,
    }
    assert attributes["probes"] == ["received"]
    assert attributes["causal"] is False
    assert attributes["heads"] == "all"
    assert attributes["versions"]["torch"] == torch.__version__
    assert attributes["versions"]["transformers"] == transformers.__version__
    assert attributes["versions"]["floatlens"] == fl.__version__


def test_evidence_without_the_answer_in_it(with_tokenizer: Callable[[str], Any]) -> None:
    """The answer is not in the gold passage: then the passage is the evidence, and the trace says so."""
    arguments: dict[str, Any] = {"question": QUESTION, "documents": DOCUMENTS, "gen_length": 2, "probes": []}
    passage = fl.trace(with_tokenizer("llada"), **arguments, gold=0, answers=["Seine"]).data
    assert passage.attrs["prompt"]["evidence_kind"] == "passage"
    region = passage["region_of"].values == passage.attrs["regions"].index("doc1")
    assert (passage["evidence"].values == region).all()
    none = fl.trace(with_tokenizer("llada"), **arguments).data
    assert none.attrs["prompt"]["evidence_kind"] == "none"
    assert none.attrs["prompt"]["gold"] is None
    assert not none["evidence"].values.any()


def test_a_written_prompt_and_ids_are_one(with_tokenizer: Callable[[str], Any]) -> None:
    model = with_tokenizer("llada")
    ids = [0, *model.tokenizer("Which river ?", add_special_tokens=False).input_ids]
    settings: dict[str, Any] = {"gen_length": 3, "probes": ["received"]}
    by_text = fl.trace(model, prompt="Which river ?", **settings)
    forms = [ids, tuple(ids), np.array(ids), torch.tensor(ids), torch.tensor([ids]), [ids]]
    for form in forms:
        by_ids = fl.trace(model, prompt_ids=form, **settings)
        assert by_ids.data["final"].values.tolist() == by_text.data["final"].values.tolist()
        assert np.array_equal(by_ids.data["received"].values, by_text.data["received"].values)
    built = fl.prompts.from_text(model.tokenizer, "Which river ?")
    again = fl.trace(model, prompt=built, **settings)
    assert again.data.identical(by_text.data)
    assert [by_text.regions[r] for r in by_text.data["region_of"].values] == ["bos", *["question"] * 3, *["answer"] * 3]


def test_default_probes_and_length(with_tokenizer: Callable[[str], Any]) -> None:
    data = fl.trace(with_tokenizer("llada"), prompt="Which river ?", steps=4, gen_length=4).data
    assert data.attrs["probes"] == ["received", "entropy", "flow", "answer_rows", "rollout", "qk", "extremes"]
    assert {"received", "entropy", "flow", "answer_peak", "qk_dot", "residual_norm"} <= set(data.data_vars)
    assert "matrix" not in data.data_vars
    assert "qk_matrix" not in data.data_vars


def test_documents_are_cut_to_the_context(
    with_tokenizer: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the end, with a warning; the trace keeps the count, and prompt and answer together fill the context."""
    model = with_tokenizer("llada")
    monkeypatch.setattr(model, "max_length", 50)
    with pytest.warns(FloatlensWarning, match="1 of 3 documents dropped"):
        data = fl.trace(model, question=QUESTION, documents=DOCUMENTS, gold=1, gen_length=4, probes=[]).data
    assert data.attrs["prompt"]["dropped_documents"] == 1
    assert data.attrs["prompt"]["titles"] == ["Berlin", "Paris"]
    assert data.attrs["regions"] == ["bos", "question", "doc1", "doc2", "answer", "template"]
    assert data.sizes["key"] <= 50


def test_the_same_seed_gives_the_same_trace(with_tokenizer: Callable[[str], Any]) -> None:
    settings: dict[str, Any] = {"prompt": "Which river ?", "gen_length": 6, "temperature": 1.0, "probes": ["received"]}
    for name in ("llada", "qwen3"):
        one, two, other = (fl.trace(with_tokenizer(name), **settings, seed=s).data for s in (3, 3, 4))
        assert one.identical(two)
        assert one["final"].values.tolist() != other["final"].values.tolist()


@pytest.mark.parametrize("name", ["llada", "dream", "qwen2", "bert"])
def test_tracing_writes_what_decoding_writes(name: str, tiny_model: Callable[[str], Any]) -> None:
    """Under capture, with whatever probes, the tokens are those of a plain decode."""
    model, prompt = tiny_model(name), [5, 9, 12, 33]
    plain = fl.decode(model, prompt, gen_length=6)
    for probes in ([], ["received", "answer_rows"], None):
        data = fl.trace(model, prompt_ids=prompt, gen_length=6, probes=probes).data
        assert data["final"].values.tolist() == plain.sequence[0].tolist()
        assert data.attrs["decoding"]["forward_passes"] == plain.forward_passes
        assert data.sizes["step"] == len(plain.steps)
        for step, decoded in enumerate(plain.steps):
            before = decoded.sequence[0].tolist()
            assert data["sequence"].values[step, : len(before)].tolist() == before
        assert data["token_id"].values.tolist() == [t for s in plain.steps for t in s.token.tolist()]
        assert data["token_position"].values.tolist() == [p for s in plain.steps for p in s.position.tolist()]
        confidence = [c for s in plain.steps for c in s.confidence.tolist()]
        assert data["token_confidence"].values.tolist() == pytest.approx(confidence, abs=1e-4)


def test_a_guided_step_counts_and_records_one_pass(tiny_model: Callable[[str], Any]) -> None:
    data = fl.trace(tiny_model("llada"), prompt_ids=[5, 9, 12], gen_length=4, steps=4, cfg_scale=1.0).data
    assert data.attrs["decoding"]["forward_passes"] == 4
    assert data.sizes["step"] == 4
    assert data["received"].shape[0] == 4


# -- mistakes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "give one of question, prompt, prompt_ids or passage; got none of them"),
        ({"question": "a", "prompt": "b"}, "got question and prompt"),
        ({"question": "a", "prompt_ids": [1]}, "got question and prompt_ids"),
        ({"prompt": "b", "prompt_ids": [1]}, "got prompt and prompt_ids"),
        ({"question": "a", "prompt": "b", "prompt_ids": [1]}, "got question and prompt and prompt_ids"),
        ({"prompt": "b", "documents": ["c"]}, "documents.* go with a question, not with prompt"),
        ({"prompt_ids": [1], "gold": 0}, "gold.* go with a question, not with prompt_ids"),
        ({"prompt_ids": [1], "answers": "x"}, "answers.* go with a question, not with prompt_ids"),
        ({"prompt_ids": [1], "heads": "some"}, 'heads="some"; give "all" or "mean"'),
        ({"prompt_ids": [1], "heads": None}, "heads="),
        ({"prompt_ids": []}, "prompt_ids"),
        ({"prompt_ids": [[1, 2], [3, 4]]}, "prompt_ids"),
        ({"prompt_ids": [1.5]}, "prompt_ids"),
        ({"prompt_ids": [-1]}, "prompt_ids"),
        ({"prompt_ids": [10_000]}, "vocabulary"),
        ({"prompt_ids": "hello"}, "prompt_ids"),
        ({"prompt": ""}, "prompt"),
        ({"question": "  "}, "question"),
        ({"question": "a", "documents": "one long text"}, "documents: expected a list"),
        ({"question": "a", "documents": ["x"], "gold": 3}, "gold=3"),
        ({"prompt_ids": [1], "data_set": ""}, "data_set=..; give the name of a data set"),
        ({"prompt_ids": [1], "data_set": ["nq"]}, "give the name of a data set"),
        ({"prompt_ids": [1], "sampler": "lada"}, 'no sampler "lada"'),
        ({"prompt_ids": [1], "alg": "entropy"}, 'no setting "alg"; it belongs to dream'),
        ({"prompt_ids": [1], "probes": ["recieved"]}, 'no probe "recieved"'),
        ({"prompt_ids": [1], "select": fl.Select(layers=[7])}, "layer 7 is outside 0..2"),
        ({"prompt_ids": [1], "gen_length": 4, "steps": 4, "select": fl.Select(steps=[4])}, r"step 4 is"),
    ],
    ids=lambda x: "" if isinstance(x, dict) else x[:40],
)
def test_mistakes_are_one_line(arguments: dict[str, Any], message: str, with_tokenizer: Callable[[str], Any]) -> None:
    model = with_tokenizer("llada")
    with pytest.raises(FloatlensError, match=message) as caught:
        fl.trace(model, **arguments)
    assert "\n" not in str(caught.value)
    assert model.observers == []
    assert model.module.config._attn_implementation == "sdpa"


def test_text_without_a_tokenizer(tiny_model: Callable[[str], Any]) -> None:
    for arguments in ({"question": "a"}, {"prompt": "a"}):
        with pytest.raises(FloatlensError, match=r"has no tokenizer.*give prompt_ids"):
            fl.trace(tiny_model("llada"), **arguments)


def test_an_edited_trace_says_so(tiny_model: Callable[[str], Any]) -> None:
    """A trace of an intervention must not pass for one of the model as it is."""

    class Nudge(fl.Edit):
        edits_weights = True
        select = fl.Select(layers=0)

    plain = fl.trace(tiny_model("llada"), prompt_ids=[5, 6], gen_length=2, probes=[])
    edited = fl.trace(tiny_model("llada"), prompt_ids=[5, 6], gen_length=2, probes=[], edits=[Nudge()])
    assert plain.data.attrs["edits"] == []
    assert edited.data.attrs["edits"] == ["Nudge()"]


def test_a_trace_says_which_data_set_it_is_of(tiny_model: Callable[[str], Any], tmp_path: Path) -> None:
    """Where nobody said it there is no such attribute, as in files from before it was recorded; they open too."""
    how: dict[str, Any] = {"prompt_ids": [5, 6], "gen_length": 2, "probes": []}
    plain, named = fl.trace(tiny_model("llada"), **how), fl.trace(tiny_model("llada"), **how, data_set="nq")
    assert "data_set" not in plain.data.attrs
    assert [fl.open_trace(one.save(tmp_path / "one")).data_set for one in (plain, named)] == [None, "nq"]
