"""Two models that do not have the same tokens or layers, side by side; and the explorer without a mouse."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import floatlens as fl
from floatlens.traces import Trace
from shared.reported import make_trace
from shared.synthetic import TEXTS
from shared.watched import Watched

pytestmark = pytest.mark.browser
Visit = Callable[..., Any]
OWN, MARKED = 5, 8
"""Positions where the second model has another token, and the same token as its tokeniser marks it."""


@pytest.fixture(scope="module")
def unlike(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The explorer of a model with layers 0 and 2, and of one with all three and with other tokens."""
    first, second = make_trace("mdm", 0).data, make_trace("arm", 0).data.copy()
    texts = list(second.attrs["token_text"])
    texts[OWN], texts[MARKED] = "crimson", f"\u2581{texts[MARKED]}"
    second.attrs = {**second.attrs, "token_text": texts}
    shown = fl.explore([Trace(first.isel(layer=[0, 2])), Trace(second)])
    return shown.save(tmp_path_factory.mktemp("unlike") / "x.html")


@pytest.fixture
def opened(visit: Visit, unlike: Path) -> Watched:
    found = visit(unlike, fragment="#explore:e=0&a=0&b=1&l=mean&g=all&s=2")
    assert isinstance(found, Watched)
    return found


def selected(watched: Watched) -> list[list[str]]:
    """Positions that are selected, by pane."""
    chosen = "all => all.map(one => one.dataset.key)"
    panes = watched.page.locator(".pane").all()
    return [pane.locator('.token[aria-selected="true"]').evaluate_all(chosen) for pane in panes]


@pytest.mark.parametrize("way", ["click", "Escape"])
def test_a_token_of_the_second_model_alone_is_let_go(opened: Watched, way: str) -> None:
    opened.token(3, pane=0).click()
    opened.token(OWN, pane=1).click()
    assert selected(opened) == [[], [str(OWN)]]
    if way == "click":
        opened.token(OWN, pane=1).click()
    else:
        opened.page.keyboard.press("Escape")
    assert selected(opened) == [[], []]


def test_a_token_is_found_however_its_tokeniser_marks_words(opened: Watched) -> None:
    opened.token(MARKED, pane=0).click()
    assert selected(opened) == [[str(MARKED)], [str(MARKED)]]


def test_layers_of_both_models_can_be_reached_by_keys(opened: Watched) -> None:
    chosen = opened.page.locator("#x-layer")
    assert chosen.locator("option").all_inner_texts() == ["mean of layers", "layer 0", "layer 1", "layer 2"]
    opened.page.locator("#x-next").focus()
    seen = []
    for _ in range(4):
        opened.page.keyboard.press("ArrowUp")
        seen.append(chosen.input_value())
    assert seen == ["0", "1", "2", "2"]


def test_an_address_beyond_the_last_step_and_layer_is_brought_back(opened: Watched) -> None:
    opened.page.evaluate("location.hash = '#explore:e=0&a=0&b=1&l=77&g=all&s=999'")
    opened.page.wait_for_function("() => document.getElementById('explore').dataset.shown === '0/7'")
    assert opened.page.locator("#x-layer").input_value() == "2"
    assert opened.page.locator("#x-step").input_value() == "7"
    assert re.search(r"l=2&.*s=7$", opened.page.evaluate("location.hash"))


def test_queries_that_ask_nothing_have_no_strongest_token(opened: Watched) -> None:
    opened.page.locator("#x-group").select_option("masked")
    readouts = opened.page.locator(".readout .numbers")
    assert readouts.nth(1).inner_text() == "no attention at this step"
    assert readouts.nth(0).locator("dl").count() == 1
    assert "no attention at this step" in str(
        opened.page.locator(".pane").nth(1).locator("canvas").first.get_attribute("aria-label")
    )


# -- without a mouse --------------------------------------------------------------------------------------------------


def test_the_numbers_of_a_focused_token_describe_it(opened: Watched) -> None:
    opened.token(MARKED).focus()
    name = opened.token(MARKED).get_attribute("aria-describedby")
    said = str(opened.page.locator(f"#{name}").text_content())
    share = float(re.findall(r"received ([\d.]+) %", said)[0]) / 100
    received = make_trace("mdm", 0).data["received"].values.astype(float)[2][[0, 2]]
    assert share == pytest.approx(received.mean(axis=(0, 1))[MARKED], rel=0.005)
    assert f"position {MARKED}, in document 2 (gold)" in said


def test_one_token_of_a_box_can_be_reached_by_tab(opened: Watched) -> None:
    opened.token(OWN).click()
    opened.page.keyboard.press("ArrowRight")
    stops = opened.page.locator(".pane").first.locator('.prompt .token[tabindex="0"]')
    assert stops.evaluate_all("all => all.map(one => one.dataset.key)") == [str(OWN + 1)]


def test_letters_and_space_act_inside_the_explorer_alone(opened: Watched) -> None:
    opened.page.evaluate("document.activeElement.blur()")
    opened.page.keyboard.press(".")
    assert opened.shown() == "0/2"
    opened.page.keyboard.press("ArrowRight")
    assert opened.shown() == "0/3"
    opened.page.keyboard.press("Space")
    assert opened.page.locator("#x-play").get_attribute("aria-label") == "Play"
    opened.token(len(TEXTS) - 1).focus()
    opened.page.keyboard.press(".")
    assert opened.shown() == "0/4"


def test_no_level_of_headings_is_left_out(both: Watched) -> None:
    levels = both.page.locator("h1, h2, h3, h4, h5").evaluate_all("all => all.map(one => Number(one.tagName[1]))")
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_a_diffusion_model_is_shown_first(visit: Visit, tmp_path: Path) -> None:
    path = fl.explore([make_trace("arm", 0), make_trace("mdm", 0)]).save(tmp_path / "x.html")
    page = visit(path).page
    assert page.locator("#x-a").input_value() == "1"
    assert page.locator("#x-b").input_value() == "0"
