"""The studies in the documentation can be read as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from floatlens.runs.choosing import choose
from floatlens.runs.study_file import read_study

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.DOTALL | re.MULTILINE)
STUDIES = [
    pytest.param(text, id=f"{page.name}-{place}")
    for page in (DOCS / "studies.md", DOCS / "cluster.md")
    for place, text in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")))
]


def test_both_pages_show_one() -> None:
    assert {str(one.id).partition("-")[0] for one in STUDIES} == {"studies.md", "cluster.md"}


@pytest.mark.parametrize("text", STUDIES)
def test_a_study_of_the_docs_is_one(text: str, tmp_path: Path) -> None:
    """Its form, and its conditions by name; models and data are the reader's."""
    path = tmp_path / "study.yaml"
    path.write_text(text, encoding="utf-8")
    study = read_study(path).study
    assert study.models
    for names in (study.conditions, *(data.conditions for data in study.data)):
        assert names is None or choose(names, "here").modes is not None
