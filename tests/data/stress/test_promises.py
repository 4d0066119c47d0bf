"""What every stress test promises about documents, checked over scale questions, hand-made ones and many seeds."""

from __future__ import annotations

import itertools
import json
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from floatlens.core.errors import FloatlensError
from floatlens.data import Example
from floatlens.data.stress import STRESS_TESTS, Point, Pool, StressSettings
from floatlens.evaluation.metrics import accuracy
from floatlens.prompts import Document
from floatlens.subjects.scale.examples import questions
from shared.stress import apply, name_of, points, unfit

SETTINGS = StressSettings(seed=1, distractor={"counts": (1, 3, 6)})
RAG, TWO_HOP = questions("rag", 60), questions("two-hop", 40)
FILLING = [*questions("rag", 60, seed=9), *questions("two-hop", 60, seed=9)]


def gold(title: str, text: str) -> Document:
    return Document(title=title, text=text, is_gold=True)


HAND_MADE = [
    Example(
        id="us",
        question="Where was the treaty of Orrin signed?",
        answers=["U.S.", "United States of America"],
        documents=[
            gold("Orrin", "The treaty of Orrin was made in the U.S. in 1802."),
            Document(title="Bus", text="A bus."),
        ],
    ),
    Example(
        id="röntgen",
        question="Who was given the first prize in physics?",
        answers=["Wilhelm Conrad Röntgen", "Röntgen"],
        documents=[
            gold("Prizes", "The first was given to RÖNTGEN. Then came others."),
            Document(text="Röntgen's rays."),
        ],
    ),
    Example(
        id="number",
        question="How many men went to Hest?",
        answers=["1,200"],
        documents=[gold("Hest", "There were 1200 men."), gold("Men", "The men went to Hest. It was far.")],
    ),
    Example(
        id="many words",
        question="What stands on the river of Hest?",
        answers=["old stone bridge"],
        documents=[
            gold("", "An Old Stone Bridge stands there."),
            Document(title="HEST", text="A river."),
            Document(text="a river"),
            Document(text="A river!"),
        ],
    ),
]
POOL = Pool.of([*HAND_MADE, *RAG, *TWO_HOP, *FILLING])
ALL = [*HAND_MADE, *RAG, *TWO_HOP]
BEFORE = [example.model_dump_json() for example in ALL]


@cache
def fitting(test: str) -> list[Example]:
    return [example for example in ALL if unfit(example, test, SETTINGS, POOL) is None]


_MADE: dict[tuple[str, str, StressSettings], dict[str, Example]] = {}


def made(example: Example, test: str, settings: StressSettings = SETTINGS) -> dict[str, Example]:
    """At every point of a test, by the point's name; done once for all tests of this file."""
    which = example.id, test, settings
    if which not in _MADE:
        _MADE[which] = {name_of(point): apply(example, point, POOL, settings) for point in points(test, settings)}
    return _MADE[which]


def key(document: Document) -> tuple[str, str]:
    return document.title, document.text


def golds(example: Example) -> list[Document]:
    """In evidence order, written here once more."""
    if "gold" in example.meta:
        return [example.documents[i] for i in example.meta["gold"]]
    return [document for document in example.documents if document.is_gold]


def split(example: Example) -> tuple[list[Document], list[Document]]:
    return [d for d in example.documents if d.is_gold], [d for d in example.documents if not d.is_gold]


# -- all tests ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("test", [test for test, one in STRESS_TESTS.items() if one.by_default and test != "masks"])
def test_no_distractor_tells_an_answer_has_a_gold_title_or_comes_twice(test: str) -> None:
    examples = fitting(test)
    assert len(examples) >= (90 if STRESS_TESTS[test].needs < 2 else 40)
    for example in examples:
        titles = {document.title.lower() for document in golds(example)} - {""}
        for name, stressed in made(example, test).items():
            _, others = split(stressed)
            assert (stressed.id, stressed.question, stressed.answers) == (example.id, example.question, example.answers)
            assert len({key(d) for d in others}) == len(others)
            for document in others:
                told = f"{document.title} {document.text}"
                assert not any(accuracy(told, answer) for answer in example.answers), (name, told)
                assert document.title.lower() not in titles or name.startswith("distractor-counterfactual")


