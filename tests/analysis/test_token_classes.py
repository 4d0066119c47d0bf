"""Classes of anchors and of mass, and their enrichment over the tokens present."""

from __future__ import annotations

import numpy as np
import pytest

from floatlens.analysis import token_classes
from floatlens.analysis.token_classes import classes_of
from floatlens.core.errors import FloatlensError
from floatlens.prompts.words import CLASSES
from shared.synthetic import EOS, MASK, build, random_attention, ready, spread

TEXTS = ["<bos>", "the", "dog", ".", "12", "<eos>"]
KINDS = ["special", "function", "content", "punctuation", "number", "special"]


def share_on(*weights):
    """Attention of one layer and head in which every query gives these shares."""
    return np.tile(np.array(weights), (1, 1, 1, len(weights), 1))


def values(result, name):
    return dict(zip(CLASSES, result.group().estimate(name).mean.reshape(len(CLASSES), -1)[:, 0].tolist(), strict=True))


def test_mass_and_enrichment_by_hand():
    trace = build(share_on(0.5, 0.1, 0.2, 0.05, 0.05, 0.1), causal=False, texts=TEXTS)
    found = token_classes(trace, rule="topk(2)")
    mass = {"special": 0.6, "function": 0.1, "content": 0.2, "punctuation": 0.05, "number": 0.05, "mask": 0}
    assert values(found, "mass") == {name: pytest.approx(x, abs=1e-6) for name, x in mass.items()}
    tokens = {"special": 2 / 6, "function": 1 / 6, "content": 1 / 6, "punctuation": 1 / 6, "number": 1 / 6, "mask": 0}
    assert values(found, "tokens") == {name: pytest.approx(x) for name, x in tokens.items()}
    enrichment = values(found, "mass_enrichment")
    assert enrichment["special"] == pytest.approx(0.6 / (2 / 6), abs=1e-5)
    assert enrichment["content"] == pytest.approx(0.2 * 6, abs=1e-5)
    assert np.isnan(enrichment["mask"])  # none is present
    anchors = values(found, "anchors")  # keys 0 and 2
    assert (anchors["special"], anchors["content"], anchors["function"]) == (0.5, 0.5, 0)
    assert values(found, "anchors_enrichment")["content"] == pytest.approx(3)
    assert found.group().estimate("structural").mean.tolist() == [pytest.approx(0.75 / (4 / 6), abs=1e-5)]
    assert found.group().estimate("lexical").mean.tolist() == [pytest.approx(0.25 / (2 / 6), abs=1e-5)]
    assert found.group().estimate("structural_anchors").mean.tolist() == [pytest.approx(0.5 / (4 / 6))]
    assert found.group().estimate("lexical_anchors").mean.tolist() == [pytest.approx(0.5 / (2 / 6))]


def test_a_position_is_a_mask_until_it_is_committed():
    """Two steps: "dog" is masked at step 0 and a word at step 1."""
    attention = np.tile(share_on(0.1, 0.1, 0.6, 0.1, 0.05, 0.05), (2, 1, 1, 1, 1))
    trace = build(attention, causal=False, texts=TEXTS, mask_id=MASK, committed=[(2, 0)])
    kinds = [[CLASSES[int(member.argmax())] for member in classes_of(trace)[:, step].T] for step in range(2)]
    assert kinds == [["special", "function", "mask", "punctuation", "number", "special"], KINDS]
    found = token_classes(trace, rule="top1")
    assert values(found, "anchors")["mask"] == values(found, "anchors")["content"] == 0.5  # one step of two each
    assert values(found, "mass")["mask"] == pytest.approx(0.3, abs=1e-6)
    assert values(found, "mass_enrichment")["mask"] == pytest.approx(0.6 * 6, abs=1e-5)  # over steps that have any
    assert values(found, "tokens")["mask"] == pytest.approx(1 / 12)


def test_what_is_absent_has_no_class_and_does_not_count_as_present():
    """Growing from three tokens to four; the fourth is a number."""
    attention = spread(np.ones((2, 1, 1, 5, 5)), causal=True, lengths=[3, 4])
    trace = build(attention, causal=True, texts=[*TEXTS[:3], "12", "."], committed=[(3, 0), (4, 1)])
    assert classes_of(trace).sum(axis=(0, 2)).tolist() == [3, 4]
    found = token_classes(trace, rule="top1")
    assert values(found, "tokens")["number"] == pytest.approx((0 + 1 / 4) / 2)
    assert values(found, "tokens")["special"] == pytest.approx((1 / 3 + 1 / 4) / 2)
    assert values(found, "tokens")["punctuation"] == 0


@pytest.mark.parametrize("rule", ["topk(2)", "gu(0.2)"])
def test_shares_over_steps_layers_and_heads_against_loops(rule):
    attention = random_attention(8, 3, 2, 2, 6, causal=False)
    found = token_classes(build(attention, causal=False, texts=TEXTS), rule=rule)
    received = attention.mean(axis=3).astype(np.float32)  # (step, layer, head, key)
    for c, name in enumerate(CLASSES):
        members = [j for j in range(6) if KINDS[j] == name]
        for layer in range(2):
            mass = np.mean([received[s, layer, :, members].sum() / 2 for s in range(3)])
            assert found.group().estimate("mass").mean[c, layer] == pytest.approx(mass, abs=1e-5)
            shares = []
            for step in range(3):
                if rule.startswith("gu"):
                    chosen = [j for h in range(2) for j in range(6) if received[step, layer, h, j] > 0.2]
                else:
                    chosen = np.argsort(-received[step, layer].mean(axis=0))[:2].tolist()
                if chosen:
                    shares.append(sum(j in members for j in chosen) / len(chosen))
            assert found.group().estimate("anchors").mean[c, layer] == pytest.approx(np.mean(shares))


def test_shares_sum_to_one_and_uniform_attention_is_enriched_nowhere():
    found = token_classes(ready("uniform", causal=False, noise=0), rule="zscore or top1")
    assert np.allclose(found.group().estimate("mass").mean.sum(axis=0), 1)
    assert np.allclose(found.group().estimate("anchors").mean.sum(axis=0), 1)
    assert found.group().estimate("tokens").mean.sum() == pytest.approx(1)
    enrichment = found.group().estimate("mass_enrichment").mean
    assert np.allclose(enrichment[~np.isnan(enrichment)], 1, atol=1e-5)
    assert np.allclose(found.group().estimate("structural").mean, 1, atol=1e-5)


def test_without_anchors_their_classes_are_not_defined_but_those_of_mass_are():
    found = token_classes(ready("uniform", causal=False, noise=0))
    assert np.isnan(found.group().estimate("anchors").mean).all()
    assert np.isnan(found.group().estimate("structural_anchors").mean).all()
    assert np.isfinite(found.group().estimate("structural").mean).all()


def test_special_ids_of_the_model_are_special_whatever_they_say():
    trace = build(share_on(0.5, 0.5), causal=False, texts=["dog", "dog"], final=[7, EOS])
    assert classes_of(trace)[CLASSES.index("special"), 0].tolist() == [False, True]


def test_a_trace_without_texts_is_refused():
    with pytest.raises(FloatlensError, match=r"trace of synthetic holds no token texts.*comes with a tokenizer"):
        token_classes(build(share_on(0.5, 0.5), causal=False))
