"""A run of patched questions, written by hand: effects follow from a rule, so means can be worked out again."""

from __future__ import annotations

import json
from pathlib import Path

from floatlens.records import Patched, PatchEffects, Record
from floatlens.records.store import FORMAT, write_records

LAYERS = (0, 1, 2)
QUESTIONS = 4
KINDS = {"moving-mdm": "mdm", "fixed-arm": "arm"}
HOW = Patched(what=("kv", "residual"), k=2, rows="answer", draws=3)


def effect(what: str, patched: str, layer: int, question: int) -> float:
    """Residual states do twice as much as keys and values, controls a quarter; more with depth and question."""
    return (2 if what == "residual" else 1) * (1 if patched == "anchors" else 0.25) * (0.1 * layer + 0.01 * question)


def patch_record(model: str, question: int, *, data: str = "people", defined: bool = True) -> Record:
    """One question; without an effect where both answers begin alike."""
    keys = ("anchors", "control")
    effects = {
        what: {one: tuple(effect(what, one, layer, question) for layer in LAYERS) for one in keys} for what in HOW.what
    }
    found = PatchEffects(
        answer="harp",
        tokens=(5, 7) if defined else (5, 5),
        original=2.0,
        counterfactual=-1.0,
        layers=LAYERS,
        effect=effects if defined else None,
        mass={"anchors": (0.5, 0.25, 0.25), "control": (0.5, 0.3, 0.2)},
        keys={"anchors": (2.0, 2.0, 2.0), "control": (9.0, 5.0, 4.0)},
    )
    where = {"model": model, "data": data, "condition": HOW, "id": f"q{question}", "index": question}
    return Record.model_validate({"what": "patch", "status": "done", **where, "patched": found})


def make_patched(folder: Path, *, data: str = "people", models: dict[str, str] = KINDS) -> Path:
    """Every model, every question; the last has no effect for the last model."""
    folder.mkdir(parents=True)
    manifest = {
        "format": FORMAT,
        "models": {ref: {"kind": kind, "layers": 3, "heads": 2} for ref, kind in models.items()},
        "data": {data: {"count": QUESTIONS, "column": data}},
        "template": "default@1",
        "patching": HOW.model_dump(mode="json"),
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    last = (list(models)[-1], QUESTIONS - 1)
    pairs = [(model, question) for model in models for question in range(QUESTIONS)]
    write_records(folder, [patch_record(*one, data=data, defined=one != last) for one in pairs])
    return folder
