"""The page's own scripts and styles: small ES modules under page/js joined into one script, sheets into one sheet.

A module imports by `import { a, b } from "./other.js";` and exports declarations (`export function`, `export const`,
`export class`); that is all the joiner knows, and anything else is an error when the page is made.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files

__all__ = ["hashed", "script", "styles"]

_IMPORT = re.compile(r'^import \{ (?P<names>[\w, \n]+?),? \} from "\./(?P<module>\w+)\.js";$', re.M)
_EXPORT = re.compile(r"^export (?=(?:async )?function\*? (\w+)|const (\w+)|class (\w+))", re.M)
_LEFT = re.compile(r"^(?:import|export)\b.*$", re.M)


@cache
def script(entry: str) -> str:
    """The module and all it imports as one script; each is a function of its own, so names do not meet."""
    done: dict[str, str] = {}
    _add(entry, done, ())
    return "\n".join(['"use strict";', *done.values()])


def _add(name: str, done: dict[str, str], within: tuple[str, ...]) -> None:
    if name in within:
        raise ValueError(f"page/js/{name}.js imports itself by way of {', '.join(within)}")
    if name in done:
        return
    source = _read(f"js/{name}.js")
    for found in _IMPORT.finditer(source):
        _add(found["module"], done, (*within, name))
    exported = [next(filter(None, found.groups())) for found in _EXPORT.finditer(source)]
    body = _EXPORT.sub("", _IMPORT.sub(lambda m: f"const {{ {m['names']} }} = {_of(m['module'])};", source))
    left = _LEFT.search(body)
    if left:
        raise ValueError(f"page/js/{name}.js: the joiner does not know this form: {left[0]}")
    done[name] = f"const {_of(name)} = (() => {{\n{body}\nreturn {{ {', '.join(exported)} }};\n}})();"


def _of(module: str) -> str:
    return f"module_{module}"


@cache
def styles(*names: str) -> str:
    """Style sheets one after the other."""
    return "\n".join(_read(f"css/{name}.css") for name in names)


def hashed(content: str) -> str:
    """How a Content-Security-Policy names an inline script or style."""
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def _read(path: str) -> str:
    return (files("floatlens.report") / "page" / path).read_text(encoding="utf-8")
