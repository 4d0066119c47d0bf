"""Hostile text in every place that text can come from: shown as text, nothing executed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import floatlens as fl
from floatlens.records.store import FORMAT
from floatlens.report import Made
from floatlens.runs.reporting import report_runs
from floatlens.traces import Trace
from shared.answering import make_answers
from shared.reported import make_trace

BAD = "</script><script>window.canary=1</script><img src=x onerror=window.canary=1>"
TOKENS = [
    BAD,
    "<!--",
    "-->",
    "\"'`",
    "&lt;b&gt;",
    "\u202egnp.exe",
    "שלום",
    "a\u200bb\u200d",
    "w" * 100_000,
    "\u2028\u2029",
    "\x00\x07\x1b[31m",
    "]]>",
    "${canary()}",
    "%{canary}",
    "<a href='javascript:window.canary=1'>",
]
DATA = "<svg onload=canary=1> $x$ %{y}"
FORMULA = "=HYPERLINK(1)"
NAME = "hub/<b onmouseover=canary=1>x <i> $y$ %{z} \u202e"


def hostile(sample: int, *, surrogates: bool) -> Trace:
    """A trace whose every word is hostile."""
    data = make_trace("mdm", sample).data.copy()
    texts = list(data.attrs["token_text"])
    texts[1 : 1 + len(TOKENS)] = TOKENS
    bad = BAD + ("\ud800\x00" if surrogates else "")
    texts[-1] = bad
    prompt = {**data.attrs["prompt"], "question": f"{bad} {sample}", "titles": [bad, "<!--", "\u202e" + bad]}
    decoding = {**data.attrs["decoding"], "answer": bad, "settings": {"x": bad}}
    model = {**data.attrs["model"], "ref": NAME}
    data.attrs = {**data.attrs, "token_text": texts, "prompt": prompt, "decoding": decoding, "model": model}
    return Trace(data)


@pytest.fixture(scope="module")
def bad_report(tmp_path_factory: pytest.TempPathFactory) -> Made:
    root = tmp_path_factory.mktemp("bad")
    run = root / "<script>canary=1<" / "traces"
    for sample in range(2):
        hostile(sample, surrogates=False).save(run / f"<img src=x onerror=canary=1> {sample}")
    (run.parent / "manifest.json").write_text(
        json.dumps({"format": FORMAT, "models": {}, BAD: [BAD, "\ud800", "\x00", "\u2028"]})
    )
    folder = root / os.fsdecode(b"\xff<img src=x onerror=canary=1>\xe2\x80\xae")  # not UTF-8: a lone surrogate
    models = {NAME: "mdm", FORMULA: "arm"}
    asked = [
        make_answers(folder / kind, kind, data=DATA, said=BAD + "\x00", models=models) for kind in ("qa", "intervene")
    ]
    return report_runs([run.parent, *asked], root / "r.html")


def test_hostile_words_are_not_in_the_markup(bad_report: Made) -> None:
    page = bad_report.path.read_text(encoding="utf-8")
    for bad in ("canary=1<", "<img", "<svg on", "<b onmouse", "<a href='java", "\u202e", "\u2028", "\x00"):
        assert bad not in page
    assert bad_report.size < 4_000_000  # words of 100 kB are cut


@pytest.mark.browser
def test_hostile_words_are_shown_and_do_nothing(bad_report: Made, visit: Callable[..., Any]) -> None:
    watched = visit(bad_report.path, idle=True)
    page = watched.page
    watched.draw_all()
    for table in page.locator("details").all():
        table.evaluate("one => { one.open = true; }")
    page.wait_for_function("() => document.querySelectorAll('details.table[data-ready]').length > 5")
    for key in range(1, 1 + len(TOKENS)):
        watched.token(key).hover()
    shown = page.locator(".pane .prompt").inner_text()
    assert BAD[:40] in shown
    assert "<!--" in shown
    assert "… (100000 characters)" in shown
    assert BAD in page.locator("#x-example").inner_text()
    assert "<script>canary=1<" in page.locator("#manifests").inner_text()
    assert BAD in page.locator('details[data-table="qa-answers"]').inner_text()
    assert DATA in page.locator("#figure-gains").inner_text()
    with page.expect_download() as coming:
        page.locator('details[data-table="qa-answers"]').get_by_role("button", name="Download CSV").click()
    saved = coming.value.path().read_text(encoding="utf-8")
    assert "'=HYPERLINK(1)," in saved  # no spreadsheet takes it for a formula
    assert "\n=HYPERLINK" not in saved
    assert "<b onmouseover=canary=1>x <i> $y$ %{z}" in page.locator("#models").inner_text()
    chart = page.locator("#figure-drift .chart").first
    chart.hover(position={"x": 160, "y": 120})
    assert page.evaluate("window.canary") is None
    assert page.locator(".chart a[href], .chart img, .pane img, .pane b, main i:not(.key), main img").count() == 0
    assert watched.complaints == []
    assert watched.requests == [bad_report.path.resolve().as_uri()]


@pytest.mark.browser
def test_lone_surrogates_and_nul_in_a_notebook(visit: Callable[..., Any], tmp_path: Path) -> None:
    found = fl.explore(hostile(0, surrogates=True))
    found._repr_html_().encode()  # what a notebook does with it
    watched = visit(found.save(tmp_path / "x.html"))
    assert BAD in watched.page.locator("#x-example").inner_text()
    watched.page.locator("#x-step").fill("7")
    assert BAD[:40] in watched.token(29).inner_text()
    assert watched.page.evaluate("window.canary") is None
    assert watched.complaints == []
