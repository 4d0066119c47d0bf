"""Boost: every row is what plain arithmetic gives on the logits before, in a padded batch, with and without a cache."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import floatlens as fl
from floatlens.core.errors import FloatlensError
from floatlens.data.examples import Example
from floatlens.edits import Boost, BoostRandom, parse_edit
from floatlens.edits.boost import rising_keys
from floatlens.evaluation.answers import AskConfig, Asked, ask
from floatlens.prompts import Document, Prompt, from_ids

PROMPTS = [[5, 9, 12, 33, 21, 8, 30, 14, 26, 9], [17, 6, 40, 11, 19, 6, 29]]
SPANS = [[2, 3, 7], [0, 5]]
MODELS = [("llada", {"steps": 3}), ("llama", {}), ("llama", {"use_cache": False})]


def prompt(ids: list[int], span: list[int]) -> Prompt:
    return replace(from_ids(ids), evidence=np.isin(np.arange(len(ids)), span))


def placed(made: Boost) -> Boost:
    made.place([prompt(ids, span) for ids, span in zip(PROMPTS, SPANS, strict=True)])
    return made


def span_of(seen: Any, step: int, sample: int) -> list[int]:
    """The columns of the span: prompts begin at the first real token."""
    real = seen.real(step, sample)
    return [real[token] for token in SPANS[sample]]


def boosted(rows: np.ndarray, columns: list[int], factor: Any) -> np.ndarray:
    """Rows (…, key) with the weight of some columns multiplied, and normalised again."""
    new = rows.copy()
    new[..., columns] *= factor
    return new / np.maximum(new.sum(-1, keepdims=True), 1e-300)


@pytest.mark.parametrize(("name", "how"), MODELS)
def test_rows_and_report_are_those_of_plain_arithmetic(name: str, how: Any, decoded: Any, tiny_model: Any) -> None:
    edit = placed(Boost(gain=3.0))
    seen = decoded(tiny_model(name), [edit], PROMPTS, **how)
    moved: dict[tuple[int, int], float] = {}
    for step in range(seen.steps):
        for layer in range(seen.layers):
            before, after = seen.new(step, layer)
            first = seen.positions[step].real.shape[1] - before.shape[2]
            new = seen.positions[step].first_step == step
            for sample in range(2):
                columns = span_of(seen, step, sample)
                wanted = boosted(before[sample], columns, 4.0)
                rows = [i - first for i in seen.real(step, sample) if i >= first]
                assert np.abs(after[sample][:, rows] - wanted[:, rows]).max() <= 1e-5
                fresh = [i for i in rows if new[i]]
                gained = (wanted - before[sample])[:, fresh][..., columns].sum()
                moved[step, layer] = moved.get((step, layer), 0.0) + gained
    assert {(c.step, c.layer): c.mass for c in edit.report()} == pytest.approx(moved, abs=1e-4)
    assert sum(moved.values()) > 0


def test_the_same_tokens_alone_in_a_batch_and_without_a_cache(decoded: Any, tiny_model: Any) -> None:
    model = tiny_model("llama")
    both = decoded(model, [placed(Boost(gain=50.0))], PROMPTS).answers
    assert both == decoded(model, [placed(Boost(gain=50.0))], PROMPTS, use_cache=False).answers
    for ids, span, answer in zip(PROMPTS, SPANS, both, strict=True):
        edit = Boost(gain=50.0)
        edit.place([prompt(ids, span)])
        assert decoded(model, [edit], [ids]).answers == [answer]


@pytest.mark.parametrize(("name", "how"), MODELS)
def test_the_control_by_mass_gains_in_every_row_what_the_span_would(
    name: str, how: Any, decoded: Any, tiny_model: Any
) -> None:
    control = placed(Boost(gain=2.0).control(seed=3, kind="mass"))
    seen = decoded(tiny_model(name), [control], PROMPTS, **how)
    chosen: dict[int, set[int]] = {0: set(), 1: set()}
    short = 0
    for step in range(seen.steps):
        for layer in range(seen.layers):
            before, after = seen.new(step, layer)
            first = seen.positions[step].real.shape[1] - before.shape[2]
            for sample in range(2):
                columns = span_of(seen, step, sample)
                wanted = (boosted(before[sample], columns, 3.0) - before[sample])[..., columns].sum(-1)
                up = (after[sample] - before[sample]).clip(min=0).sum(-1)
                keys = set(np.flatnonzero((after[sample] > before[sample] + 1e-6).any((0, 1))).tolist())
                assert not keys & set(columns)
                tokens = {seen.real(step, sample).index(key) for key in keys}
                assert tokens <= set(range(len(PROMPTS[sample])))  # tokens of the prompt
                chosen[sample] |= tokens
                left = 1 - before[sample][..., sorted(keys)].sum(-1)  # a row has no more than 1 to give
                for i in (i - first for i in seen.real(step, sample) if i >= first):
                    for head in range(up.shape[0]):
                        some = up[head, i] > 0  # where no random key is visible, nothing can be gained
                        assert not some or up[head, i] == pytest.approx(min(wanted[head, i], left[head, i]), abs=1e-5)
                        short += wanted[head, i] > left[head, i]
    assert {sample: len(tokens) for sample, tokens in chosen.items()} == {0: 3, 1: 2}
    assert (control.numbers()["unmatched"] > 0) == (short > 0)


def test_the_control_by_count_has_as_many_other_keys_and_says_where_they_run_short(
    decoded: Any, tiny_model: Any
) -> None:
    control = placed(Boost(gain=2.0).control(seed=1))
    seen = decoded(tiny_model("llada"), [control], PROMPTS, steps=2)
    before, after = seen.new(0, 1)
    for sample in range(2):
        ratio = after[sample, 0] / np.maximum(before[sample, 0], 1e-300)
        row = seen.real(0, sample)[0]
        up = np.flatnonzero(ratio[row] > 1.5 * np.median(ratio[row][seen.real(0, sample)]))
        assert len(up) == len(SPANS[sample])
        assert not set(up) & set(span_of(seen, 0, sample))
    assert control.numbers() == {"unmatched": 0.0}
    wide = Boost("question", gain=1.0).control(seed=0)
    wide.place([from_ids(ids) for ids in PROMPTS])
    decoded(tiny_model("llada"), [wide], PROMPTS, steps=1)
    assert wide.numbers() == {"unmatched": 1.0}


def test_only_rows_of_the_answer(decoded: Any, tiny_model: Any) -> None:
    edit = placed(Boost(gain=4.0, rows="answer"))
    seen = decoded(tiny_model("llada"), [edit], PROMPTS, steps=2)
    for sample, ids in enumerate(PROMPTS):
        real = seen.real(1, sample)
        before, after = (values[sample] for values in seen.new(1, 0))
        assert np.allclose(after[:, real[: len(ids)]], before[:, real[: len(ids)]], atol=1e-6)
        wanted = boosted(before, span_of(seen, 1, sample), 5.0)
        assert np.allclose(after[:, real[len(ids) :]], wanted[:, real[len(ids) :]], atol=1e-5)


def test_rising_keys_by_hand() -> None:
    """Rises by key: 0.2, 0, 0.3 + 0.1, 0, 0.1; with both neighbours averaged 0.1, 0.2, 0.133, 0.167, 0.05."""
    one = torch.tensor([[0.1, 0.5, 0.1, 0.2, 0.1], [0.3, 0.1, 0.4, 0.1, 0.1], [0.2, 0.1, 0.5, 0.0, 0.2]])
    among = torch.tensor([[True, True, True, True, True]])
    assert rising_keys(one[:, None], among, 1).tolist() == [[False, True, False, False, False]]
    assert rising_keys(one[:, None], among, 2).tolist() == [[False, True, False, True, False]]
    among[0, 1] = False
    assert rising_keys(one[:, None], among, 2).tolist() == [[False, False, True, True, False]]
    assert rising_keys(one[:, None], among, 9).sum() == 4


@pytest.mark.parametrize(("name", "how"), MODELS)
def test_dynamics_boosts_what_rose_in_the_step_before(
    name: str, how: Any, decoded: Any, received: Any, tiny_model: Any
) -> None:
    edit = Boost("dynamics", k=2, gain=1.0)
    seen = decoded(tiny_model(name), [edit], PROMPTS, **how)
    assert np.allclose(seen.plain[0, 1], seen.weights[0, 1][:, :, -seen.plain[0, 1].shape[2] :], atol=1e-6)
    for sample, ids in enumerate(PROMPTS):
        prompt_columns = seen.real(0, sample)[: len(ids)]
        depth = np.array(
            [
                np.mean([received(seen, 0, layer, sample, head, name == "llama") for head in range(4)], axis=0)
                for layer in range(seen.layers)
            ]
        )
        rises = np.diff(depth, axis=0).clip(min=0).sum(0)
        smooth = [rises[max(0, j - 1) : j + 2].mean() for j in range(len(rises))]
        wanted = sorted(sorted(prompt_columns, key=lambda j: -smooth[j])[:2])
        before, after = (values[sample] for values in seen.new(1, 0))
        row = seen.real(1, sample)[-1] - (seen.positions[1].real.shape[1] - before.shape[1])
        assert np.allclose(after[:, row], boosted(before, wanted, 2.0)[:, row], atol=1e-5)
    assert {change.step for change in edit.report()} == set(range(1, seen.steps))


def test_spans_of_a_built_prompt() -> None:
    model = fl.load("scale:llada")
    documents = [Document(text="Ada Frost plays the flute ."), Document(text="Boris Winter plays the harp .")]
    question = {"question": "What does Ada Frost play ?", "documents": documents, "gold": 0, "answers": ["flute"]}
    built = fl.prompts.build(model.tokenizer, **question)
    said = {
        span: "".join(
            built.text[start:stop] for start, stop in built.offsets[Boost(span).flags_of(built)].tolist()
        ).replace(" ", "")
        for span in ("evidence", "gold", "documents", "question", "doc2")
    }
    assert said["evidence"] == "flute"
    assert "AdaFrostplaystheflute." in said["gold"]
    assert "Boris" not in said["gold"]
    assert "Boris" in said["doc2"]
    assert said["documents"] == said["gold"] + said["doc2"]
    assert "Whatdoes" in said["question"]
    start = built.text.index("Boris")
    flags = Boost(characters=(start, start + 5)).flags_of(built)
    assert "Boris" in "".join(built.text[a:b] for a, b in built.offsets[flags].tolist())


def test_a_trace_boosts_its_own_prompt() -> None:
    model = fl.load("scale:llada")
    given: dict[str, Any] = {"documents": ["Ada Frost plays the flute .", "Boris Winter plays the harp ."], "gold": 0}
    given |= {"question": "What does Ada Frost play ?", "gen_length": 2, "probes": ["received", "flow"]}
    plain = fl.trace(model, **given)
    edit = Boost("gold", gain=4.0)
    more = fl.trace(model, **given, edits=[edit])
    gold = [trace.data.flow.sel(region="doc1").mean() for trace in (plain, more)]
    assert float(gold[1]) > 1.5 * float(gold[0])
    assert "Boost(span='gold', gain=4.0)" in more.data.attrs["edits"]


def test_a_question_without_the_span_fails_alone() -> None:
    model = fl.load("scale:llada")
    documents = [Document(text="Ada Frost plays the flute .", is_gold=True)]
    both = [
        Example(id="a", question="What does Ada Frost play ?", answers=["flute"], documents=documents),
        Example(id="b", question="What does Boris Winter play ?", answers=["harp"]),
    ]
    (spec,) = parse_edit("boost:span=gold:gain=0.5")
    config = AskConfig(decoding={"settings": {"gen_length": 2}})  # type: ignore[arg-type]
    first, second = ask(model, [Asked(one, edit=spec) for one in both], config)
    assert first.status == "done"
    assert first.moved_share is not None
    assert first.moved_share > 0
    assert first.kl is not None
    assert (second.status, second.error) == (
        "failed",
        "boost: this prompt has no gold; name the gold documents, or boost another span",
    )


def test_by_name() -> None:
    specs = parse_edit("boost:span=doc3:gain=0.5,2")
    assert [spec.label for spec in specs] == ["boost span=doc3 gain=0.5", "boost span=doc3 gain=2"]
    assert specs[0].controls == ("count", "mass")
    control = specs[1].with_control(4, "mass").build()
    assert isinstance(control, BoostRandom)
    assert (control.span, control.gain, control.seed, control.kind) == ("doc3", 2.0, 4, "mass")
    assert parse_edit("boost:span=dynamics:k=4")[0].earliest_step == 1
    assert not Boost(gain=0).active


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"span": "evidense"}, 'no span "evidense"; did you mean "evidence"?'),
        ({"gain": -1}, "gain=-1): give a number from 0"),
        ({"gain": float("nan")}, "give a number from 0"),
        ({"span": "gold", "k": 3}, 'only span="dynamics" chooses keys'),
        ({"span": "dynamics", "k": 0}, "give a whole number from 1"),
        ({"rows": "last"}, 'give "all" or "answer"'),
        ({"span": "gold", "characters": (0, 3)}, "give a span or characters, not both"),
        ({"characters": (3, 3)}, "give (start, stop) with start before stop"),
    ],
)
def test_what_is_refused(given: Any, message: str) -> None:
    with pytest.raises(FloatlensError) as error:
        Boost(**given)
    assert message in str(error.value)


def test_a_context_without_prompts_is_refused_at_the_first_pass(tiny_model: Any) -> None:
    with (
        fl.edit(tiny_model("llada"), Boost("question")),
        pytest.raises(FloatlensError, match=r"no prompt is known.*give edit\(model, …, prompts"),
    ):
        fl.decode(tiny_model("llada"), PROMPTS, gen_length=2)
