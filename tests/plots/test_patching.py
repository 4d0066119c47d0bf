"""The figure of activation patching shows the numbers of its table."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import floatlens as fl
from floatlens.analysis.patching import patching_effects
from floatlens.plots import describe_figures
from floatlens.records import open_patching
from shared.patched import KINDS, LAYERS, make_patched


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    return patching_effects(open_patching(make_patched(tmp_path_factory.mktemp("runs") / "patched")))


def test_a_line_for_anchors_and_crosses_for_the_control(table: pd.DataFrame) -> None:
    drawn = describe_figures({"patching": table}, ["patching"]).figures["patching"]
    assert [panel.name for panel in drawn.panels] == ["kv", "residual"]
    for panel in drawn.panels:
        assert [(one.look.label, one.role) for one in panel.series] == [
            (model, role) for model in KINDS for role in ("", "mass")
        ]
        assert panel.reference == 0
        for one in panel.series:
            patched = "control" if one.role else "anchors"
            kept = (table["what"] == panel.name) & (table["model"] == one.look.label) & (table["patched"] == patched)
            assert one.x == LAYERS
            for name, values in {"effect": one.mean, "low": one.low, "high": one.high, "n": one.n}.items():
                assert list(values) == table[kept][name].tolist()
    assert drawn.note.startswith("n = 3–4 questions")


def test_data_sets_have_panels_of_their_own(table: pd.DataFrame) -> None:
    both = pd.concat([table, table.assign(data="places")])
    drawn = fl.plot_patching.describe(both)
    assert [panel.name for panel in drawn.panels] == ["people kv", "people residual", "places kv", "places residual"]
    assert drawn.panels[2].title == "places: Keys and values patched"


def test_it_is_drawn(table: pd.DataFrame, tmp_path: Path) -> None:
    figure = fl.plot_patching(table)
    assert len(figure.axes) == 2
    figure.savefig(tmp_path / "patching.png")
    assert (tmp_path / "patching.png").stat().st_size > 5000