@pytest.mark.parametrize("test", [test for test in STRESS_TESTS if test != "collection"])
def test_what_was_done_is_on_record(test: str) -> None:
    for example in fitting(test)[:30]:
        for point in points(test, SETTINGS):
            stressed = apply(example, point, POOL, SETTINGS)
            record = stressed.meta["stress"]
            inside, others = split(stressed)
            assert (record["test"], record["series"], record["x"]) == (point.test, point.series, point.x)
            assert (record["gold"], record["distractors"]) == (len(inside), len(others))
            assert record["documents"] == len(stressed.documents)
            assert sorted(record["gold_places"]) == [i for i, d in enumerate(stressed.documents) if d.is_gold]
            assert record["own_distractors"] == sum(key(d) in map(key, split(example)[1]) for d in others)
            assert json.loads(json.dumps(record)) == record
            if "gold" in example.meta:
                assert stressed.meta["gold"] == record["gold_places"]
            rest = {k: v for k, v in stressed.meta.items() if k not in ("stress", "gold")}
            assert rest == {k: v for k, v in example.meta.items() if k != "gold"}


def test_the_example_itself_is_left_alone() -> None:
    for example, test in itertools.product(ALL[:20], STRESS_TESTS):
        if unfit(example, test, SETTINGS, POOL) is None:
            made(example, test)
    assert [example.model_dump_json() for example in ALL] == BEFORE


# -- test by test -------------------------------------------------------------------------------------------------


def test_clean_is_the_gold_in_evidence_order() -> None:
    for example in ALL:
        assert apply(example, points("clean")[0], POOL, SETTINGS).documents == golds(example)


def test_noise_takes_gold_away_and_adds_noise_but_never_fills_up() -> None:
    several = Example(
        id="several",
        question="Where?",
        answers=["Kell"],
        documents=[gold(f"G{i}", f"In Kell, {i}.") for i in range(7)] + [Document(text="A negative.")],
    )
    for example in [several, *fitting("noise")]:
        for ratio, noise in ((0, 0), (0.2, 1), (0.4, 2), (0.6, 3), (0.8, 4)):
            inside, others = split(made(example, "noise")[f"noise-{ratio}"])
            assert len(others) == noise
            assert sorted(map(key, inside)) == sorted(map(key, golds(example)[: 5 - noise]))
    places = [made(e, "noise")["noise-0.8"].meta["stress"]["gold_places"][0] for e in RAG]
    assert set(places) == set(range(5))  # the gold stands anywhere


@pytest.mark.parametrize(
    ("test", "series"), [("noise", "noise"), *(("distractor", s) for s in ("random", "topic", "counterfactual"))]
)
def test_a_smaller_dose_is_the_beginning_of_a_larger_one(test: str, series: str) -> None:
    for example in fitting(test):
        doses = [apply(example, p, POOL, SETTINGS) for p in points(test, SETTINGS) if p.series == series]
        for small, large in itertools.pairwise(doses):
            fewer, more = (split(one)[1] for one in (small, large))
            assert len(fewer) < len(more)
            kept = {key(d) for d in fewer}
            assert kept < {key(d) for d in more}
            assert [d for d in more if key(d) in kept] == fewer  # and stands in the same order
        if series == "counterfactual":
            records = [dose.meta["stress"]["replaced"] for dose in doses]
            assert all(large[: len(small)] == small for small, large in itertools.pairwise(records))


def test_distractors_keep_all_gold_and_leave_it_where_it_was_among_others() -> None:
    for example in fitting("distractor"):
        found = made(example, "distractor")
        for name, stressed in found.items():
            inside, others = split(stressed)
            assert sorted(map(key, inside)) == sorted(map(key, golds(example)))
            assert len(others) == int(name.rsplit("-", 1)[1])
        for count in (1, 3, 6):  # the three kinds differ in the distractors, not in the places
            kinds = [found[f"distractor-{kind}-{count}"] for kind in ("random", "topic", "counterfactual")]
            assert len({tuple(kind.meta["stress"]["gold_places"]) for kind in kinds}) == 1


