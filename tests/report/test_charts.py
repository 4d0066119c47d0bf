"""The figures in a real browser: what their buttons offer, what a hover says, and the numbers that are drawn."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from floatlens.claims import claims
from floatlens.report import Made
from shared.answering import share
from shared.watched import Watched

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
    ("figure", "said"),
    [("absorption", "layer 1: "), ("token_classes", "layer 1: "), ("retrieval_heads", "layer 1, head 1: ")],
)
def test_a_hover_says_the_numbers_and_nothing_is_refused(both: Watched, figure: str, said: str) -> None:
    both.draw_all()
    before = list(both.complaints)
    assert both.hover_says(figure, 1, said)
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


# -- what is drawn ----------------------------------------------------------------------------------------------------


def test_models_differ_by_shape_as_well_as_by_colour(both: Watched) -> None:
    both.draw_all()
    shapes = """() => Object.fromEntries(
        document.querySelector('#figure-drift .chart').data
            .filter(t => t.marker?.symbol).map(t => [t.name, t.marker.symbol]))"""
    assert both.page.evaluate(shapes) == {"moving-mdm": "circle", "fixed-arm": "square-open"}
    for place in ("#models", "#headline thead", ".pane h3"):
        marks = both.page.locator(f"{place} .dot").evaluate_all("all => all.map(one => one.dataset.marker)")
        assert marks == ["o", "s"], place


def test_panels_that_are_compared_have_one_axis_and_ratios_a_logarithmic_one(both: Watched) -> None:
    both.draw_all()
    for figure in ("absorption", "qk"):
        first, second = both.page.locator(f"#figure-{figure} .chart").evaluate_all(
            "all => all.map(one => one._fullLayout.yaxis.range)"
        )
        assert first == second, figure
    assert both.page.evaluate("document.querySelector('#figure-gold_lift .chart')._fullLayout.yaxis.type") == "log"


def test_places_of_gold_count_from_one(both: Watched) -> None:
    both.draw_all()
    assert both.page.evaluate("document.querySelector('#figure-stress-position .chart').layout.xaxis.ticktext") == [
        "1",
        "5",
        "10",
    ]
    assert both.hover_says("stress-position", 0, "position of the gold document 1: ")
    both.page.mouse.move(5, 5)


def drawn(both: Watched, figure: str, panel: int = 0) -> list[dict[str, Any]]:
    """Curves of a panel: name and heights, without the bands."""
    script = "one => one.data.filter(t => t.mode !== 'lines').map(t => ({name: t.name, y: Array.from(t.y)}))"
    found = both.page.locator(f"#figure-{figure} .chart").nth(panel).evaluate(script)
    assert found
    return list(found)


def test_stress_curves_and_edits_are_drawn_as_they_were_scored(both: Watched) -> None:
    both.draw_all()
    for one in drawn(both, "stress-noise"):
        expected = [share(one["name"], f"noise-{dose}") for dose in ("0", "0.4", "0.8")]
        assert one["y"] == pytest.approx(expected)
    for one in drawn(both, "edits-accuracy"):
        model, _, control = one["name"].partition(", ")
        names = [f"drop_anchors k={k}{f' ({control})' if control else ''}" for k in (1, 5)]
        expected = [100 * (share(model, name) - share(model, "plain")) for name in names]  # percentage points
        assert one["y"] == pytest.approx(expected)


def test_the_strip_of_a_claim_says_the_number_it_hangs_on(both: Watched, runs: list[Path], asked: list[Path]) -> None:
    expected = [*claims(runs), *(claim for run in asked for claim in claims(run))]
    findings = both.page.locator("#claim-rows .finding")
    order = {claim.statement: None for claim in expected}
    for i, claim in enumerate(sorted(expected, key=lambda claim: list(order).index(claim.statement))):
        part = claim.deciding
        if part is None:
            continue
        said = str(findings.nth(i).locator(".deciding").text_content()).replace("−", "-")
        assert part.name.replace("−", "-") in said
        shown = str(findings.nth(i).locator(".deciding strong").text_content())
        mean = float(shown.replace("−", "-").replace("–", "nan"))
        assert mean == pytest.approx(float(part.found.mean), rel=0.01, nan_ok=True), claim.id
        assert f"n = {part.found.n}" in said


def test_table_one_is_given_away_as_it_is_shown(both: Watched, tmp_path: Path) -> None:
    with both.page.expect_download() as coming:
        both.page.locator('details[data-table="table1"]').get_by_role("button", name="Download CSV").click()
    saved = coming.value.path().read_text(encoding="utf-8")
    gains = [line.rpartition('"+')[2] for line in saved.splitlines() if '"+' in line]
    assert gains
    assert all(re.fullmatch(r'[\d.]+ \[-?[\d.]+, -?[\d.]+\]"', gain) for gain in gains)
    assert "'" not in saved


# -- when something is missing ----------------------------------------------------------------------------------------


def test_figures_are_drawn_where_the_explorer_fails(visit: Visit, made: Made, tmp_path: Path) -> None:
    whole = made.path.read_text(encoding="utf-8")
    broken = re.sub(r'(id="blob-view-\d-0">)[^<]+', r"\g<1>AAAA", whole)
    (tmp_path / "r.html").write_text(broken, encoding="utf-8")
    page = visit(tmp_path / "r.html").page
    assert page.locator("#x-panes .failed").inner_text().startswith("The explorer does not work here: ")
    page.locator("#figure-drift").scroll_into_view_if_needed()
    page.wait_for_selector("#figure-drift .chart[data-drawn] .main-svg")


def test_a_sheet_that_is_printed_too_early_says_so(visit: Visit, made: Made) -> None:
    page = visit(made.path).page  # nothing is drawn that is not near the window
    page.evaluate("delete window.Plotly; dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    chart = page.locator("#figure-edits-kl .chart").first
    said = chart.evaluate("one => getComputedStyle(one, '::before').content")
    assert "Not drawn yet when this was printed" in said


def test_what_is_not_drawn_yet_is_drawn_for_the_sheet(visit: Visit, made: Made) -> None:
    page = visit(made.path).page
    page.locator("#figure-drift").scroll_into_view_if_needed()
    page.wait_for_selector("#figure-drift .chart[data-drawn]")
    script = """() => {
        dispatchEvent(new Event('beforeprint'));
        return [...document.querySelectorAll('.chart')].every(one => one.querySelector('.main-svg'));
    }"""
    assert page.evaluate(script)
