"""Choices and random numbers against plain loops."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from floatlens.decoding.draws import best, categorical, generators, gumbel_argmax, nucleus, uniform

rows = st.lists(st.floats(-8, 8, width=32), min_size=2, max_size=12)


@given(row=rows, top_p=st.floats(0.01, 0.99))
def test_top_p_keeps_the_token_that_crosses(row, top_p):
    weights = [math.exp(value) for value in row]
    kept, total = set(), 0.0
    for token in sorted(range(len(row)), key=lambda v: (-row[v], v)):
        if abs(total - top_p) < 1e-5:
            return  # float32 may see it on the other side
        if total <= top_p:
            kept.add(token)
        total += weights[token] / sum(weights)
    left = nucleus(torch.tensor([row]), top_p=top_p)[0]
    assert {token for token in range(len(row)) if left[token] > -math.inf} == kept
    assert all(left[token].item() == pytest.approx(row[token]) for token in kept)


@given(row=rows, top_k=st.integers(1, 14))
def test_top_k_keeps_equals_of_the_last(row, top_k):
    left = nucleus(torch.tensor([row]), top_k=top_k)[0].tolist()
    kth = sorted(row, reverse=True)[min(top_k, len(row)) - 1]
    assert left == [value if value >= kth else -math.inf for value in row]


def test_top_p_comes_before_top_k():
    row = torch.log(torch.tensor([[0.5, 0.2, 0.2, 0.1]]))
    assert (nucleus(row, 0.4, 2) > -math.inf).tolist() == [[True, False, False, False]]
    assert (nucleus(row, 0.95, 2) > -math.inf).tolist() == [[True, True, True, False]]
    assert torch.equal(nucleus(row, 1.0, None), row)


@given(row=rows, u=st.floats(0, 1, exclude_max=True))
def test_categorical_inverts_the_distribution(row, u):
    total = math.fsum(map(math.exp, row))
    heap, expected = 0.0, len(row) - 1
    for token, value in enumerate(row):
        heap += math.exp(value) / total
        if abs(heap - u) < 1e-6:
            return  # on the edge between two tokens
        if u < heap:
            expected = token
            break
    assert categorical(torch.tensor([row]), torch.tensor([u], dtype=torch.float64)).item() == expected


def test_categorical_never_draws_the_impossible():
    row = torch.tensor([[-math.inf, 0.0, -math.inf, 0.0, -math.inf]]).repeat(4, 1)
    u = torch.tensor([0.0, 0.4999, 0.5, 1 - 2**-53], dtype=torch.float64)
    assert categorical(row, u).tolist() == [1, 1, 3, 3]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_gumbel_draws_from_the_tempered_softmax(temperature):
    """20 000 draws: each frequency within four standard errors of softmax(logits / temperature)."""
    logits = torch.tensor([1.0, 0.0, -1.0, 2.0])
    n = 20_000
    sample = torch.zeros(n, dtype=torch.long)
    tokens = gumbel_argmax(logits.expand(n, 4), sample, temperature, generators(7, 1))
    frequency = torch.bincount(tokens, minlength=4) / n
    share = torch.softmax(logits / temperature, dim=0)
    assert ((frequency - share).abs() < 4 * (share * (1 - share) / n).sqrt()).all()


def test_gumbel_matches_the_published_score_beyond_one_piece():
    """exp(logit) / (-ln U)^T by plain arithmetic, over more rows than are noised at a time, for two samples."""
    logits = torch.randn(40, 7, generator=torch.Generator().manual_seed(0))
    sample = torch.tensor([0] * 23 + [1] * 17)
    expected = []
    for count, begin in ((23, 0), (17, 23)):
        random = torch.Generator().manual_seed(3)
        for row in logits[begin : begin + count].tolist():
            u = torch.rand(7, generator=random, dtype=torch.float64).tolist()
            scores = [math.exp(value) / (-math.log(x)) ** 0.7 for value, x in zip(row, u, strict=True)]
            expected.append(scores.index(max(scores)))
    assert gumbel_argmax(logits, sample, 0.7, generators(3, 2)).tolist() == expected


def test_gumbel_at_temperature_0_is_argmax_and_draws_nothing():
    random = generators(1, 1)
    before = random[0].get_state()
    assert gumbel_argmax(torch.tensor([[0.0, 3.0, 1.0]]), torch.tensor([0]), 0.0, random).tolist() == [1]
    assert torch.equal(before, random[0].get_state())


def test_uniform_takes_each_number_from_its_own_sample():
    drawn = uniform(torch.tensor([0, 0, 2]), generators([4, 5, 6], 3))
    four = torch.rand(2, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    six = torch.rand(1, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
    assert drawn.tolist() == four.tolist() + six.tolist()


@given(
    scores=st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0.0, 0.25, 0.5, 1.0])), max_size=12),
    count=st.lists(st.integers(0, 5), min_size=3, max_size=3),
)
def test_best_takes_the_highest_and_of_equals_the_first(scores, count):
    scores.sort(key=lambda pair: pair[0])
    expected = set()
    for sample, wanted in enumerate(count):
        own = [(-score, place) for place, (owner, score) in enumerate(scores) if owner == sample]
        expected |= {place for _, place in sorted(own)[:wanted]}
    sample = torch.tensor([owner for owner, _ in scores], dtype=torch.long)
    keep = best(torch.tensor([score for _, score in scores]), sample, torch.tensor(count))
    assert set(keep.nonzero().flatten().tolist()) == expected
