"""Runs to report on, made by hand (two models, four questions traced, twelve answered), and a browser to look with.

Browser tests need playwright and Debian's chromium (or another by FLOATLENS_CHROMIUM); without them they are skipped
with the reason.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from floatlens.report import Made
from floatlens.runs.reporting import report_runs
from shared.answering import make_answers
from shared.reported import MODELS, SAMPLES, make_trace
from shared.watched import Watched


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A run folder per model: a diffusion model whose anchor moves, an autoregressive one whose anchor stays."""
    root = tmp_path_factory.mktemp("runs")
    for name in MODELS:
        for sample in range(SAMPLES):
            make_trace(name, sample).save(root / name / "traces" / f"{sample}")
    return [root / name for name in MODELS]


@pytest.fixture(scope="session")
def asked(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A run of answers of each kind."""
    root = tmp_path_factory.mktemp("asked")
    return [make_answers(root / kind, kind) for kind in ("qa", "stress", "intervene")]


@pytest.fixture(scope="session")
def made(runs: list[Path], asked: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The report of all of them."""
    return report_runs([*runs, *asked], tmp_path_factory.mktemp("page") / "report.html", examples=3)


# -- the browser ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="no browser tests: playwright is not installed")
    path = os.environ.get("FLOATLENS_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("no browser tests: chromium is not installed (apt-get install chromium)")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        )
        yield started
        started.close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Watched]]:
    """`visit(path, fragment="…", width=375)`: the page, loaded; closed when the test ends.

    Figures that are not near the window are drawn only with `idle`: they take most of the time, and few tests look.
    """
    contexts = []

    def open_page(
        path: Path,
        *,
        fragment: str = "",
        width: int = 1400,
        height: int = 900,
        before: str = "",
        idle: bool = False,
        **more: Any,
    ) -> Watched:
        context = browser.new_context(viewport={"width": width, "height": height}, **more)
        contexts.append(context)
        context.add_init_script(before if idle else f"window.requestIdleCallback = () => 0; {before}")
        return Watched(context.new_page()).open(path, fragment)

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def both(browser: Any, made: Made) -> Iterator[Watched]:
    """The report with both models open, shared by all tests that say what it is to show before they look."""
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    watched = Watched(context.new_page()).open(made.path)
    yield watched
    context.close()
    assert watched.complaints == []  # whatever was done to it
