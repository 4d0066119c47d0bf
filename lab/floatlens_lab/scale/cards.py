"""Model cards beside the weights: `card.json` for programs and `README.md` for readers, both from what was measured."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from floatlens.core.errors import FloatlensError
from floatlens.models.names import is_registered_form, resolve_name
from floatlens.subjects.scale.world import WORLD_VERSION
from floatlens_lab.scale.blueprints import blueprint
from floatlens_lab.scale.evaluation import DECODING, Summary
from floatlens_lab.scale.recipe import RECIPE, Recipe
from floatlens_lab.scale.training import read_log

if TYPE_CHECKING:
    from floatlens.models import LanguageModel

__all__ = ["AIMS", "CHECKED", "read_card", "write_card"]

AIMS = {"rag": (0.95, 1.0), "two-hop": (0.70, 1.0), "closed-known": (0.15, 0.80)}
"""Accuracy that was aimed at before training, from and to; a card says for each whether it was reached. Closed book
there is an upper end as well, so documents have something to add."""

CHECKED = 40
"""How many questions of each set a card lists one by one, so a test can ask them again."""


def read_card(folder: Path) -> dict[str, Any]:
    """The card of a folder; empty where there is none."""
    path = folder / "card.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return found


def write_card(model: LanguageModel, summaries: Sequence[Summary], seed: int, recipe: Recipe = RECIPE) -> Path:
    """Write both files into the model's folder; results of sets that were not evaluated now are kept."""
    folder = resolve_name(model.ref) if is_registered_form(model.ref) else Path(model.ref)
    plan = blueprint(folder.name)
    log = read_log(folder)
    if not log:
        raise FloatlensError(f"{folder}: no training log in it, so there is nothing to write a card from")
    before = read_card(folder).get("results", {})
    card: dict[str, Any] = {
        "model": plan.name,
        "about": plan.about,
        "kind": plan.kind,
        "shifted_logits": plan.shift,
        "adapted_from": plan.base,
        "parameters": sum(parameter.numel() for parameter in model.module.parameters()),
        "layers": model.num_layers,
        "heads": model.num_heads,
        "kv_heads": model.num_kv_heads,
        "world": WORLD_VERSION,
        "training": {key: log[-1][key] for key in ("step", "tokens", "seconds")},
        "recipe": recipe.model_dump(mode="json"),
        "recipe_digest": recipe.digest,
        "decoding": DECODING,
        "question_seed": seed,
        "results": {**before, **{summary.which: _result(summary) for summary in summaries}},
    }
    (folder / "card.json").write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
    (folder / "README.md").write_text(render_card(card), encoding="utf-8")
    return folder


def _result(summary: Summary) -> dict[str, Any]:
    wrong = [i for i, outcome in enumerate(summary.outcomes[:CHECKED]) if not outcome.right]
    return {**summary.to_json(), "checked": min(CHECKED, summary.asked), "checked_wrong": wrong}


def render_card(card: dict[str, Any]) -> str:
    """The card as Markdown."""
    from jinja2 import Environment, StrictUndefined

    source = (resources.files("floatlens_lab.scale") / "card.md.jinja").read_text(encoding="utf-8")
    environment = Environment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    return environment.from_string(source).render(card=card, aims=AIMS)
