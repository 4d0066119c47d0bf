"""Rules that no other tool checks: sizes of files and functions, no machine paths, tests that mirror the package."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE, LAB, TESTS = ROOT / "src" / "floatlens", ROOT / "lab" / "floatlens_lab", ROOT / "tests"
SOURCES = sorted([*PACKAGE.rglob("*.py"), *LAB.rglob("*.py")])
LONGEST_FILE, LONGEST_FUNCTION = 400, 60
MACHINE_PATH = re.compile(r"""["'(=\s](/home/|/root/|/Users/|/work/|/mnt/|/data/|[A-Z]:\\)""")


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_files_are_short() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in SOURCES}
    assert {name: lines for name, lines in lengths.items() if lines >= LONGEST_FILE} == {}


def test_functions_are_short() -> None:
    """Docstring and body; the options of a command are its signature, and take as many lines as there are options."""
    found = {}
    for path in SOURCES:
        for node in functions(ast.parse(path.read_text())):
            lines = (node.end_lineno or node.lineno) - node.body[0].lineno + 1
            if lines > LONGEST_FUNCTION:
                found[f"{path.relative_to(ROOT)}:{node.name}"] = lines
    assert found == {}


def test_no_paths_of_a_machine() -> None:
    texts = [
        *SOURCES,
        *(ROOT / "docs").glob("*.py"),
        ROOT / "Makefile",
        ROOT / "README.md",
        *(ROOT / "docs").glob("*.md"),
    ]
    found = [str(path.relative_to(ROOT)) for path in texts if MACHINE_PATH.search(path.read_text(encoding="utf-8"))]
    assert found == []


@pytest.mark.parametrize("home", [PACKAGE, LAB], ids=["package", "lab"])
def test_tests_mirror_the_package(home: Path) -> None:
    rooms = {path.name for path in home.iterdir() if (path / "__init__.py").is_file()}
    mirror = TESTS if home == PACKAGE else TESTS / "lab"
    assert {room for room in rooms if not list((mirror / room).rglob("test_*.py"))} == set()


def test_modules_say_what_they_are_for() -> None:
    missing = [str(path.relative_to(ROOT)) for path in SOURCES if not ast.get_docstring(ast.parse(path.read_text()))]
    assert missing == []
