"""What is added through a registry needs no further code: it is drawn, written and shown in the report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import xarray as xr

from floatlens.analysis import ANALYSES, Words, analysis
from floatlens.plots import FIGURES, Axis, Figure, FigureType, Panel
from floatlens.plots.style import depth_series, note
from floatlens.report import Inputs, report
from floatlens.report.answer_sections import SECTIONS, AnswerSection, Content
from floatlens.report.subjects import look, opened
from floatlens.runs.outputs import publish_traces
from floatlens.runs.reporting import report_runs
from floatlens.traces import Trace, open_trace
from shared.answering import make_answers
from shared.parts import Parts
from shared.reported import make_trace


@analysis("my_peak", requires=("received",), words=Words("Peaks", "How much does one token receive?", "Look up."))
def my_peak(trace: Trace) -> xr.Dataset:
    """The largest share of received attention, by layer."""
    return xr.Dataset({"peak": trace.data["received"].mean("head").max("key").mean("step")})


def _figure(data: Mapping[str, Any]) -> Figure:
    result = data["my_peak"]
    panel = Panel("peak", "", Axis("layer"), Axis("largest share"), depth_series(result, "peak"))
    return Figure("Peaks by layer", (panel,), note(result))


@pytest.fixture
def added() -> Iterator[None]:
    ANALYSES.add("my_peak", my_peak)
    FIGURES.add("my_peaks", FigureType(("my_peak",), _figure))
    yield
    FIGURES.remove("my_peaks")
    ANALYSES.remove("my_peak")


@pytest.mark.usefixtures("added")
def test_an_analysis_with_a_figure_is_drawn_and_gets_a_section(tmp_path: Path) -> None:
    make_trace("mdm", 0).save(tmp_path / "run" / "traces" / "0")
    wrote = publish_traces([tmp_path / "run"], tmp_path / "out", formats=["png"])
    assert {"my_peaks.png", "my_peak.csv"} <= {file.name for file in wrote.files}
    page = Parts(report_runs([tmp_path / "run"], tmp_path / "r.html").path.read_text(encoding="utf-8"))
    section = next(one for one in page.json("report")["sections"] if one["id"] == "my_peak")
    assert (section["title"], section["short"]) == ("Peaks: how much does one token receive?", "Peaks")
    (figure,) = section["figures"]
    assert figure["id"] == "my_peaks"
    group = wrote.results["my_peak"].group("moving-mdm")
    assert figure["panels"][0]["series"][0]["mean"] == pytest.approx(group.estimate("peak").mean)


@pytest.fixture
def own_section() -> Iterator[None]:
    def content(own: object, run: object) -> Content:
        return Content({}, [], [("mine", "what I measure")])

    made = AnswerSection("rag", "Mine", "Mine: a section", "Read it.", "Measured.", lambda frame: frame, content)
    SECTIONS.add("mine", made)
    yield
    SECTIONS.remove("mine")


@pytest.mark.usefixtures("own_section")
def test_a_section_on_answers_is_shown(tmp_path: Path) -> None:
    page = report_runs([make_answers(tmp_path / "qa", "qa")], tmp_path / "r.html").path.read_text(encoding="utf-8")
    sections = {one["id"]: one for one in Parts(page).json("report")["sections"]}
    assert sections["mine"]["definition"]["terms"] == [["mine", "what I measure"]]
    assert 'href="#mine">Mine</a>' in page


def test_traces_whose_analysis_gave_nothing_are_reported_all_the_same(tmp_path: Path) -> None:
    """A study may ask for one analysis only, and its traces may lack what that needs."""
    file = make_trace("mdm", 0).save(tmp_path / "run" / "traces" / "0")
    seen = look(opened(open_trace(file)), file, None)
    page = Parts(report(Inputs(traces=[seen], skipped={"drift": "why"}), tmp_path / "r.html").path.read_text("utf-8"))
    (model,) = page.json("report")["models"]
    assert (model["kind"], model["n"]) == ("mdm", 0)
