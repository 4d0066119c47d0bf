"""Every public name has a docstring with an example, and every example runs as it is printed.

An example is "Example: `code`" or a doctest. What examples use (`model`, `trace`, `traces`, runs under `runs/`) is made
here, from the scale models.
"""

from __future__ import annotations

import doctest
import inspect
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import floatlens as fl
from floatlens.models.course import Course
from shared.cached import make_cached
from shared.collection import make_frame

EXAMPLE = re.compile(r"Example: ((?:`[^`]+`(?:, )?)+)", re.DOTALL)
FUNCTIONS = [name for name in fl.__all__ if inspect.isfunction(getattr(fl, name))]
CLASSES = [name for name in fl.__all__ if inspect.isclass(getattr(fl, name))]
NOT_RUN = {
    "adapt": "it needs a corpus and trains for hours",
    "run": "a run with a report takes minutes; the examples of runs use one made here",
}
PROBES = ["received", "entropy", "flow", "extremes", "answer_rows", "rollout"]
STUDY = {
    "models": ["scale:llada", "scale:qwen"],
    "data": [
        {"ref": "scale:rag:documents=4", "limit": 4, "conditions": ["closed", "rag", "noise", "drop_anchors:k=1"]}
    ],
    "decoding": {"settings": {"gen_length": 4}},
    "traces": {"questions": 2, "probes": [*PROBES, "qk"]},
    "output": {"figures": [], "report": False},
    "machine": {"workers": 1},
}


def examples(name: str) -> list[str]:
    text = inspect.getdoc(getattr(fl, name)) or ""
    return [code for found in EXAMPLE.findall(text) for code in re.findall(r"`([^`]+)`", found)]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small run under each of the names that examples use."""
    root = tmp_path_factory.mktemp("examples")
    fl.run({**STUDY, "name": "docs"}, out=root / "runs" / "demo")
    for name in ("a", "llada", "qwen", "qa"):
        (root / "runs" / name).symlink_to("demo")
    for step in (0, 25):
        model = replace(fl.load("scale:llada"), ref=f"twin, step {step}", course=Course("twin", step))
        made = fl.trace(model, question="Where?", documents=["Here.", "There."], gen_length=2, probes=["received"])
        made.save(root / "runs" / "evolution" / f"step{step}")
    return root


@pytest.fixture
def names(home: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What an example may use without making it."""
    from floatlens.adaptation import Recipe
    from floatlens.analysis.cache_schedule import cache_schedules
    from floatlens.analysis.collection import collection_rates
    from floatlens.analysis.effects import edit_effects
    from floatlens.analysis.scores import gains
    from floatlens.analysis.stress import curves
    from floatlens.prompts import build
    from floatlens.records.store import open_answers
    from floatlens.report.inputs import Inputs
    from floatlens.subjects.scale import questions

    monkeypatch.chdir(home)
    model = fl.load("scale:llada")
    example = questions("rag", 1, documents=3, gold=1)[0]
    given: dict[str, Any] = {"documents": example.documents, "answers": example.answers, "gen_length": 4}
    maps = fl.probes.QK(heatmaps=fl.Select(layers=[3], heads=[1], steps=[-1]))
    trace = fl.trace(model, question=example.question, probes=[*PROBES, maps], **given)
    trace.save("ann")
    prompt = build(model.tokenizer, question=example.question, documents=example.documents)
    return {name: getattr(fl, name) for name in fl.__all__} | {
        "fl": fl,
        "model": model,
        "torch": torch,
        "ids": list(prompt.ids),
        "prompt": prompt,
        "trace": trace,
        "traces": [trace],
        "answers": open_answers(home / "runs" / "demo")[0],
        "DropAnchors": fl.edits.DropAnchors,
        "Inputs": Inputs,
        "Recipe": Recipe,
        "curves": curves,
        "rates": collection_rates(make_frame(home)),
        "gains": gains,
        "schedules": cache_schedules(make_cached()),
        "edit_effects": edit_effects,
    }


@pytest.mark.parametrize("name", [*FUNCTIONS, *CLASSES])
def test_public_names_have_a_docstring_and_functions_an_example(name: str) -> None:
    text = inspect.getdoc(getattr(fl, name)) or ""
    assert text, f"{name} has no docstring"
    assert name in CLASSES or examples(name) or ">>>" in text


@pytest.mark.parametrize("name", [*FUNCTIONS, *CLASSES])
def test_examples_run(name: str, request: pytest.FixtureRequest) -> None:
    found = getattr(fl, name)
    codes = [(code, compile(code, name, "exec")) for code in examples(name)]
    if name in NOT_RUN:
        pytest.skip(NOT_RUN[name])
    given = request.getfixturevalue("names") if codes or ">>>" in (found.__doc__ or "") else {}
    for _, code in codes:
        exec(code, dict(given))
    for test in doctest.DocTestFinder(recurse=False).find(found, name, globs=dict(given)):
        assert doctest.DocTestRunner(verbose=False).run(test).failed == 0
