"""The promise on size and speed: four models × twelve questions with ten documents, under 15 MB, open in under 2 s."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import floatlens as fl
from floatlens.report import Made
from floatlens.runs.reporting import report_runs
from floatlens.subjects.scale import bundled, questions

pytestmark = pytest.mark.slow
QUESTIONS, DOCUMENTS = 12, 10


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The report of every scale model."""
    if len(bundled()) < 4:
        pytest.skip(f"the package has {len(bundled())} scale models, not four")
    root = tmp_path_factory.mktemp("whole")
    asked = questions("rag", QUESTIONS, documents=DOCUMENTS, gold=4, seed=11)
    for name in bundled():
        model = fl.load(f"scale:{name}")
        for number, one in enumerate(asked):
            given: dict[str, Any] = {"question": one.question, "documents": one.documents, "answers": one.answers}
            fl.trace(model, **given, gen_length=8).save(root / name / f"{number:02}")
    return report_runs([root / name for name in bundled()], root / "report.html", examples=QUESTIONS)


def test_it_is_small_and_holds_everything(whole: Made) -> None:
    assert whole.size < 15_000_000
    assert whole.path.read_text(encoding="utf-8").count('id="blob-view-') == 4 * QUESTIONS


@pytest.mark.browser
def test_it_opens_in_two_seconds(whole: Made, visit: Callable[..., Any], record_property: Any) -> None:
    if os.getloadavg()[0] > 2 * (os.cpu_count() or 1):
        pytest.skip(f"the machine is too busy to time anything: load {os.getloadavg()[0]:.1f}")
    taken = []
    for _ in range(3):
        began = time.monotonic()
        visit(Path(whole.path))
        taken.append(time.monotonic() - began)
    record_property("megabytes", whole.size / 1e6)
    record_property("seconds", min(taken))
    assert min(taken) < 2.0
