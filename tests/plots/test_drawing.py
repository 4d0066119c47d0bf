"""`plot_x` draws what `x` returns and takes what `x` takes, into a figure of its own or into given axes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

import floatlens.plots as plots
from floatlens.analysis import ANALYSES, Result
from floatlens.core.errors import FloatlensError
from floatlens.traces import Trace


@pytest.mark.parametrize("name", ANALYSES)
def test_every_analysis_has_a_plot_of_its_result(name: str, real_results: dict[str, Result]) -> None:
    plot = getattr(plots, f"plot_{name}")
    more = {"model": real_results[name].models[0]} if name == "flow" else {}
    figure = plot(real_results[name], **more)
    assert isinstance(figure, Figure)
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_a_trace_several_and_a_folder_are_analysed(traced: Callable[..., Trace], tmp_path: Path) -> None:
    trace = traced("dream")
    trace.save(tmp_path / "run" / "traces" / "0")
    for of in (trace, [trace, traced("dream", 6)], tmp_path / "run", str(tmp_path / "run")):
        figure = plots.plot_absorption(of, rule="topk(2)")
        assert "topk(k=2)" in figure.texts[0].get_text()


def test_one_panel_goes_into_given_axes(result: Callable[..., Result]) -> None:
    found = result("absorption")
    own = Figure()
    axes = own.subplots()
    assert plots.plot_absorption(found, ax=axes, panel="floating") is own
    line = next(line for line in axes.lines if line.get_label() == "scale:llada")
    assert np.array_equal(line.get_ydata(), found.groups[0].estimate("absorbed").mean[1])
    assert axes.get_legend() is not None


def test_as_many_axes_as_panels(result: Callable[..., Result]) -> None:
    own = Figure()
    pair = own.subplots(1, 2)
    plots.plot_absorption(result("absorption"), ax=pair)
    assert [axes.get_title("left") for axes in pair] == ["Fixed sink: first position", "Floating: anchors of each step"]
    with pytest.raises(FloatlensError, match="1 axes for 2 panels; give as many, or panel= one of: fixed, floating"):
        plots.plot_absorption(result("absorption"), ax=pair[0])


def test_a_heatmap_goes_into_given_axes(in_regions: Callable[..., Trace]) -> None:
    own = Figure()
    axes = own.subplots()
    plots.plot_anchors(in_regions("dream"), 0, ax=axes)
    assert len(axes.images) == 1


def test_the_size_is_that_of_matplotlib(result: Callable[..., Result]) -> None:
    assert tuple(plots.plot_drift(result("drift"), figsize=(4, 3)).get_size_inches()) == (4, 3)


def test_wrong_results_panels_and_settings_are_refused(result: Callable[..., Result]) -> None:
    with pytest.raises(FloatlensError, match=r"a result of drift; the figure draws absorption"):
        plots.plot_absorption(result("drift"))
    with pytest.raises(FloatlensError, match='no panel "floting"; did you mean "floating"'):
        plots.plot_absorption(result("absorption"), panel="floting")
    with pytest.raises(FloatlensError, match="rule: settings of the analysis"):
        plots.plot_absorption(result("absorption"), rule="top1")
