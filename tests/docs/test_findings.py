"""docs/findings.md: its tables are what docs/findings_tables.py writes from the published files."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def tables() -> Any:
    spec = importlib.util.spec_from_file_location("floatlens_docs_findings_tables", DOCS / "findings_tables.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made
    spec.loader.exec_module(made)
    return made


def test_every_table_is_on_the_page_as_the_files_have_it(tables: Any) -> None:
    page = (DOCS / "findings.md").read_text(encoding="utf-8")
    assert tables.update(page) == page
    for name in tables.ready():
        assert page.count(f"<!-- table: {name} -->") == 1


def test_a_number_that_was_changed_by_hand_is_written_again(tables: Any) -> None:
    page = (DOCS / "findings.md").read_text(encoding="utf-8")
    assert "| scale:llama | 53.7 |" in page
    assert tables.update(page.replace("| scale:llama | 53.7 |", "| scale:llama | 99.9 |")) == page


def test_numbers_without_a_row_are_a_dash(tables: Any) -> None:
    rows = {row[0]: row for row in tables.robustness()}
    assert rows["masks, 1 to 32"][1:3] == ["–", "–"]  # autoregressive models have no masks
