"""What it takes to add something: one file and one line of each kind, in our rooms and in another package.

That a package with one of each works from the command line to the report is tested in tests/docs/test_extending.py.
"""

from __future__ import annotations

import ast
import tomllib
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from floatlens.core.registry import Registry
from shared.pages import ROOT, blocks

REGISTRIES = {
    "floatlens.analyses": "floatlens.analysis.registry:ANALYSES",
    "floatlens.claims": "floatlens.claims.registry:CLAIMS",
    "floatlens.edits": "floatlens.edits:EDITS",
    "floatlens.families": "floatlens.models.registry:FAMILIES",
    "floatlens.figures": "floatlens.plots.registry:FIGURES",
    "floatlens.formats": "floatlens.data.formats:FORMATS",
    "floatlens.probes": "floatlens.probes:PROBES",
    "floatlens.question_sources": "floatlens.data.sources:QUESTION_SOURCES",
    "floatlens.samplers": "floatlens.decoding.registry:SAMPLERS",
    "floatlens.sections": "floatlens.report.answer_sections:SECTIONS",
    "floatlens.stress_tests": "floatlens.data.stress:STRESS_TESTS",
    "floatlens.subjects": "floatlens.models.names:SUBJECTS",
}
FILES = {
    ("floatlens.analyses", "floatlens.figures", "floatlens.claims"): 3,
    ("floatlens.edits",): 1,
    ("floatlens.families",): 1,
    ("floatlens.formats",): 1,
    ("floatlens.probes",): 1,
    ("floatlens.samplers",): 1,
    ("floatlens.stress_tests",): 1,
}
"""Kinds that are added together, and the number of files that they may need."""


def registry(group: str) -> Registry[object]:
    module, _, name = REGISTRIES[group].partition(":")
    found = getattr(import_module(module), name)
    assert isinstance(found, Registry)
    return found


@pytest.mark.parametrize("group", REGISTRIES)
def test_entries_are_one_line_each_and_import(group: str) -> None:
    """A line is "name": "module:attribute"; the module exists, and the entry can be imported."""
    entries = registry(group)
    assert entries.group == group
    for name in entries:
        assert entries[name] is not None
    for name in entries.builtin:
        found = find_spec(entries._builtin[name].partition(":")[0])
        assert found is not None
        assert Path(found.origin or "").is_relative_to(ROOT / "src")


def test_there_is_no_other_registry() -> None:
    """Registries are instances of the one class, and all of them are listed here."""
    made = []
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Registry":
                made.append(ast.literal_eval(node.args[1]))
    assert sorted(made) == sorted(REGISTRIES)


@pytest.mark.parametrize(("groups", "most"), FILES.items(), ids=str)
def test_a_plug_in_of_another_package_needs_few_files(groups: tuple[str, ...], most: int) -> None:
    """As docs/extending.md has it, which is executed as printed."""
    files = {block.file: block.text for block in blocks(ROOT / "docs" / "extending.md") if block.file}
    declared = tomllib.loads(files["my-lens/pyproject.toml"])["project"]["entry-points"]
    modules = []
    for group in groups:
        (value,) = declared[group].values()
        modules.append(value.partition(":")[0])
    needed = set(modules)
    for module in modules:
        source = files[f"my-lens/{module.replace('.', '/')}.py"]
        imported = [node.module or "" for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
        needed |= {name for name in imported if name.startswith("mylens")}
    assert len(needed) <= most
