"""The figures in a real browser: what their buttons offer, what a hover says, and the numbers that are drawn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from watched import Watched

from floatlens.report import Made

pytestmark = pytest.mark.browser
Visit = Callable[..., Any]


def test_no_button_of_a_figure_sends_anything(both: Watched) -> None:
    both.draw_all()
    buttons = both.page.locator(".modebar-btn")
    found = set(buttons.evaluate_all("all => all.map(one => one.dataset.title)"))
    assert found == {"Download plot", "Zoom", "Pan", "Reset axes"}
    servers = "() => [...document.querySelectorAll('.chart')].map(one => one._context.plotlyServerURL)"
    assert set(both.page.evaluate(servers)) == {""}


@pytest.mark.parametrize(
    ("figure", "said"), [("drift", "layer 1: "), ("token_classes", "layer 1: "), ("retrieval", "layer 1, head 1: ")]
)
def test_a_hover_says_the_numbers_and_nothing_is_refused(both: Watched, figure: str, said: str) -> None:
    both.draw_all()
    before = list(both.complaints)
    both.point_at(figure, x=1)
    label = both.page.locator(f"#figure-{figure} .hoverlayer .hovertext").first
    label.wait_for()
    assert said in str(label.text_content())
    assert both.complaints == before == []
    both.page.mouse.move(5, 5)


def test_the_camera_saves_a_drawing(both: Watched, tmp_path: Path) -> None:
    both.draw_all()
    both.point_at("drift", x=1)
    with both.page.expect_download() as coming:
        both.page.locator("#figure-drift .chart").first.locator('[data-title="Download plot"]').click()
    coming.value.save_as(tmp_path / "plot.svg")
    drawing = (tmp_path / "plot.svg").read_text(encoding="utf-8")
    assert drawing.startswith("<svg")
    assert "positions per step" in drawing or "Jaccard" in drawing
    assert both.complaints == []
