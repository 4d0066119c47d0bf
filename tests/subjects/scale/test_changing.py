"""scale:changing: facts that change, from a seed, in words that scale models know."""

from __future__ import annotations

import re

import pytest

from floatlens.core.errors import FloatlensError
from floatlens.data import open_data
from floatlens.data.collection import view_at
from floatlens.data.collection.made import FATES
from floatlens.subjects.scale.changing import changing
from floatlens.subjects.scale.tokenizer import make_tokenizer
from floatlens.subjects.scale.world import make_world


def test_every_word_is_in_the_vocabulary() -> None:
    examples, collection = changing(None)
    vocabulary = set(make_tokenizer().get_vocab())
    texts = [example.question for example in examples]
    texts += [text for one in collection.versions for text in (one.title, one.text, *one.answers.popitem()[1])]
    unknown = {word for text in texts for word in re.findall(r"\w+", text)} - {one.strip("Ġ▁ ") for one in vocabulary}
    assert not unknown


def test_the_first_version_is_what_training_said_and_a_correction_is_not() -> None:
    examples, collection = changing(40)
    known = {who.name: who.facts for who in make_world().known}
    for number, example in enumerate(examples):
        first, *later = collection.about(example.id)
        true = known[example.meta["subject"]][example.meta["path"][0]]
        assert first.answers[example.id] == (true,)
        assert example.meta["fate"] == FATES[number % 4]
        assert bool(later) == (example.meta["fate"] == "corrected")
        for one in later:
            assert one.answers[example.id] != (true,)
            assert one.answers[example.id][0] in one.text
            assert true not in one.text
        assert example.documents[0].is_gold
        assert example.answers[0] in example.documents[0].text


def test_the_same_for_a_seed_and_the_collection_for_any_count() -> None:
    assert changing(3, seed=5)[0] == changing(8, seed=5)[0][:3]
    assert changing(3, seed=5)[1].sha256 == changing(8, seed=5)[1].sha256
    assert changing(3, seed=6)[1].sha256 != changing(3, seed=5)[1].sha256
    assert len(changing(1, snapshots=2)[1].dates) == 2


def test_as_data() -> None:
    data = open_data("scale:changing:snapshots=3:seed=2", limit=8, need=["answers", "documents"])
    assert data.collection is not None
    assert (data.count, len(data.collection), len(data.collection.dates)) == (8, 360, 3)
    last = data.collection.dates[-1]
    views = [view_at(data.collection, example.id, last) for example in data.examples()]
    assert [bool(view.current) for view in views] == [True, True, False, True] * 2
    assert open_data("scale:changing", limit=8).sha256 != data.sha256


@pytest.mark.parametrize(
    ("ref", "said"),
    [
        ("scale:changing:snapshots=1", "snapshots=1: expected at least 2"),
        ("scale:changing:documents=3", 'no setting "documents"'),
        ("scale:changing:seed=x", 'seed is "x"; expected a whole number, as in scale:changing:seed=3'),
        ("scale:chnging", 'no question set "chnging"; did you mean "changing"'),
    ],
)
def test_mistakes_are_one_line(ref: str, said: str) -> None:
    with pytest.raises(FloatlensError, match=said):
        open_data(ref, limit=2)
    with pytest.raises(FloatlensError, match="there are 360 known people"):
        open_data("scale:changing", limit=400)
    with pytest.raises(FloatlensError, match="leave documents out"):
        open_data("scale:changing", limit=4, documents=3)
