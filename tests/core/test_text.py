"""Hostile text through terminal, CSV, LaTeX, Markdown and file names: nothing of it is interpreted."""

from __future__ import annotations

import csv
import io
import unicodedata

import pytest

from floatlens.cli.terminal import console
from floatlens.core.text import clean, file_name, in_csv, in_latex, in_markdown, printable

HOSTILE = [
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "\u202egnp.exe",
    "\u061carabic",
    "\u2066isolate\u2069",
    "a\rb",
    "a\x00b",
    "\x9b31m",
    "\ud800",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_acts_on_a_terminal(text: str) -> None:
    for shown in (printable(text), clean(text), in_csv(text), in_latex(text), in_markdown(text)):
        assert not any(unicodedata.category(c) in ("Cc", "Cs") and c not in "\t\n" for c in shown)
        assert not any(unicodedata.bidirectional(c) in ("RLO", "LRO", "RLE", "LRE", "RLI", "LRI", "AL") for c in shown)
        assert "\u061c" not in shown


def test_lines_and_other_scripts_stay() -> None:
    assert printable("a\tb\nשלום 😀") == "a\tb\nשלום 😀"
    assert clean(" a\n\tb \x0b c") == "a b c"


def test_a_console_passes_no_control_character_on(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever made the text, also one that was not cleaned before."""
    from rich.table import Table
    from rich.text import Text

    table = Table()
    table.add_column("\x1b[2Jhead")
    table.add_row(Text("".join(HOSTILE[:-1])))
    console().print(table)
    console().print("plain \x1b[31m \u202e \u061c", "[bold]no markup[/]")
    said = capsys.readouterr().out
    assert not set("\x1b\x07\u202e\u061c\u2066\x9b\r\x00") & set(said)
    assert "[bold]no markup[/]" in said


@pytest.mark.parametrize(
    "text", ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\u2212x", "\uff1d1", "-cmd"]
)
def test_formulas_become_text(text: str) -> None:
    assert in_csv(text).startswith("'")


@pytest.mark.parametrize("text", ["-1", "+2.5", "-1e-05", "3.0 [-1.0, 2.5]", "-nan", "-inf", "abc", "", "a=b", "0.5"])
def test_numbers_and_plain_words_stay(text: str) -> None:
    assert in_csv(text) == text


def test_cells_come_back_from_csv() -> None:
    held = io.StringIO()
    csv.writer(held).writerow([in_csv('=a,"b"'), in_csv("c\nd")])
    assert next(csv.reader(io.StringIO(held.getvalue()))) == ['\'=a,"b"', "c\nd"]


def test_latex() -> None:
    assert in_latex("[1em] x") == "{}[1em] x"
    assert in_latex("*") == "{}*"
    assert in_latex("a [1]") == "a [1]"
    special = "\\input{x}&%$#_{}~^<>"
    assert in_latex(special) == (
        r"\textbackslash{}input\{x\}\&\%\$\#\_\{\}\textasciitilde{}\^{}\textless{}\textgreater{}"
    )
    assert in_latex("a\n\n\\end{tabular}") == r"a \textbackslash{}end\{tabular\}"


def test_markdown() -> None:
    assert in_markdown("a|b") == r"a\|b"
    assert in_markdown("![x](y)<script>") == r"!\[x\](y)\<script\>"
    assert in_markdown("&lt;`$x$`") == r"\&lt;\`\$x\$\`"
    assert in_markdown("a\nb") == "a b"
    assert in_markdown("-1.5 [-2.0, -1.0]") == "-1.5 [-2.0, -1.0]"


def test_file_names() -> None:
    assert file_name("my data (v2)") == "my-data-v2"
    assert file_name("../../etc/passwd") == "etc-passwd" or "/" not in file_name("../../etc/passwd")
    assert file_name("\x1b\u202e") == "x"
    assert file_name("scale:llada") == "scale-llada"
    long = [file_name("a" * 246 + str(n)) for n in range(2)]
    assert long[0] != long[1]
    for name in (*long, file_name("ü" * 246), file_name("😀" * 300), file_name("." * 300)):
        assert 1 <= len(name.encode()) <= 60
        assert not name.startswith(".")
    assert file_name("x" * 60) == "x" * 60
