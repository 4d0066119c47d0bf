"""The section on a changing collection, and its figure and terminal table, from answers made by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

import floatlens as fl
from floatlens.analysis.collection import collection_agreement, collection_rates
from floatlens.cli.study_views import collection_view
from floatlens.core.errors import FloatlensError
from floatlens.data.collection import open_collection
from floatlens.plots.registry import describe_figures
from floatlens.records.store import FORMAT, write_records
from floatlens.runs.reporting import report_runs
from shared.collection import make_frame, make_records, write_collection
from shared.parts import Parts


def test_the_section(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    facts = {"kind": "mdm", "layers": 3, "heads": 2, "ask": {}}
    manifest = {"format": FORMAT, "models": {"a-model": facts}, "data": {"people": {"count": 4, "column": "people"}}}
    (run / "manifest.json").write_text(json.dumps(manifest | {"template": "default@1"}))
    write_records(run, make_records(open_collection(write_collection(tmp_path)[0])))
    page = Parts(report_runs([run], tmp_path / "r.html").path.read_text(encoding="utf-8"))
    table = page.table("collection-rates")
    rows = [dict(zip(table["names"], row, strict=True)) for row in zip(*table["columns"], strict=True)]
    stale = {row["date"]: row["mean"] for row in rows if row["rate"] == "stale"}
    assert stale["2022-01-01"] == 1
    assert stale["all"] == pytest.approx(0.75)
    assert page.table("collection-agreement")["columns"][4] == [8, 4, 4]


def test_the_figure_and_the_terminal(tmp_path: Path) -> None:
    frame = make_frame(tmp_path)
    rates = collection_rates(frame)
    (figure,) = describe_figures({"collection": rates}, ["collection"]).figures.values()
    assert [panel.name for panel in figure.panels] == ["accuracy", "stale", "withdrawn", "recall"]
    ticks = figure.panels[0].x.ticks
    assert ticks is not None
    assert [words for _, words in ticks] == ["2020", "2021", "2022", "2023"]
    assert figure.panels[0].series[0].mean == pytest.approx((1, 3 / 4, 2 / 3, 1 / 2))
    with pytest.raises(FloatlensError, match="no answers at snapshots"):
        fl.plot_collection(rates.iloc[:0])
    console = Console(width=100, record=True, file=(tmp_path / "out").open("w"))
    tables = {"collection": rates, "collection_agreement": collection_agreement(frame)}
    console.print(collection_view(tables, ["a-model"], 100))
    shown = console.export_text()
    assert "stale answers" in shown
    assert "75.0" in shown
    assert "same answer where nothing relevant changed" in shown
    assert "45.8" in shown
