"""The fenced blocks of README.md and docs/*.md, and how tests run them as printed.

A comment on the line before a fence says how a block is treated:

    <!-- not run: needs a GPU -->      left out; the reason is required
    <!-- slow -->                      run by the slow tests only
    <!-- file: my_package/peak.py -->  written to this file
"""

from __future__ import annotations

import ast
import contextlib
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^(?:<!-- (?P<mark>.*?) -->\n)?```(?P<language>\S*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
MARK = re.compile(r"not run: (?P<reason>.+)|(?P<slow>slow)|file: (?P<file>\S+)")


@dataclass(frozen=True)
class Block:
    """A fenced block: where it is, its language, its text and the comment before it."""

    page: Path
    line: int
    language: str
    text: str
    mark: str = ""

    @property
    def place(self) -> str:
        return f"{self.page.name}:{self.line}"

    @property
    def skipped(self) -> bool:
        return self.mark.startswith("not run")

    @property
    def slow(self) -> bool:
        return self.mark == "slow"

    @property
    def file(self) -> str | None:
        return self.mark.partition("file: ")[2] or None

    @property
    def runs(self) -> bool:
        return self.language in ("bash", "python") and not self.skipped and self.file is None


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(page, text[: found.start("text")].count("\n"), found["language"], found["text"], found["mark"] or "")
        for found in FENCE.finditer(text)
    ]


def commands(text: str) -> list[list[str]]:
    """The commands of a bash block as lists of words; comments are left out, continued lines joined."""
    lines = text.replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def run_command(words: list[str]) -> None:
    """One floatlens command in this process, with `> FILE` as in a shell."""
    from floatlens.cli import main

    assert words[0] == "floatlens", f"not a floatlens command: {shlex.join(words)}"
    with contextlib.ExitStack() as stack:
        if ">" in words:
            words, target = words[: words.index(">")], words[-1]
            stack.enter_context(contextlib.redirect_stdout(stack.enter_context(open(target, "w", encoding="utf-8"))))
        code = main(words[1:])
    assert not code, f"{shlex.join(words)} ended with {code}"


def run_python(block: Block, names: dict[str, Any]) -> None:
    """A Python block, with the names of earlier blocks of its page; expressions are shown as a notebook would."""
    tree = ast.parse(block.text, filename=block.place)
    for statement in tree.body:
        if isinstance(statement, ast.Expr):
            value = eval(compile(ast.Expression(statement.value), block.place, "eval"), names)
            repr(value)
            if hasattr(value, "_repr_png_"):
                assert value._repr_png_()
        else:
            exec(compile(ast.Module([statement], []), block.place, "exec"), names)


def run_block(block: Block, names: dict[str, Any]) -> None:
    if block.language == "python":
        run_python(block, names)
    else:
        for words in commands(block.text):
            run_command(words)
