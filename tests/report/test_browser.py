"""The report in a real browser: it loads nothing, everything answers, and what it shows is what was measured."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import floatlens as fl
from floatlens.claims import claims
from floatlens.report import Made
from floatlens.runs.reporting import report_runs
from shared.answering import QUESTIONS, right
from shared.measures import as_share, share_of
from shared.reported import make_trace
from shared.watched import Watched

pytestmark = pytest.mark.browser
Visit = Callable[..., Any]


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


def test_headline_numbers_of_four_models_need_no_scrolling_on_a_phone(
    visit: Visit, runs: list[Path], tmp_path: Path
) -> None:
    """Each number stands under the name of its model; on a wide screen the columns say whose it is."""
    refs = ["org/a-diffusion-model-8B", "org/another-diffusion-model-7B", "org/an-autoregressive-model-8B", "org/small"]
    for ref, run in zip(refs, [*runs, *runs], strict=True):
        for file in sorted((run / "traces").iterdir()):
            trace = fl.open_trace(file)
            renamed = trace.data.assign_attrs(model={**trace.model, "ref": ref})
            fl.Trace(renamed).save(tmp_path / ref.replace("/", "-") / "traces" / file.name.partition(".")[0])
    made = report_runs(sorted(tmp_path.iterdir()), tmp_path / "report.html", examples=1)
    phone, desk = visit(made.path, width=390, height=800).page, visit(made.path).page
    widths = "[...document.querySelectorAll('#numbers .frame, html')].map(one => one.scrollWidth - one.clientWidth)"
    assert phone.evaluate(widths) == [0, 0]
    heads = [text.strip() for text in desk.locator("#headline thead th").all_inner_texts()[1:]]
    assert sorted(heads) == sorted(ref.partition("/")[2] for ref in refs)
    names = phone.locator("#headline tbody tr").first.locator("td .whose")
    assert [text.strip() for text in names.all_inner_texts()] == heads
    assert names.first.is_visible()
    assert not desk.locator("#headline td .whose").first.is_visible()
    numbers = "[...document.querySelectorAll('#headline td strong')].map(one => one.textContent)"
    assert phone.evaluate(numbers) == desk.evaluate(numbers) != []


# -- the report -------------------------------------------------------------------------------------------------------


def test_claims_are_shown_with_their_verdicts_and_lead_to_figures(
    both: Watched, runs: list[Path], asked: list[Path]
) -> None:
    expected = [*claims(runs), *(claim for run in asked for claim in claims(run))]
    assert both.page.locator("#claim-rows .finding").count() == len(expected)
    for statement in {claim.statement for claim in expected}:
        group = both.page.locator("#claim-rows > details", has_text=re.compile(re.escape(statement), re.IGNORECASE))
        own = [claim for claim in expected if claim.statement == statement]
        findings = group.first.locator(".finding")
        verdicts = findings.evaluate_all("all => all.map(one => one.dataset.verdict)")
        assert verdicts == [claim.verdict for claim in own]
        badges = group.first.locator("summary .signs .badge").all_text_contents()
        assert all(claim.verdict in badge for claim, badge in zip(own, badges, strict=True))
        target = group.first.locator(".see a").get_attribute("href")
        assert both.page.locator(target).count() == 1


def test_headline_numbers_are_those_of_the_analyses(both: Watched, runs: list[Path]) -> None:
    drift = fl.drift(runs)
    row = both.page.locator("#headline tbody tr", has_text="Effective number of anchors")
    for i, model in enumerate(("moving-mdm", "fixed-arm")):
        cell = row.locator("td").nth(i)
        expected = float(drift.group(model).estimate("effective_anchors").mean[0])  # of all rows
        assert float(cell.get_attribute("data-value")) == pytest.approx(expected)
        assert float(cell.locator("strong").inner_text()) == pytest.approx(expected, rel=1e-2)


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
        if x
    ]
    expected = frame[frame["variable"] == "lifetime_by_layer"]["mean"].dropna().sort_values(ascending=False)
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


def test_answers_are_shown_as_they_were_scored(both: Watched) -> None:
    both.draw_all()
    drawn = both.page.evaluate(
        "() => { const {data} = document.querySelector('#figure-gains .chart');"
        "const starts = data.filter(t => t.name === 'start');"
        "return data.filter(t => t.error_y).map((t, i) => ({name: t.name, y: [starts[i].y[0], t.y[0]]})); }"
    )
    row = both.page.locator("#headline tbody tr", has_text="Gain from documents")
    for i, one in enumerate(drawn):
        expected = [np.mean([right(one["name"], kind, q) for q in range(QUESTIONS)]) for kind in ("closed", "rag")]
        assert one["y"] == pytest.approx(expected)
        gained = float(row.locator("td").nth(i).get_attribute("data-value"))
        assert gained == pytest.approx(100 * (expected[1] - expected[0]))
        cells = both.page.locator('details[data-table="table1"] tbody tr').nth(2 * i + 1).locator("td")
        assert cells.nth(1).inner_text() == f"{100 * expected[1]:.1f}"


def test_every_section_says_what_it_rests_on(both: Watched) -> None:
    sections = both.page.locator("section.analysis")
    assert sections.count() == 15
    for i in range(13):
        said = sections.nth(i).locator(".small-print").all_inner_texts()
        assert said
        assert all("n = " in one for one in said)
    assert sections.first.locator(".small-print").first.inner_text().startswith("anchors: robust(ε=3.5)")


def test_print_is_light_whole_and_without_controls(both: Watched, tmp_path: Path) -> None:
    page = both.page
    both.draw_all()
    page.emulate_media(color_scheme="dark")
    page.wait_for_function("document.documentElement.dataset.theme === 'dark'")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print", color_scheme="dark")
    page.wait_for_function("document.documentElement.dataset.theme === 'light'")
    for gone in (".transport", ".controls", "nav.top"):
        assert not page.locator(gone).is_visible(), gone
    for there in ("#claim-rows .finding", ".pane .prompt", "#figure-drift .main-svg", ".definition dl", ".run pre"):
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
    page.locator("#figure-drift").scroll_into_view_if_needed()
    page.wait_for_selector("#figure-drift .chart[data-drawn]", timeout=60_000)
    page.locator('details[data-table="absorption"] summary').click()
    page.wait_for_selector('details[data-table="absorption"][data-ready]')
    page.evaluate(source)
    for scheme, rules in (("light", {}), ("dark", {"runOnly": ["color-contrast"]})):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        page.wait_for_function("wanted => document.documentElement.dataset.theme === wanted", arg=scheme)
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


@pytest.mark.parametrize(
    "script",
    [
        "delete window.DecompressionStream; delete window.OffscreenCanvas",
        "window.DecompressionStream = class { constructor(kind) { throw new TypeError(kind); } }",  # no deflate-raw
    ],
)
def test_older_browsers_read_the_same(visit: Visit, made: Made, script: str) -> None:
    watched = visit(made.path, fragment="#explore:e=1&a=0&b=1&l=2&s=3&t=8", before=script)
    assert as_share(watched.fact("share")) == pytest.approx(share_of("mdm", 1, 3, 8, 2), rel=0.005)
    watched.page.locator("#figure-drift").scroll_into_view_if_needed()
    watched.page.wait_for_selector("#figure-drift .chart[data-drawn]", timeout=60_000)
    assert watched.complaints == []


def test_the_explorer_in_a_notebook(visit: Visit, tmp_path: Path) -> None:
    page = tmp_path / "notebook.html"
    frame = fl.explore([make_trace("mdm", 0), make_trace("arm", 0)])._repr_html_()
    page.write_text(f'<!doctype html><html data-ready="true"><body><h1>Notebook</h1>{frame}</body></html>')
    watched = visit(page)
    inside = watched.page.frame_locator("iframe")
    inside.locator("#x-next").click()
    inside.locator('#explore[data-shown="0/2"]').wait_for()  # it opens where both show something
    assert [text.strip() for text in inside.locator(".pane h3").all_inner_texts()] == ["moving-mdm", "fixed-arm"]
    assert watched.complaints == []
    assert json.loads(watched.page.evaluate("JSON.stringify(Object.keys(window).includes('Plotly'))")) is False
