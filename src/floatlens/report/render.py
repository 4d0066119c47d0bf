"""The page as text: one template, one style sheet, one script, data as inert JSON, and a policy that allows no more.

The policy names the hash of every script and style; nothing can be loaded, no other script can run, and nothing can be
sent. Words from data are never put into markup: they are in the JSON, and the script shows them as text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from floatlens.claims.verdict import FEWEST
from floatlens.report.bundle import hashed, script, styles
from floatlens.report.codec import as_json, deflated

__all__ = ["explorer_page", "report_page"]

_SHEETS = ("base", "explorer")
_MAP_STYLES = re.compile(r'if\(!document\.getElementById\("[0-9a-f]{64}"\)\)')
"""Where plotly adds the styles of its maps, which no figure here is and the policy would refuse."""


@cache
def _template(name: str) -> Template:
    pages = PackageLoader("floatlens.report", "page")
    known = Environment(loader=pages, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return known.get_template(name)


@cache
def _plotly() -> tuple[str, str]:
    """plotly's script, deflated, and its hash; the page inflates it when the first figure is to be drawn."""
    from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]

    source = get_plotlyjs().replace("\r\n", "\n").replace("\r", "\n")  # a script's text is hashed as the page holds it
    source = _MAP_STYLES.sub("if(false)", source)
    return deflated(source.encode()), hashed(source)


def report_page(data: Mapping[str, Any], explorer: Mapping[str, Any] | None, blobs: Mapping[str, str]) -> str:
    """The whole report, without an explorer where None is given. `blobs` are packed texts, named as the data does."""
    plotly, digest = _plotly()
    shown = ("id", "title", "short", "reading", "tables")  # no words from data
    sections = [{key: one[key] for key in shown} | {"notes": one.get("notes", [])} for one in data["sections"]]
    return _render(
        "report.html.j2",
        "report",
        (*_SHEETS, "report"),
        [digest],
        [hashed("")],  # plotly makes an empty sheet and adds rules to it, which is not inline style
        {"report": data, "explorer": explorer} if explorer is not None else {"report": data},
        {**blobs, "plotly": plotly},
        sections=sections,
        explorer=explorer is not None,
        fewest=FEWEST,
    )


def explorer_page(explorer: Mapping[str, Any], blobs: Mapping[str, str]) -> str:
    """The explorer alone, as notebooks show it."""
    return _render("explorer.html.j2", "alone", _SHEETS, [], [], {"explorer": explorer}, blobs)


def _render(
    template: str,
    entry: str,
    sheets: tuple[str, ...],
    scripts: list[str],
    sheet_hashes: list[str],
    data: Mapping[str, Any],
    blobs: Mapping[str, str],
    **context: Any,
) -> str:
    code, sheet = script(entry), styles(*sheets)
    policy = {
        "default-src": ["'none'"],
        "script-src": [hashed(code), *scripts],
        "style-src": [hashed(sheet), *sheet_hashes],
        "img-src": ["data:", "blob:"],
        "connect-src": ["'none'"],
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
    }
    return _template(template).render(
        policy="; ".join(f"{name} {' '.join(sources)}" for name, sources in policy.items()),
        script=Markup(code),
        styles=Markup(sheet),
        data={name: Markup(as_json(value)) for name, value in data.items()},
        blobs=blobs,
        **context,
    )
