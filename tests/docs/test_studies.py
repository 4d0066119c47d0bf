"""The studies shown in the documentation are valid; those on bundled models can be planned."""

from __future__ import annotations

from pathlib import Path

import pytest

from floatlens.cli import main
from floatlens.runs.study import StudyModel
from floatlens.runs.study_file import read_study
from shared.pages import PAGES, Block, blocks

STUDIES = [
    pytest.param(block, id=block.place)
    for page in PAGES
    for block in blocks(page)
    if block.language == "yaml" and "models:" in block.text and not block.skipped and block.file is None
]


def test_both_pages_show_one() -> None:
    assert {str(one.id).partition(":")[0] for one in STUDIES} >= {"studies.md", "cluster.md"}


@pytest.mark.parametrize("block", STUDIES)
def test_study_of_the_docs_is_valid(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("study.yaml")
    path.write_text(block.text, encoding="utf-8")
    study = read_study(path).study
    if all(isinstance(model, StudyModel) and model.ref.startswith("scale:") for model in study.models):
        assert main(["run", str(path), "--dry-run"]) == 0