def test_position_moves_only_the_gold() -> None:
    for example in fitting("position"):
        found = list(made(example, "position").values())
        evidence = golds(example)
        rests = {tuple(map(key, split(stressed)[1])) for stressed in found}
        assert len(rests) == 1
        for place, stressed in enumerate(found):
            start = min(place, 10 - len(evidence))
            assert len(stressed.documents) == 10
            assert stressed.documents[start : start + len(evidence)] == evidence


def test_layouts() -> None:
    for example in fitting("layout"):
        found = made(example, "layout")
        evidence = golds(example)
        adjacent, scattered, back, pieces = (
            found[f"layout-{n}"] for n in ("adjacent", "scattered", "reversed", "split")
        )
        assert len({tuple(map(key, split(one)[1])) for one in (adjacent, scattered, back)}) == 1
        assert [len(one.documents) for one in found.values()] == [10] * 4
        first = adjacent.meta["stress"]["gold_places"][0]
        assert adjacent.documents[first : first + len(evidence)] == evidence
        assert back.documents[first : first + len(evidence)] == evidence[::-1]
        assert split(scattered)[0] == evidence
        places = scattered.meta["stress"]["gold_places"]
        assert all(b - a == 5 for a, b in itertools.pairwise(places))  # two of ten
        inside, others = split(pieces)
        assert others == split(adjacent)[1][: len(others)]
        assert [title for title, _ in itertools.groupby(d.title for d in inside)] == [d.title for d in evidence]
        for document in evidence:
            mine = [piece.text for piece in inside if piece.title == document.title]
            assert " ".join(mine) == document.text
            assert len(mine) == document.text.count(".")


def test_a_layout_of_more_sentences_than_places_has_no_distractors() -> None:
    example = Example(
        id="long",
        question="Where?",
        answers=["Kell"],
        documents=[gold("A", "One. Two. Three. In Kell."), gold("B", "Five. Six.")],
    )
    few = StressSettings(documents=5)
    found = made(example, "layout", few)
    assert [d.text for d in found["layout-split"].documents] == ["One.", "Two.", "Three.", "In Kell.", "Five.", "Six."]
    assert len(found["layout-scattered"].documents) == 5


def test_order_shuffles_the_same_documents() -> None:
    same = 0
    for example in fitting("order"):
        shuffles = list(made(example, "order").values())
        contents = [sorted(map(key, one.documents)) for one in shuffles]
        assert contents.count(contents[0]) == 4
        assert len(contents[0]) == 10
        assert set(map(key, golds(example))) <= set(contents[0])
        same += len({tuple(map(key, one.documents)) for one in shuffles}) < 4
        position = apply(example, points("position")[0], POOL, SETTINGS)
        assert sorted(map(key, position.documents)) == contents[0]
    assert same == 0


def test_masks_leave_the_documents_as_they_are() -> None:
    closed = Example(id="closed", question="Who?", answers=["Ada"])
    for example in [closed, *ALL]:
        for stressed in made(example, "masks").values():
            assert stressed.documents == example.documents
            assert stressed.meta.get("gold") == example.meta.get("gold")


# -- where distractors come from ----------------------------------------------------------------------------------


def test_own_documents_come_before_the_pool() -> None:
    for example in RAG:
        own = [
            d for d in example.documents if not d.is_gold and not accuracy(f"{d.title} {d.text}", example.answers[0])
        ]
        for stressed in made(example, "noise").values():
            others = split(stressed)[1]
            assert all(d in own for d in others[: len(own)])
        ten = made(example, "order")["order-0"]
        assert {key(d) for d in own} <= {key(d) for d in ten.documents}
        assert ten.meta["stress"]["own_distractors"] == len(own)


def test_a_document_of_the_pool_repeats_no_title() -> None:
    for example in [*RAG, *HAND_MADE]:
        own = {key(d) for d in example.documents}
        documents = made(example, "order", StressSettings(documents=30))["order-0"].documents
        titles = [d.title.lower() for d in documents if d.title]
        pooled = [d.title.lower() for d in documents if key(d) not in own]
        assert all(titles.count(title) == 1 for title in pooled if title)


