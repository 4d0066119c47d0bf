"""Every command and snippet of README.md and docs/*.md runs as printed, page by page, in a temporary folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shared.pages import MARK, PAGES, Block, blocks, commands, run_block

RUN = [page for page in PAGES if page.name != "extending.md" and any(block.runs for block in blocks(page))]
ALL = [pytest.param(block, id=block.place) for page in PAGES for block in blocks(page)]


def _run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, slow: bool) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    names: dict[str, Any] = {"__name__": "__page__"}
    for block in blocks(page):
        if block.file is not None:
            Path(block.file).write_text(block.text, encoding="utf-8")
        elif block.runs and (slow or not block.slow):
            run_block(block, names)


LONG = {"README.md", "edits.md", "analyses.md"}
"""Pages that take more than a few seconds: CI runs them after the unit tests."""


def _marks(page: Path) -> list[pytest.MarkDecorator]:
    return [pytest.mark.slow, pytest.mark.ci] if page.name in LONG else []


@pytest.mark.parametrize("page", [pytest.param(page, id=page.name, marks=_marks(page)) for page in RUN])
def test_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _run(page, tmp_path, monkeypatch, slow=False)


SLOW = [pytest.param(page, id=page.name) for page in RUN if any(block.slow for block in blocks(page))]


@pytest.mark.slow
@pytest.mark.parametrize("page", SLOW)
def test_page_runs_with_its_slow_blocks(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _run(page, tmp_path, monkeypatch, slow=True)


@pytest.mark.parametrize("block", ALL)
def test_block_is_marked(block: Block) -> None:
    """A language, a known mark, and floatlens commands only in blocks that are run or say why not."""
    assert block.language in ("bash", "python", "yaml", "json", "text", "toml"), f"{block.place}: {block.language!r}"
    assert not block.mark or MARK.fullmatch(block.mark), f"{block.place}: unknown mark {block.mark!r}"
    if block.language == "bash" and block.runs and block.page.name != "extending.md":
        assert all(words[0] == "floatlens" for words in commands(block.text)), block.place


def test_no_page_is_left_out() -> None:
    assert {"README.md", "analyses.md", "edits.md", "forced.md", "qa.md", "serving.md", "stress.md", "studies.md"} <= {
        page.name for page in RUN
    }
