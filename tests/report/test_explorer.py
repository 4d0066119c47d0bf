"""The explorer in a real browser: everything answers, and what it shows is what was measured."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from floatlens.report import Made
from shared.measures import as_share, share_of
from shared.reported import MODELS, make_trace
from shared.synthetic import PROMPT, TEXTS, anchor_at
from shared.watched import Watched

pytestmark = pytest.mark.browser
Visit = Callable[..., Any]


def test_slider_and_buttons_move_through_the_steps(both: Watched) -> None:
    both.go("e=0&a=0&b=1&l=mean&g=all&s=0")
    both.page.locator("#x-step").fill("5")
    assert both.shown() == "0/5"
    both.page.locator("#x-next").click()
    assert both.shown() == "0/6"
    both.page.locator("#x-back").click()
    both.page.locator("#x-back").click()
    assert both.shown() == "0/4"
    assert both.page.locator("#x-where").inner_text() == "step 4 of 7"


def test_anchors_masks_and_new_tokens_are_where_the_trace_has_them(both: Watched) -> None:
    for step in (0, 3, 7):
        both.go(f"e=1&a=0&b=1&l=mean&g=all&s={step}")
        for pane, (name, (pattern, causal)) in enumerate(MODELS.items()):
            found = both.page.locator(".pane").nth(pane)
            keys = lambda kind, found=found: found.locator(f".token.{kind}").evaluate_all(  # noqa: E731
                "all => all.map(one => Number(one.dataset.key))"
            )
            assert keys("anchor") == [anchor_at(pattern, step)], name
            assert keys("fresh") == [PROMPT + step]
            assert keys("absent" if causal else "mask") == list(range(PROMPT + step + 1, len(TEXTS)))
            assert keys("evidence") == [10, 11]
            assert found.locator(".region.gold .gold-mark").inner_text() == "★ gold"


def test_numbers_of_a_token_are_those_of_the_trace(both: Watched) -> None:
    for layer, place in ((None, "mean"), (2, "2")):
        both.go(f"e=1&a=0&b=1&l={place}&g=all&s=3&t=8")
        for pane, name in enumerate(MODELS):
            expected = share_of(name, 1, 3, 8, layer)
            assert as_share(both.fact("share", pane)) == pytest.approx(expected, rel=0.005)
            assert both.fact("token", pane) == TEXTS[8]
            assert both.fact("anchor", pane) == ("yes" if name == "mdm" else "no")
            assert both.fact("region", pane) == "document 2 (gold)"
    assert both.fact("rank", 0) == "1 of 30"
    assert float(both.fact("ratio", 0).removesuffix(" ×")) == pytest.approx(share_of("mdm", 1, 3, 8, 2) * 30, rel=0.06)


def test_shades_follow_attention(both: Watched) -> None:
    both.go("e=0&a=0&b=1&l=mean&g=all&s=2")
    colours = (
        both.page.locator(".pane")
        .first.locator(".prompt .token")
        .evaluate_all("all => all.map(one => getComputedStyle(one).backgroundColor)")
    )
    darkness = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in colours]
    assert min(darkness) == darkness[anchor_at("moving", 2)]
    assert sorted(darkness)[1] > 2 * min(darkness)


def test_hover_shows_a_token_and_lets_it_go(both: Watched) -> None:
    both.go("e=0&a=0&b=1&l=mean&g=all&s=2")
    assert both.fact("token") == TEXTS[anchor_at("moving", 2)]  # the strongest, while nothing is pointed at
    both.token(5).hover()
    assert (both.fact("token"), both.fact("position")) == ("red", "5")
    both.page.locator("#explore-title").hover()
    assert both.fact("token") == TEXTS[anchor_at("moving", 2)]


def test_a_token_selected_is_selected_everywhere(both: Watched) -> None:
    both.go("e=0&a=0&b=1&l=mean&g=all&s=2")
    both.token(13, pane=1).click()
    for pane in (0, 1):
        assert both.token(13, pane).get_attribute("aria-selected") == "true"
    both.page.locator("#explore-title").hover()
    assert [both.fact("token", pane) for pane in (0, 1)] == ["[3]", "[3]"]
    both.page.wait_for_function("() => location.hash.includes('t=13')")
    both.token(13, pane=1).click()
    assert both.page.locator('.token[aria-selected="true"]').count() == 0


def test_a_click_on_a_map_goes_to_its_step_and_its_layer(both: Watched) -> None:
    both.go("e=0&a=0&b=1&l=mean&g=all&s=0")

    def click(number: int, key: int, row: int) -> None:
        canvas = both.page.locator(".pane").first.locator("canvas").nth(number)
        canvas.evaluate("one => one.scrollIntoView({block: 'center'})")
        box = canvas.bounding_box()
        x = box["x"] + 34 + (box["width"] - 34) * (key + 0.5) / len(TEXTS)  # 34 and 16 pixels: see heat.js
        both.page.mouse.click(x, box["y"] + 16 * (row + 0.5))

    click(0, key=12, row=5)
    assert both.shown() == "0/5"
    assert both.token(12).get_attribute("aria-selected") == "true"
    click(1, key=4, row=1)
    assert both.page.locator("#x-layer").input_value() == "1"
    assert both.token(4).get_attribute("aria-selected") == "true"


def test_keys(both: Watched) -> None:
    both.go("e=0&a=0&b=1&l=mean&g=all&s=0")
    both.page.locator("#x-next").focus()
    press = both.page.keyboard.press
    press("ArrowRight")
    press(".")
    assert both.shown() == "0/2"
    press("ArrowLeft")
    press("End")
    assert both.shown() == "0/7"
    press("Home")
    assert both.shown() == "0/0"
    press("ArrowUp")
    assert both.page.locator("#x-layer").input_value() == "0"
    press("ArrowDown")
    assert both.page.locator("#x-layer").input_value() == "mean"
    both.token(0).focus()
    press("ArrowRight")
    press("ArrowRight")
    assert both.page.evaluate("document.activeElement.dataset.key") == "2"
    assert (both.shown(), both.fact("position")) == ("0/0", "2")
    press("Enter")
    assert both.token(2).get_attribute("aria-selected") == "true"
    press("Escape")
    assert both.token(2).get_attribute("aria-selected") == "false"


def test_play_goes_to_the_end_and_stops(both: Watched) -> None:
    both.go("e=0&a=0&b=1&l=mean&g=all&s=4")
    play = both.page.locator("#x-play")
    both.page.select_option("#x-speed", "4")
    play.click()
    assert play.get_attribute("aria-label") == "Pause"
    both.page.wait_for_function("() => document.getElementById('explore').dataset.shown === '0/7'", timeout=10_000)
    both.page.wait_for_function("() => document.getElementById('x-play').getAttribute('aria-label') === 'Play'")
    both.page.select_option("#x-speed", "0.5")
    both.token(3).focus()
    both.page.keyboard.press("Space")  # from anywhere inside; at the end it begins again
    assert (play.get_attribute("aria-label"), both.shown()) == ("Pause", "0/0")
    both.page.keyboard.press("Space")
    assert play.get_attribute("aria-label") == "Play"
    both.page.select_option("#x-speed", "1")


def test_models_questions_and_queries_can_be_changed(both: Watched) -> None:
    both.go("e=0&a=0&b=1&l=mean&g=all&s=2")
    select = both.page.select_option
    select("#x-b", "-1")
    both.page.wait_for_function("() => document.querySelectorAll('.pane').length === 1")
    select("#x-a", "1")
    both.page.wait_for_function("() => document.querySelector('.pane h3').innerText.trim() === 'fixed-arm'")
    assert both.fact("token") == "<bos>"
    select("#x-group", "masked")
    assert both.page.locator(".pane .empty").is_visible()  # an autoregressive model has no masked queries
    select("#x-a", "0")
    both.page.wait_for_function("() => document.querySelector('.pane h3').innerText.trim() === 'moving-mdm'")
    assert not both.page.locator(".pane .empty").is_visible()
    expected = make_trace("mdm", 0).data["received_masked"].values[2].mean(axis=(0, 1)).astype(float)
    both.token(4).hover()
    assert as_share(both.fact("share")) == pytest.approx(expected[4], rel=0.005)
    select("#x-example", "2")
    both.page.wait_for_function("() => document.getElementById('explore').dataset.shown.startsWith('2/')")


def test_the_address_brings_a_view_back(visit: Visit, both: Watched, made: Made) -> None:
    both.go("e=0&a=0&b=1&l=mean&g=all&s=0")
    both.page.select_option("#x-layer", "1")
    both.page.locator("#x-step").fill("4")
    both.token(9).click()
    both.page.wait_for_function("() => /l=1.*s=4.*t=9/.test(location.hash)")
    again = visit(made.path, fragment=both.page.evaluate("location.hash"))
    assert again.shown() == "0/4"
    assert again.page.locator("#x-layer").input_value() == "1"
    assert again.page.locator(".pane").count() == 2
    assert again.token(9).get_attribute("aria-selected") == "true"


def test_without_an_address_it_opens_on_the_answer_in_the_layer_where_most_is_received(
    visit: Visit, made: Made
) -> None:
    page = visit(made.path).page
    assert page.locator("#x-group").input_value() == "answer"
    received = make_trace("mdm", 0).data["received_answer"].values.mean(axis=2)  # (step, layer, key)
    strongest = received.max(axis=(0, 2))
    assert strongest[int(page.locator("#x-layer").input_value())] == pytest.approx(strongest.max(), rel=0.01)


def test_an_address_that_makes_no_sense_does_no_harm(visit: Visit, made: Made) -> None:
    watched = visit(made.path, fragment="#explore:e=99&a=7&b=x&l=<b>&g=nobody&s=-3&t=99999")
    assert watched.shown() == "0/0"
    assert watched.complaints == []


def test_a_link_to_another_question_keeps_its_token_and_is_the_address_at_once(both: Watched) -> None:
    both.go("e=0&a=0&b=1&l=mean&g=all&s=2")
    both.go("e=2&a=0&b=1&l=1&g=all&s=3&t=9")
    assert both.token(9).get_attribute("aria-selected") == "true"
    both.page.locator("#x-next").click()
    both.page.wait_for_function("() => location.hash.includes('s=4')")


def test_what_was_asked_for_last_is_shown(visit: Visit, made: Made) -> None:
    watched = visit(made.path, fragment="#explore:e=0&a=0&s=2")
    # The second model is not unpacked yet and comes later than the first, which is asked for after it.
    script = """() => {
        const select = document.getElementById('x-a');
        for (const value of ['1', '0']) {
            select.value = value;
            select.dispatchEvent(new Event('change'));
        }
    }"""
    watched.page.evaluate(script)
    watched.page.wait_for_timeout(300)
    assert watched.page.locator(".pane h3").inner_text().strip() == "moving-mdm"
    assert watched.page.locator("#x-a").input_value() == "0"


def test_what_is_pointed_at_is_marked_in_the_maps_and_the_text(both: Watched) -> None:
    both.go("e=0&a=0&b=1&l=mean&g=all&s=2")
    pane = both.page.locator(".pane").first
    assert pane.locator(".needle:visible").count() == 0
    both.token(5).hover()
    assert pane.locator(".needle:visible").count() == 2
    canvas = pane.locator("canvas").first
    box = canvas.bounding_box()
    canvas.hover(position={"x": 34 + (box["width"] - 34) * 12.5 / len(TEXTS), "y": 8})
    assert pane.locator(".token.pointed").get_attribute("data-key") == "12"