def test_texts_that_differ_only_in_how_they_are_written_are_one_and_gold_is_no_distractor() -> None:
    first = gold("", "He went on to Orrin.")  # evidence without a title that does not tell the answer
    own = [Document(text="A river."), Document(text="a RIVER")]
    example = Example(
        id="q", question="Where?", answers=["Kell"], documents=[first, gold("", "Orrin is in Kell."), *own]
    )
    pooled = ["The river!", "he went on to orrin", "A lake."]
    pool = Pool([Document(text=text) for text in pooled])
    stressed = apply(example, Point("distractor", "random", 2, "2"), pool, SETTINGS)
    texts = [d.text for d in split(stressed)[1]]
    assert "A lake." in texts
    assert len(set(texts) & {"A river.", "a RIVER"}) == 1
    with pytest.raises(FloatlensError, match="only 2 documents qualify"):
        apply(example, Point("distractor", "random", 3, "3"), pool, SETTINGS)


def test_nobody_else_in_the_scale_world_names_the_subject() -> None:
    """BM25 would find "X is married to SUBJECT" first, which answers "whom is SUBJECT married to" with X."""
    example = RAG[0]
    subject = example.meta["subject"]
    told = Document(title="Otto Harker", text=f"Otto Harker is married to {subject}.")
    pool = Pool([told, *POOL.documents], POOL.answers)
    assert next(iter(pool.nearest(f"{subject} married"))).title in ("Otto Harker", subject)
    stressed = apply(example, Point("distractor", "topic", 6, "6"), pool, SETTINGS)
    assert told not in stressed.documents
    assert all(subject not in d.text for d in split(stressed)[1])


def test_topic_distractors_are_the_nearest_that_may_serve() -> None:
    pool = Pool(
        [
            Document(title="Hest", text="The river of Hest, the river."),  # a gold title
            Document(title="A", text="river river river bridges, an old stone bridge"),  # tells the answer
            Document(title="B", text="river of hest"),
            Document(title="b", text="river hest stands"),  # repeats a title
            Document(title="C", text="It stands."),
            Document(title="D", text="Something else."),
            Document(title="E", text="river"),
        ]
    )
    example = Example(
        id="q",
        question="What stands on the river of Hest?",
        answers=["old stone bridge"],
        documents=[gold("HEST", "An old stone bridge.")],
    )
    found = [d.title for d in pool.nearest(example.question) if d.title in ("b", "C", "E")]
    stressed = apply(example, Point("distractor", "topic", 3, "3"), pool, SETTINGS)
    assert {d.title for d in split(stressed)[1]} == set(found)
    with pytest.raises(FloatlensError, match="4 distractors, and only 3 documents sharing a word with it qualify"):
        apply(example, Point("distractor", "topic", 4, "4"), pool, SETTINGS)


def attempted(example: Example, point: Point, pool: Pool, chosen: StressSettings) -> Example | str:
    try:
        return apply(example, point, pool, chosen)
    except FloatlensError as error:
        return str(error)


TEXTS = st.text(alphabet="abAB .U-", min_size=1, max_size=8).filter(lambda text: text.strip() != "")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(TEXTS, min_size=1, max_size=3),
    st.lists(st.tuples(TEXTS, TEXTS, st.booleans()), min_size=1, max_size=6),
    st.lists(st.tuples(TEXTS, TEXTS), max_size=12),
    st.integers(0, 5),
)
def test_any_texts(
    answers: list[str], documents: list[tuple[str, str, bool]], others: list[tuple[str, str]], seed: int
) -> None:
    """Either the promise is kept, or it is said in one line why it cannot be."""
    given_ = [Document(title=t, text=x, is_gold=g) for t, x, g in documents]
    example = Example(id="q", question="ab?", answers=answers, documents=given_)
    pool = Pool(
        [Document(title=t, text=x) for t, x in others], Pool.of([Example(id="p", question="?", answers=["zz"])]).answers
    )
    chosen = StressSettings(
        seed=seed, documents=4, noise={"documents": 3, "ratios": (0, 0.6)}, distractor={"counts": (1,)}
    )
    for test in ("noise", "position", "distractor", "layout", "order"):
        for point in points(test, chosen):
            stressed = attempted(example, point, pool, chosen)
            if isinstance(stressed, str):
                assert stressed.startswith(
                    ('question "q" has ', 'question "q" needs ', 'question "q" names no accepted answer')
                )
                continue
            told = [f"{d.title} {d.text}" for d in split(stressed)[1]]
            assert not any(accuracy(text, answer) for text in told for answer in answers)
