"""The report in a real browser: it loads nothing, everything answers, and what it shows is what was measured."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from reported import MODELS, make_trace
from synthetic import PROMPT, TEXTS, anchor_at
from watched import Watched

import floatlens as fl
from floatlens.report import Made
from floatlens.report.answered import open_answered

pytestmark = pytest.mark.browser
Visit = Callable[..., Any]


@pytest.fixture(scope="module")
def both(browser: Any, made: Made) -> Iterator[Watched]:
    """The report with both models open, shared by tests that put back what they change (the state is set by each)."""
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    watched = Watched(context.new_page()).open(made.path)
    yield watched
    context.close()
    assert watched.complaints == []  # whatever was done to it


def share_of(model: str, sample: int, step: int, key: int, layer: int | None = None) -> float:
    """Received attention from the trace itself, mean over heads (and layers)."""
    received = make_trace(model, sample).data["received"].values.astype(np.float64)
    return float(received[step].mean(axis=(0, 1))[key] if layer is None else received[step, layer].mean(axis=0)[key])


def as_share(text: str) -> float:
    return float(text.removesuffix(" %")) / 100


# -- it loads nothing -------------------------------------------------------------------------------------------------


def test_it_loads_without_a_complaint_or_a_request(both: Watched, made: Made) -> None:
    both.draw_all()
    assert both.complaints == []
    assert both.requests == [made.path.resolve().as_uri()]
    assert both.page.title() == "floatlens: moving-mdm, fixed-arm"
    assert both.page.locator(".chart[data-drawn] svg.main-svg").count() >= 30


def test_no_part_is_wider_than_a_phone(visit: Visit, made: Made) -> None:
    watched = visit(made.path, width=375, height=800)
    assert watched.page.locator(".pane").count() == 1  # one model at a time where there is no room for two
    watched.page.locator("#figure-drift").scroll_into_view_if_needed()
    watched.page.wait_for_selector("#figure-drift .chart[data-drawn]")
    assert watched.page.evaluate("document.documentElement.scrollWidth") <= 375


# -- the explorer -----------------------------------------------------------------------------------------------------


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


# -- the report -------------------------------------------------------------------------------------------------------


def test_claims_are_shown_with_their_verdicts_and_lead_to_figures(
    both: Watched, runs: list[Path], asked: list[Path]
) -> None:
    expected = [*fl.claims(runs), *(claim for run in open_answered(asked, {}) for claim in run.claims)]
    rows = both.page.locator("#claim-rows > tr")
    assert rows.count() == len(expected)
    for i, claim in enumerate(expected):
        assert rows.nth(i).get_attribute("data-verdict") == claim.verdict
        assert claim.statement in rows.nth(i).inner_text()
        assert claim.verdict in rows.nth(i).locator(".badge").inner_text()
        target = rows.nth(i).locator(".statement > a").get_attribute("href")
        assert both.page.locator(target).count() == 1


def test_headline_numbers_are_those_of_the_analyses(both: Watched, runs: list[Path]) -> None:
    drift = fl.drift(runs)
    row = both.page.locator("#headline tbody tr", has_text="Tokens that are an anchor")
    for i, model in enumerate(("moving-mdm", "fixed-arm")):
        cell = row.locator("td").nth(i)
        expected = drift.group(model).estimate("distinct")
        assert float(cell.get_attribute("data-value")) == float(expected.mean)
        assert float(cell.locator("strong").inner_text()) == pytest.approx(float(expected.mean), rel=1e-3)


def test_a_table_is_filtered_sorted_and_given_away_as_csv(both: Watched, runs: list[Path], tmp_path: Path) -> None:
    frame = fl.drift(runs).to_frame()
    holder = both.page.locator('details[data-table="drift"]')
    holder.locator("summary").click()
    both.page.wait_for_selector('details[data-table="drift"][data-ready]')
    assert holder.locator(".count").inner_text() == f"{min(60, len(frame))} of {len(frame)} rows"
    variables = list(dict.fromkeys(frame["variable"]))
    holder.locator("select").nth(1).select_option(str(variables.index("lifetime_by_layer")))
    holder.get_by_role("button", name="mean").click()
    holder.get_by_role("button", name="mean").click()
    column = list(frame.columns).index("mean")
    assert holder.locator("th").nth(column).get_attribute("aria-sort") == "descending"
    shown = [
        float(x)
        for x in holder.locator(f"tbody td:nth-child({column + 1})").evaluate_all(
            "all => all.map(one => one.dataset.value)"
        )
    ]
    expected = frame[frame["variable"] == "lifetime_by_layer"]["mean"].sort_values(ascending=False)
    np.testing.assert_array_equal(shown, expected)
    with both.page.expect_download() as coming:
        holder.get_by_role("button", name="Download CSV").click()
    coming.value.save_as(tmp_path / "drift.csv")
    assert coming.value.suggested_filename == "drift.csv"
    found = pd.read_csv(tmp_path / "drift.csv")
    expected_csv = pd.read_csv(io.StringIO(frame.to_csv(index=False)))
    pd.testing.assert_frame_equal(found, expected_csv)


def test_figures_draw_the_numbers_of_the_tables(both: Watched, runs: list[Path]) -> None:
    both.draw_all()
    drawn = both.page.evaluate(
        "() => document.querySelector('#figure-absorption .chart').data.filter(t => t.mode === 'lines+markers')"
        ".map(t => ({name: t.name, y: Array.from(t.y)}))"
    )
    absorbed = fl.absorption(runs)
    for one in drawn:
        expected = absorbed.group(one["name"]).estimate("absorbed").mean[0]
        assert one["y"] == expected.tolist()


def test_print_is_light_whole_and_without_controls(both: Watched, tmp_path: Path) -> None:
    page = both.page
    both.draw_all()
    page.emulate_media(color_scheme="dark")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    for gone in (".transport", ".controls", "nav.top"):
        assert not page.locator(gone).is_visible(), gone
    for there in ("#claim-rows", ".pane .prompt", "#figure-drift .main-svg", ".definition dl", ".run pre"):
        assert page.locator(there).first.is_visible(), there
    widths = page.locator(".chart .main-svg").evaluate_all("all => all.map(one => one.getBoundingClientRect().width)")
    assert max(widths) <= 340
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.pdf(path=tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").stat().st_size > 20_000
    page.emulate_media(media="screen", color_scheme="light")


# -- for everybody ----------------------------------------------------------------------------------------------------


def test_no_serious_accessibility_problem(visit: Visit, made: Made) -> None:
    axe = pytest.importorskip("axe_playwright_python", reason="no accessibility test: axe-playwright-python is missing")
    source = (Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
    view = "#explore:e=0&a=0&b=1&l=mean&g=all&s=3&t=8"
    page = visit(made.path, reduced_motion="reduce", fragment=view).page
    page.wait_for_selector("#figure-drift .chart[data-drawn]", timeout=60_000)
    page.locator('details[data-table="absorption"] summary').click()
    page.wait_for_selector('details[data-table="absorption"][data-ready]')
    page.evaluate(source)
    for scheme, rules in (("light", {}), ("dark", {"runOnly": ["color-contrast"]})):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        assert page.evaluate("document.documentElement.dataset.theme") == scheme
        found = page.evaluate(
            "rules => axe.run({exclude: [['.chart > *']]}, {resultTypes: ['violations'], ...rules})", rules
        )
        serious = [
            (scheme, one["id"], one["impact"], [node["html"][:120] for node in one["nodes"]][:3])
            for one in found["violations"]
            if one["impact"] in ("serious", "critical")
        ]
        assert serious == []
        assert "color-contrast" in [one["id"] for one in found["passes"]]


def test_reduced_motion_has_no_flashing(both: Watched) -> None:
    for motion, expected in (("reduce", 0), ("no-preference", 1)):
        both.page.emulate_media(reduced_motion=motion)
        both.go("e=0&a=0&b=1&l=mean&g=all&s=1")
        both.page.locator("#x-next").click()
        assert both.page.locator(".pane").first.locator(".token.flash").count() == expected


def test_the_colours_can_be_chosen(both: Watched) -> None:
    button = both.page.locator("#theme")
    seen = [both.page.evaluate("document.documentElement.dataset.theme")]
    for _ in range(3):
        button.click()
        seen.append(both.page.evaluate("document.documentElement.dataset.theme"))
    assert seen == ["light", "light", "dark", "light"]


def test_browsers_without_decompression_read_the_same(visit: Visit, made: Made) -> None:
    script = "delete window.DecompressionStream"
    watched = visit(made.path, fragment="#explore:e=1&a=0&b=1&l=2&s=3&t=8", before=script)
    assert watched.page.evaluate("typeof DecompressionStream") == "undefined"
    assert as_share(watched.fact("share")) == pytest.approx(share_of("mdm", 1, 3, 8, 2), rel=0.005)
    watched.page.wait_for_selector(".chart[data-drawn]", state="attached", timeout=30_000)
    assert watched.complaints == []


def test_the_explorer_in_a_notebook(visit: Visit, tmp_path: Path) -> None:
    page = tmp_path / "notebook.html"
    frame = fl.explore([make_trace("mdm", 0), make_trace("arm", 0)])._repr_html_()
    page.write_text(f'<!doctype html><html data-ready="true"><body><h1>Notebook</h1>{frame}</body></html>')
    watched = visit(page)
    inside = watched.page.frame_locator("iframe")
    inside.locator("#x-next").click()
    inside.locator('#explore[data-shown="0/1"]').wait_for()
    assert [text.strip() for text in inside.locator(".pane h3").all_inner_texts()] == ["moving-mdm", "fixed-arm"]
    assert watched.complaints == []
    assert json.loads(watched.page.evaluate("JSON.stringify(Object.keys(window).includes('Plotly'))")) is False
