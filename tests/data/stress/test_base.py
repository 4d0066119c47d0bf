"""A stress test is a function of seed, question, point and pool alone, and says in one line what it cannot do."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from floatlens.core.errors import FloatlensError
from floatlens.data import Example
from floatlens.data.stress import Point, Pool, StressSettings
from floatlens.data.stress.arrangement import generator
from floatlens.prompts import Document
from floatlens.subjects.scale.examples import questions
from shared.stress import apply, points, unfit

SETTINGS = StressSettings(seed=1, distractor={"counts": (1, 3)})
RAG, TWO_HOP = questions("rag", 60), questions("two-hop", 10)
POOL = Pool.of([*RAG, *TWO_HOP])


def gold(title: str, text: str) -> Document:
    return Document(title=title, text=text, is_gold=True)


def made(example: Example, test: str, settings: StressSettings = SETTINGS) -> list[Example]:
    return [apply(example, point, POOL, settings) for point in points(test, settings)]


# -- the same everywhere ------------------------------------------------------------------------------------------

_DIGEST = """
import hashlib
from floatlens.data.stress import Pool, StressSettings, STRESS_TESTS
from floatlens.subjects.scale.examples import questions

def digest(order):
    examples = questions("two-hop", 6)
    pool = Pool.of(questions("two-hop", 150))
    settings = StressSettings(distractor={"counts": (1, 3)})
    tests = [settings.of(name) for name, test in STRESS_TESTS.items() if test.by_default]
    jobs = order([(e, p) for e in examples for t in tests for p in t.points()])
    made = {f"{e.id} {p.label}": settings.of(p.test).apply(e, p, pool).model_dump_json() for e, p in jobs}
    return hashlib.sha256("".join(made[name] for name in sorted(made)).encode()).hexdigest()
"""


def test_the_same_in_every_process_and_any_order() -> None:
    code = f"{_DIGEST}\nprint(digest(lambda jobs: jobs[::-1]))"
    environment = os.environ | {"PYTHONHASHSEED": "12345", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    here: dict[str, Any] = {}
    exec(_DIGEST, here)
    assert done.stdout.strip() == here["digest"](list)


def test_the_same_in_any_order_here_and_another_for_another_seed_or_question() -> None:
    fitting = [example for example in RAG if unfit(example, "distractor", SETTINGS, POOL) is None]
    assert len(fitting) >= 10
    jobs = [(e, p) for e in fitting[:10] for t in ("noise", "distractor", "order") for p in points(t, SETTINGS)]
    first = {(e.id, p.label): apply(e, p, POOL, SETTINGS) for e, p in jobs}
    random.Random(0).shuffle(jobs)
    assert {(e.id, p.label): apply(e, p, POOL, SETTINGS) for e, p in jobs} == first
    example = RAG[0]
    other_seed = StressSettings(seed=2, distractor={"counts": (1, 3)})
    renamed = example.model_copy(update={"id": "another"})
    for test in ("noise", "order"):
        texts = [
            [d.text for e in made(one, test, s) for d in e.documents]
            for one, s in ((example, SETTINGS), (example, other_seed), (renamed, SETTINGS))
        ]
        assert texts[0] != texts[1]
        assert texts[0] != texts[2]


def test_a_generator_is_seeded_by_a_digest_of_its_purpose() -> None:
    """Whatever changes this changes every stress result."""
    digest = hashlib.sha256(b'[0, "q", "order", "2"]').digest()
    wanted = np.random.default_rng([int.from_bytes(digest[i : i + 4], "little") for i in range(0, 32, 4)])
    assert generator(0, "q", "order", "2").permutation(8).tolist() == wanted.permutation(8).tolist()


# -- what cannot be done ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("test", "number", "reason"),
    [
        ("clean", 0, "has 0 gold documents, and clean needs 1 or more"),
        ("noise", 0, "has 0 gold documents, and noise needs 1 or more"),
        ("layout", 1, "has 1 gold document, and layout needs 2 or more"),
        ("position", 10, "has 10 gold documents, which fill all 10 places"),
        ("layout", 11, "has 11 gold documents, which fill all 10 places"),
        ("order", 11, None),
        ("masks", 0, None),
        ("noise", 1, None),
    ],
)
def test_unfit(test: str, number: int, reason: str | None) -> None:
    documents = [gold(f"G{i}", f"In Kell {i}.") for i in range(number)]
    example = Example(id="q", question="Where?", answers=["Kell"], documents=documents)
    assert unfit(example, test) == reason
    point = points(test)[0]
    if reason is None:
        assert len(apply(example, point, POOL, SETTINGS).documents) <= 10
    else:
        with pytest.raises(FloatlensError) as caught:
            apply(example, point, POOL, SETTINGS)
        assert str(caught.value) == f'question "q" {reason}; leave it out of test "{test}"'


def test_too_small_a_pool_is_said_in_one_line_and_known_before() -> None:
    document = gold("Orrin", "The treaty was made in the U.S. in 1802.")
    example = Example(id="us", question="Where?", answers=["U.S."], documents=[document])
    small = Pool([Document(text="One."), Document(text="Two."), Document(text="In the US.")])
    wanted = (
        "needs 4 distractors, and only 2 documents qualify (no accepted answer, no gold title); "
        "use data with more questions, or fewer distractors"
    )
    with pytest.raises(FloatlensError) as caught:
        apply(example, points("noise")[-1], small, SETTINGS)
    assert str(caught.value) == f'question "us" {wanted}'
    assert unfit(example, "noise") is None
    assert unfit(example, "noise", SETTINGS, small) == wanted
    assert unfit(example, "noise", StressSettings(noise={"ratios": (0, 0.4)}), small) is None


@pytest.mark.parametrize(
    "point", [Point("nois", "", 0, ""), Point("distractor", "rondom", 1, "1"), Point("layout", "layout", 0, "adjacend")]
)
def test_a_point_that_is_none(point: Point) -> None:
    with pytest.raises(FloatlensError, match="did you mean"):
        apply(TWO_HOP[0], point, POOL, SETTINGS)


def test_gold_groups_follow_their_documents() -> None:
    """RGB says to which part of the answer a gold document belongs, in the order of the gold documents."""
    documents = [gold("", f"Kell, part {i}.") for i in range(4)]
    meta = {"gold_groups": [0, 0, 1, 2]}
    example = Example(id="q", question="Where?", answers=["Kell"], documents=documents, meta=meta)
    for stressed in [*made(example, "noise"), *made(example, "order")]:
        numbers = [int(d.text[-2]) for d in stressed.documents if d.is_gold]
        assert stressed.meta["gold_groups"] == [meta["gold_groups"][i] for i in numbers]
