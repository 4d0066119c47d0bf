"""A stress test, a format and a question source of another package: one class or function each, nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import Field

from floatlens.core.errors import FloatlensError
from floatlens.data import FORMATS, QUESTION_SOURCES, Example, open_data
from floatlens.data.fields import Record
from floatlens.data.formats import Format
from floatlens.data.sources import Questions
from floatlens.data.stress import STRESS_TESTS, Distinct, Point, Pool, StressSettings, StressTest, stress_names
from floatlens.prompts import Document
from shared.stress import apply, points, unfit


class Repeated(StressTest):
    """Every gold document several times."""

    name: ClassVar[str] = "repeated"
    title: ClassVar[str] = "Repeated documents"
    about: ClassVar[str] = "The gold documents are repeated."
    axis: ClassVar[str] = "copies"

    copies: Distinct[int] = Field((1, 3), description="how often")

    def points(self) -> Sequence[Point]:
        return [Point(self.name, self.name, n, f"{n}") for n in self.copies]

    def transform(self, example: Example, point: Point, pool: Pool) -> Example:
        gold = [document for document in example.documents if document.is_gold]
        return example.model_copy(update={"documents": gold * int(point.x)})


class Trivia(Format):
    """{"trivia": "Who?", "solution": "Ann", "question": "unused"}, with no checks of its own."""

    name: ClassVar[str] = "trivia"
    title: ClassVar[str] = "Trivia"
    marks: ClassVar[tuple[str, ...]] = ("trivia",)

    def read(self, record: Record, line: int) -> Example:
        return Example(id=record.id(line), question=record["trivia"], answers=[record["solution"]])


def sums(rest: str, *, limit: int | None, documents: int | None) -> Questions:
    """`sums:10`: sums of numbers below ten."""
    if not rest.isdigit():
        raise FloatlensError(f'"{rest}" is not a number, as in sums:10')
    found = [Example(id=f"{i}", question=f"{i} + {i}?", answers=[str(2 * i)]) for i in range(limit or int(rest))]
    return Questions(found, title="sums", version=1, identity=f"sums below {rest}")


@pytest.fixture(autouse=True)
def plugins() -> Iterator[None]:
    registries = (STRESS_TESTS, Repeated), (FORMATS, Trivia)
    for registry, entry in registries:
        registry.add(entry.name, entry)  # type: ignore[attr-defined]
    QUESTION_SOURCES.add("sums", sums)
    yield
    for registry, entry in registries:
        registry.remove(entry.name)  # type: ignore[attr-defined]
    QUESTION_SOURCES.remove("sums")


GOLD = Document(title="G", text="Ann did it.", is_gold=True)
ASKED = Example(id="q", question="Who?", answers=["Ann"], documents=[GOLD, Document(text="Rain.")])


def test_a_stress_test() -> None:
    assert stress_names()[-1] == "repeated"
    settings = StressSettings.model_validate({"seed": 3, "repeated": {"copies": "1,2"}})
    assert [point.label for point in points("repeated", settings)] == ["repeated 1", "repeated 2"]
    assert [point.label for point in points("repeated")] == ["repeated 1", "repeated 3"]
    assert settings.used(["repeated"]) == {"seed": 3, "documents": 10, "repeated": {"copies": [1, 2]}}
    assert StressSettings.model_validate_json(settings.model_dump_json()) == settings
    made = apply(ASKED, points("repeated", settings)[1], Pool([]), settings)
    assert made.documents == [GOLD, GOLD]
    assert made.meta["stress"] == {"test": "repeated", "series": "repeated", "x": 2}
    assert unfit(ASKED, "repeated", settings, Pool([])) is None
    reason = unfit(ASKED.model_copy(update={"documents": []}), "repeated")
    assert reason == "has 0 gold documents, and repeated needs 1 or more"
    with pytest.raises(FloatlensError, match='stress settings of repeated: no key "copy"; did you mean "copies"'):
        StressSettings.model_validate({"repeated": {"copy": 1}})


def test_what_figures_need_of_a_stress_test() -> None:
    test, point = STRESS_TESTS["repeated"], points("repeated")[1]
    assert (test.tick(point.x, point.point), test.series_label(point.series)) == ("3", "")
    assert (test.summary, test.scale, test.reference, test.kind) == ("area", "linear", "clean", "any")
    assert Repeated().appended(point) is None


def test_a_format_is_tried_before_our_own(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"trivia": "Who?", "solution": "Ann", "question": "unused"}\n')
    data = open_data(path)
    assert (data.format, next(data.examples()).question) == ("trivia", "Who?")
    path.write_text('{"question": "Who?"}\n{"trivia": "Who?", "question": "unused"}\n')
    with pytest.raises(FloatlensError, match=r'x\.jsonl:2: it has "trivia", but the file began in our own format'):
        open_data(path)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ('{"trivia": "Who?"}', "x.jsonl:1: solution is missing"),
        ('{"trivia": "Who?", "solution": 3}', "x.jsonl:1: answers[0] wants a text, got 3"),
    ],
)
def test_a_format_without_checks_gives_messages_all_the_same(tmp_path: Path, record: str, message: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(record)
    with pytest.raises(FloatlensError) as caught:
        open_data(path)
    assert message in str(caught.value)


def test_a_question_source() -> None:
    data = open_data("sums:10", limit=4, need=["answers"])
    assert (data.count, data.name, data.column, data.format, data.title) == (4, "sums:10", "10", "sums", "sums")
    assert [example.answers for example in data.examples()] == [["0"], ["2"], ["4"], ["6"]]
    assert data.sha256 == open_data("sums:10").sha256 != open_data("sums:9").sha256
    for ref, options, message in (
        ("sums:ten", {}, 'sums:ten: "ten" is not a number'),
        ("sums:3", {"need": ["gold"]}, "sums:3: no document is marked as gold"),
        ("sums:3", {"format": "psg"}, "not read from a file"),
    ):
        with pytest.raises(FloatlensError, match=message):
            open_data(ref, **options)  # type: ignore[arg-type]
