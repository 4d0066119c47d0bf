"""The page as text: what it may run, what it holds, and that words from data never become markup."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import floatlens as fl
from floatlens.analysis import ANALYSES, Result, Words, analyse
from floatlens.analysis.headline import headline
from floatlens.claims import claims
from floatlens.records.store import FORMAT
from floatlens.report import Made, bundle
from floatlens.report.answer_sections import SECTIONS
from floatlens.report.sections import definition, sections
from floatlens.runs.reporting import report_runs
from shared.parts import Parts
from shared.reported import make_trace


@pytest.fixture(scope="module")
def parts(made: Made) -> Parts:
    return Parts(made.path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one trace, for what does not depend on more."""
    root = tmp_path_factory.mktemp("single")
    make_trace("mdm", 0).save(root / "traces" / "0")
    return root


@pytest.fixture(scope="module")
def results(runs: list[Path]) -> dict[str, Result]:
    """Every analysis of both runs."""
    return analyse(runs, list(ANALYSES))


def digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_only_what_the_policy_names_can_run(parts: Parts) -> None:
    policy = dict(part.split(" ", 1) for part in parts.meta["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == policy["connect-src"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert "unsafe" not in parts.meta["Content-Security-Policy"]
    running = [content for given, content in parts.scripts if given.get("type") is None]
    plotly = zlib.decompress(base64.b64decode(parts.held("blob-plotly")), -15).decode()
    assert policy["script-src"].split() == [digest(one) for one in (*running, plotly)]
    assert policy["style-src"].split() == [digest(one) for one in (*parts.styles, "")]
    assert len(running) == 1


def test_nothing_is_loaded_and_nothing_acts_in_attributes(parts: Parts) -> None:
    for tag, name, value in parts.attributes:
        assert not name.startswith("on"), (tag, name)
        assert name not in ("src", "srcset", "action", "style"), (tag, name)
        if name == "href":
            assert value is not None
            assert value.startswith("#")


def test_the_page_is_made_the_same_way_twice(single: Path, tmp_path: Path) -> None:
    once, again = (report_runs([single], tmp_path / name) for name in ("once.html", "again.html"))
    assert again.path.read_bytes() == once.path.read_bytes()


def test_tables_are_those_of_the_analyses(parts: Parts, results: dict[str, Result]) -> None:
    for name, result in results.items():
        table = parts.table(name)
        frame = result.to_frame()
        assert table["names"] == list(frame.columns)
        for title, column, numeric in zip(table["names"], table["columns"], table["numeric"], strict=True):
            if numeric:
                np.testing.assert_array_equal(np.array(column, dtype=float), frame[title].to_numpy(dtype=float))
            else:
                expected = [None if pd.isna(value) else value for value in frame[title]]
                assert column == expected


def test_claims_and_headline_are_those_of_the_library(parts: Parts, results: dict[str, Result]) -> None:
    data = parts.json("report")
    expected = claims(results)
    assert [(row["id"], row["subject"], row["verdict"]) for row in data["claims"]][: len(expected)] == [
        (one.id, one.subject, one.verdict) for one in expected
    ]
    told = {row["title"]: row["values"] for row in data["headline"]}
    for row in headline(results):
        for model, one in row.values.items():
            shown = told[row.label][model]
            assert shown["mean"] == (None if np.isnan(one.mean) else float(one.mean))
            assert shown["n"] == int(one.n)
    assert data["answer"].startswith("Yes in moving-mdm") or data["answer"].startswith("Undecided in moving-mdm")


def test_figures_show_the_numbers_of_the_tables(results: dict[str, Result]) -> None:
    made = {one["id"]: one for one in sections(results)}
    frame = results["drift"].to_frame()
    for drawn in made["drift"]["figures"][0]["panels"][0]["series"]:
        rows = frame[(frame["variable"] == "lag_jaccard") & (frame["model"] == drawn["name"])]
        rows = rows[(rows["queries"] == "all") & rows["mean"].notna()]
        np.testing.assert_array_equal(drawn["mean"], rows["mean"])
        assert drawn["x"] == rows["lag"].tolist()
    fixed = made["absorption"]["figures"][0]["panels"][0]["series"]
    assert [one["role"] for one in fixed] == ["", "", "null", "null"]
    heat = made["retrieval_heads"]["figures"][0]["panels"][0]["heat"]
    assert heat["values"] == results["retrieval_heads"].group("moving-mdm").estimate("copy").mean.tolist()


def test_claims_link_to_figures_that_are_there(parts: Parts) -> None:
    ids = {value for _, name, value in parts.attributes if name == "id"}
    linked = {row["figure"] for row in parts.json("report")["claims"]}
    assert linked
    assert linked <= {one["id"] for part in parts.json("report")["sections"] for one in part["figures"]}
    assert {*ANALYSES, *SECTIONS} - {"collection"} <= ids  # no collection changes in this run


def test_definitions_say_rule_queries_normalisation_and_n(results: dict[str, Result]) -> None:
    found = definition(results["drift"])
    used = dict(found["used"])
    assert used["anchor rule"].startswith("robust(ε=3.5): tokens whose attention, relative to uniform")
    assert dict(definition(results["absorption"])["used"])["queries"] == "all"
    assert used["n, moving-mdm"] == "4 questions"
    assert "normalisation" in used
    terms = dict(found["terms"])
    assert terms["slope"].endswith("[positions per step]")
    assert set(terms) >= {"jaccard", "lifetime", "distinct", "entropy", "wasserstein", "frontier", "steps"}
    assert "Example" not in found["summary"]


def test_an_analysis_without_words_of_its_own_has_a_table_alone(results: dict[str, Result]) -> None:
    (one,) = sections({"my_peak": replace(results["drift"], analysis="my_peak", words=Words("My peak"))})
    assert (one["title"], one["reading"], one["figures"]) == ("My peak", "", [])
    assert one["tables"][0]["table"]["columns"]


def test_models_share_examples_and_the_rest_is_counted(parts: Parts) -> None:
    index = parts.json("explorer")
    assert [model["label"] for model in index["models"]] == ["moving-mdm", "fixed-arm"]
    assert len(index["examples"]) == 3
    assert index["left_out"] == 1
    assert sorted(index["views"]) == [f"view-{model}-{example}" for model in range(2) for example in range(3)]


def test_runs_of_one_model_with_other_settings_stand_side_by_side() -> None:
    from floatlens.report.explorer import explorer_data
    from floatlens.report.subjects import look
    from floatlens.traces import Trace

    plain = make_trace("mdm", 0)
    data = plain.data.copy()
    data.attrs = {**data.attrs, "decoding": {**data.attrs["decoding"], "settings": {"steps": 4}}, "edits": ["Pin"]}
    index, views = explorer_data([look(plain), look(Trace(data))], 5, "zscore", 10**7)
    assert [model["label"] for model in index["models"]] == [
        "moving-mdm · edits none",
        "moving-mdm · steps 4 · edits Pin",
    ]
    assert len(views) == 2


def test_a_run_with_a_manifest_shows_it(runs: list[Path], tmp_path: Path) -> None:
    make_trace("mdm", 0).save(tmp_path / "run" / "traces" / "0")
    (tmp_path / "run" / "manifest.json").write_text(json.dumps({"format": FORMAT, "models": {}, "seed": 7}))
    line = {"what": "trace", "model": "m", "data": "d", "condition": {"kind": "rag"}, "index": 0, "id": "q"}
    line["status"] = "done"
    (tmp_path / "run" / "records.jsonl").write_text(json.dumps(line) + "\n")
    made = report_runs([tmp_path / "run"], tmp_path / "out")
    (run,) = Parts(made.path.read_text()).json("report")["runs"]
    assert run["manifest"]["seed"] == 7
    assert (run["outcomes"], run["source"], run["traces"]) == ({"done": 1}, "manifest.json", 1)


def test_the_rule_asked_for_is_used_and_named(single: Path, tmp_path: Path) -> None:
    made = report_runs([single], tmp_path / "r.html", rule="topk(2)")
    parts = Parts(made.path.read_text())
    assert parts.json("explorer")["rule"] == "topk(k=2)"
    for section in parts.json("report")["sections"]:
        if section["id"] in ("drift", "absorption", "qk"):
            assert dict(section["definition"]["used"])["anchor rule"].startswith("topk(k=2): the 2 tokens")


def test_what_the_traces_do_not_allow_is_left_out_with_the_reason(tmp_path: Path) -> None:
    trace = make_trace("mdm", 0)
    data = trace.data.drop_vars(["qk_dot", "qk_cos", "qk_norm", "key_norm", "query_norm"])
    type(trace)(data).save(tmp_path / "run" / "0")
    made = report_runs([tmp_path / "run"], tmp_path / "r.html")
    assert 'probe "qk"' in made.skipped["qk"]
    assert "qk" not in [one["id"] for one in Parts(made.path.read_text()).json("report")["sections"]]


# -- notebooks and the command line -----------------------------------------------------------------------------------


def test_explore_is_a_frame_that_can_reach_nothing_around_it() -> None:
    found = fl.explore(make_trace("mdm", 0))
    frame = Parts(found._repr_html_())
    given = {name: value for tag, name, value in frame.attributes if tag == "iframe"}
    assert given["sandbox"] == "allow-scripts allow-downloads"
    assert given["srcdoc"] == found.page
    assert html.escape(found.page) in found._repr_html_()
    assert repr(found).startswith("Explorer(moving-mdm: 1 of 1 traces, ")
    assert "plotly" not in re.sub(r"<style>.*?</style>", "", found.page, flags=re.S)[:2000]


def test_explore_takes_runs_and_saves(runs: list[Path], tmp_path: Path) -> None:
    found = fl.explore(runs, examples=2)
    assert repr(found).startswith("Explorer(moving-mdm, fixed-arm: 4 of 8 traces")
    assert found.save(tmp_path / "watch.html").read_text(encoding="utf-8") == found.page


def test_explore_of_nothing_is_an_error() -> None:
    with pytest.raises(fl.FloatlensError, match="no traces"):
        fl.explore([])


def test_the_command(single: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from floatlens.cli import main

    assert main(["report", str(single), "--out", str(tmp_path / "a.html"), "--examples", "1"]) == 0
    assert re.search(r"a\.html \(\d\.\d MB\); open it", capsys.readouterr().err)
    assert main(["report", str(tmp_path / "nothing")]) == 2
    assert "no such trace" in capsys.readouterr().err


# -- the joiner -------------------------------------------------------------------------------------------------------


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """`modules(a="…")`: the script made of these sources, starting at `a`."""

    def join(**sources: str) -> str:
        monkeypatch.setattr(bundle, "_read", lambda path: sources[path.removeprefix("js/").removesuffix(".js")])
        bundle.script.cache_clear()
        try:
            return bundle.script("a")
        finally:
            bundle.script.cache_clear()

    return join


def test_modules_become_functions_in_the_order_they_are_needed(modules: Callable[..., str]) -> None:
    made = modules(a='import { b } from "./b.js";\nb();', b="export function b() {}\nexport const c = 1;")
    assert made.index("const module_b = ") < made.index("const module_a = ")
    assert "const { b } = module_b;" in made
    assert "return { b, c };" in made
    assert "export" not in made


@pytest.mark.parametrize("source", ["export default 1;", 'import x from "./b.js";', "export { x };"])
def test_forms_the_joiner_does_not_know_are_errors(modules: Callable[..., str], source: str) -> None:
    with pytest.raises(ValueError, match="does not know"):
        modules(a=source, b="")


def test_circles_are_errors(modules: Callable[..., str]) -> None:
    with pytest.raises(ValueError, match="imports itself"):
        modules(a='import { b } from "./b.js";', b='import { a } from "./a.js";')


def test_scripts_and_styles_cannot_end_early() -> None:
    for content in (bundle.script("report"), bundle.script("alone"), bundle.styles("base", "explorer", "report")):
        assert not re.search("</(script|style)", content, re.I)
        assert "<!--" not in content
