"""What other packages add is imported when a study is planned: a broken one is one line, before any item is done."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from floatlens.analysis import ANALYSES
from floatlens.claims import CLAIMS
from floatlens.core.errors import FloatlensError
from floatlens.core.registry import Registry
from floatlens.edits import EDITS
from floatlens.plots.registry import FIGURES
from floatlens.report.answer_sections import SECTIONS
from floatlens.runs.plan import make_plan
from floatlens.runs.study_file import read_study

KINDS: dict[str, Registry[Any]] = {"analysis": ANALYSES, "claim": CLAIMS, "figure": FIGURES, "section": SECTIONS}
STUDY = {
    "models": ["scale:llada"],
    "data": [{"ref": "scale:rag:documents=2", "limit": 1}],
    "traces": {"questions": 0},
}
BROKEN = "import no_such_module_at_all\n"


def _forget() -> None:
    for registry in (*KINDS.values(), EDITS):
        vars(registry).pop("_foreign", None)
        registry._loaded.pop("mine", None)
    sys.modules.pop("tested_addition", None)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Install a package with an entry "mine" of a kind."""
    monkeypatch.syspath_prepend(tmp_path)

    def install(group: str, source: str) -> None:
        info = tmp_path / "tested_addition-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tested-addition\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{group}]\nmine = tested_addition:mine\n")
        (tmp_path / "tested_addition.py").write_text(source)
        _forget()

    yield install
    _forget()


def plan(**change: Any) -> object:
    return make_plan(read_study({**STUDY, **change}))


@pytest.mark.parametrize("kind", KINDS)
def test_a_broken_plug_in_is_found_when_a_study_is_planned(kind: str, package: Callable[..., None]) -> None:
    package(KINDS[kind].group, BROKEN)
    line = rf'^the {kind} "mine" of the package tested-addition \(tested_addition:mine\) cannot be imported: ModuleNot'
    with pytest.raises(FloatlensError, match=line):
        plan()


def test_an_entry_that_is_not_a_claim_is_found_too(package: Callable[..., None]) -> None:
    package("floatlens.claims", "def mine(drift): ...\n")
    with pytest.raises(FloatlensError, match=r'^the claim "mine" .* has the type function; it must be a ClaimRule'):
        plan()


def test_what_a_study_does_not_use_is_not_imported(package: Callable[..., None]) -> None:
    package("floatlens.analyses", BROKEN)
    assert plan(analyses=["drift"])
    with pytest.raises(FloatlensError, match='the analysis "mine"'):
        plan(analyses=["drift", "mine"])


def test_sections_are_for_reports(package: Callable[..., None]) -> None:
    package("floatlens.sections", BROKEN)
    assert plan(output={"report": False})


def test_the_help_of_intervene_names_edits_of_other_packages(
    package: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    """By their names alone: this one cannot be imported."""
    from floatlens.cli import main

    assert main(["intervene", "--help"]) == 0
    before = capsys.readouterr().out
    assert all(name in before for name in EDITS)
    assert "More edits" not in before or "mine" not in before.split()
    package("floatlens.edits", BROKEN)
    for _ in range(2):  # asked twice, it is named once
        assert main(["intervene", "--help"]) == 0
        words = capsys.readouterr().out.split()
        assert words.count("mine.") == 1
