"""Text from data, models and file names, made safe for terminals, spreadsheets, LaTeX, Markdown and paths.

Text is never interpreted: not as a control sequence, a formula, markup or a path. Each place has one function here.
"""

from __future__ import annotations

import hashlib
import re

__all__ = ["clean", "file_name", "in_csv", "in_latex", "in_markdown", "printable"]

# Control characters but tab and line feed, marks that reorder the line they stand in, and line separators.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufff9-\ufffb]"
)
_SPACES = {"\x0b": " ", "\x0c": " ", "\r": " ", "\x85": " ", "\u2028": " ", "\u2029": " "}
_SURROGATE = re.compile("[\ud800-\udfff]")
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?: \[-?\d+(?:\.\d+)?, -?\d+(?:\.\d+)?\])?|[+-]?(?:nan|inf)")
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\u2212", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""First characters that spreadsheets take for the beginning of a formula, full-width ones included."""
_LATEX = {c: f"\\{c}" for c in "&%$#_{}"} | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\^{}"}
_LATEX |= {"<": r"\textless{}", ">": r"\textgreater{}"}
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|#~&$])")


def printable(text: str) -> str:
    """The text without anything that could act on a terminal or break a document; lines and tabs stay."""
    return _SURROGATE.sub("\ufffd", _UNSAFE.sub(lambda found: _SPACES.get(found[0], ""), text))


def clean(text: str) -> str:
    """The text as `printable` gives it, in one line."""
    return " ".join(printable(text).split())


def in_csv(text: str) -> str:
    """A cell that a spreadsheet takes for text: an apostrophe goes before what would be a formula, numbers aside."""
    shown = printable(text)
    risky = shown.startswith(_FORMULA) or text[:1] in ("\t", "\r", "\n")
    return f"'{shown}" if risky and not _NUMBER.fullmatch(shown) else shown


def in_latex(text: str) -> str:
    """The text in one line with every special character escaped; a row may begin with it."""
    shown = clean(text)
    escaped = "".join(_LATEX.get(c, c) for c in shown)
    return f"{{}}{escaped}" if shown[:1] in ("[", "*") else escaped  # after \\ these would be arguments


def in_markdown(text: str) -> str:
    """The text in one line with every special character escaped, numbers aside."""
    shown = clean(text)
    return shown if _NUMBER.fullmatch(shown) else _MARKDOWN.sub(r"\\\1", shown)


def file_name(text: str, longest: int = 60) -> str:
    """Part of a file name: letters, digits, `_`, `.`, `=` and `-`; longer than that many bytes, cut with a digest.

    Example: `file_name("my data (v2)")  # my-data-v2`
    """
    name = "-".join(part for part in re.split(r"[^\w.=]+", text) if part).lstrip(".") or "x"
    if len(name.encode()) <= longest:
        return name
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    return name.encode()[: longest - 11].decode(errors="ignore") + f"-{digest}"
