"""A page in a browser, with everything that must not happen on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class Watched:
    """Keeps messages on the console, errors and requests; reads what the explorer shows."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("request", lambda request: self.requests.append(request.url))

    def open(self, path: Path, fragment: str = "") -> Watched:
        """Load the page and wait until the explorer answers."""
        self.page.goto(path.resolve().as_uri() + fragment)
        self.page.wait_for_selector("html[data-ready]", state="attached", timeout=30_000)
        return self

    def go(self, view: str) -> None:
        """Bring the explorer to a whole view, as a link would, with no mouse on it, and wait until it is shown."""
        self.page.mouse.move(5, 5)
        # After many changes the address comes late, and setting it to what it still is would be no news to the page.
        script = "view => { history.replaceState(null, '', '#'); location.hash = '#explore:' + view; }"
        self.page.evaluate(script, view)
        self.page.wait_for_function("view => document.getElementById('explore').dataset.view === view", arg=view)

    def draw_all(self) -> None:
        """Wait until every figure is drawn."""
        self.page.wait_for_function(
            "() => [...document.querySelectorAll('.chart')].every(one => one.dataset.drawn)", timeout=120_000
        )

    def shown(self) -> str:
        """Which example and step the explorer shows."""
        return str(self.page.locator("#explore").get_attribute("data-shown"))

    def fact(self, name: str, pane: int = 0) -> str:
        """A number of the token that a pane's readout is about."""
        return str(self.page.locator(".pane").nth(pane).locator(f'[data-fact="{name}"]').inner_text())

    def token(self, key: int, pane: int = 0) -> Any:
        return self.page.locator(".pane").nth(pane).locator(f'.token[data-key="{key}"]')

    def point_at(self, figure: str, x: int, panel: int = 0) -> None:
        """Bring the mouse to the point of a figure's first curve (bar, cell) that stands at x."""
        chart = self.page.locator(f"#figure-{figure} .chart").nth(panel)
        chart.evaluate("one => one.scrollIntoView({block: 'center'})")
        place = """(one, x) => {
            const {xaxis, yaxis} = one._fullLayout;
            const trace = one.data.find(t => t.type === 'heatmap' || t.type === 'bar' || t.mode !== 'lines');
            const y = trace.type === 'heatmap' ? trace.y[x] : trace.type === 'bar' ? trace.y[x] / 2 : trace.y[x];
            const box = one.getBoundingClientRect();
            return [box.x + xaxis._offset + xaxis.d2p(trace.x[x]), box.y + yaxis._offset + yaxis.d2p(y)];
        }"""
        self.page.mouse.move(*chart.evaluate(place, x))

    def hover_says(self, figure: str, x: int, words: str) -> bool:
        """Whether the label over a point of a figure's first chart has these words; a label may go before it is read,
        so the mouse comes again a few times."""
        read = (
            f"() => [...document.querySelectorAll('#figure-{figure} .hoverlayer .hovertext')].map(t => t.textContent)"
        )
        for _ in range(20):
            self.page.mouse.move(5, 5)
            self.point_at(figure, x=x)
            for _ in range(10):
                if any(words in str(text) for text in self.page.evaluate(read)):
                    return True
                self.page.wait_for_timeout(50)
        return False
