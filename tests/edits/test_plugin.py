"""An edit of another package: one file, written by name with settings, run, and reported in the trace."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import floatlens as fl
from floatlens.core.errors import FloatlensError
from floatlens.edits import EDITS, parse_edit
from floatlens.models import LanguageModel
from floatlens.models.facts import look

SOURCE = """
from floatlens.attention.setting import read_number, read_word
from floatlens.edits import Edit, Setting


class Sharpen(Edit):
    title = "Attention sharpened"
    about = "all logits are multiplied by a factor"
    settings = (Setting("factor", read_number, 2.0, about="above 1 sharpens"), Setting("mode", read_word))
    edits_logits = True

    def __init__(self, factor=2.0, mode="all"):
        self.factor, self.mode = factor, mode

    def logits(self, site, logits):
        return logits * self.factor
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    info = tmp_path / "sharp-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sharp\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[floatlens.edits]\nsharpen = sharp_edit:Sharpen\n")
    (tmp_path / "sharp_edit.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    vars(EDITS).pop("_foreign", None)
    yield tmp_path
    vars(EDITS).pop("_foreign", None)
    EDITS._loaded.pop("sharpen", None)
    sys.modules.pop("sharp_edit", None)


def test_one_file_adds_an_edit(package: Path, tiny_model: Callable[[str], LanguageModel]) -> None:
    assert [path.name for path in package.glob("*.py")] == ["sharp_edit.py"]
    specs = parse_edit("sharpen:factor=1,3:on=0-1:steps=1")
    assert [spec.label for spec in specs] == ["sharpen factor=1 on=0-1 steps=1", "sharpen factor=3 on=0-1 steps=1"]
    assert [spec.settings[0][1] for spec in specs] == [1.0, 3.0]
    assert parse_edit("sharpen")[0].settings == (("factor", 2.0),)
    assert (specs[0].controls, specs[0].waits_for_traces, specs[0].earliest_step) == ((), False, 1)
    specs[1].check(look("scale:qwen"), "--edit")
    with pytest.raises(FloatlensError, match=r"--edit sharpen on=0-12 factor=2: layer 8 is outside 0\.\.7"):
        parse_edit("sharpen:on=0-12")[0].check(look("scale:qwen"), "--edit")
    with pytest.raises(FloatlensError, match='sharpen has no setting "n"; its settings: factor, mode, steps, on'):
        parse_edit("sharpen:n=1")
    how = {"prompt_ids": [5, 9, 12], "gen_length": 3, "probes": ["entropy"]}
    plain = fl.trace(tiny_model("llada"), **how)  # type: ignore[arg-type]
    same, sharp = (fl.trace(tiny_model("llada"), **how, edits=[spec.build()]) for spec in specs)  # type: ignore[arg-type]
    assert sharp.data.attrs["edits"] == ["Sharpen(factor=3.0, mode='all')"]
    assert np.allclose(same.data["entropy"], plain.data["entropy"], atol=1e-5)
    assert np.allclose(sharp.data["entropy"][0], plain.data["entropy"][0], atol=1e-5)  # step 0 is not edited
    assert (sharp.data["entropy"][1, 0] < plain.data["entropy"][1, 0]).all()


def test_settings_and_words_of_every_edit() -> None:
    for name, edit in EDITS.items():
        assert edit.title, name
        assert edit.about, name
        assert all(setting.about for setting in edit.settings), name
        for kind in edit.controls:
            assert parse_edit(name)[0].build().control(0, kind) is not None, (name, kind)
