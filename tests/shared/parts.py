"""A page taken apart without a browser: what it holds, what it may run, every attribute."""

from __future__ import annotations

import base64
import json
import zlib
from html.parser import HTMLParser
from typing import Any


class Parts(HTMLParser):
    """Scripts, styles, meta tags and every attribute of a page."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.styles: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.meta: dict[str, str] = {}
        self._open: tuple[str, dict[str, str | None]] | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value) for name, value in attrs]
        given = dict(attrs)
        if tag == "meta" and given.get("http-equiv"):
            self.meta[str(given["http-equiv"])] = str(given["content"])
        if tag in ("script", "style"):
            self._open = (tag, given)
            (self.styles.append("") if tag == "style" else self.scripts.append((given, "")))

    def handle_data(self, data: str) -> None:
        if self._open and self._open[0] == "style":
            self.styles[-1] += data
        elif self._open:
            self.scripts[-1] = (self._open[1], self.scripts[-1][1] + data)

    def handle_endtag(self, tag: str) -> None:
        self._open = None

    def held(self, name: str) -> str:
        return next(content for given, content in self.scripts if given.get("id") == name)

    def json(self, name: str) -> Any:
        return json.loads(self.held(f"data-{name}"))

    def table(self, name: str) -> Any:
        return json.loads(zlib.decompress(base64.b64decode(self.held(f"blob-table-{name}")), -15))
