"""Activation patching in a study: which questions each model is patched on, and with which answer instead of theirs.

Found when the study is planned, with the tokenizers alone. A question without a counterfactual prompt of the same
length is left out, and counted in a note.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from floatlens.evaluation.counterfactuals import NoCounterfactualError, find_counterfactual
from floatlens.models.facts import tokenizer_of
from floatlens.records.condition import Patched

if TYPE_CHECKING:
    from floatlens.data import Example
    from floatlens.runs.items import PlannedData
    from floatlens.runs.models import PlannedModel
    from floatlens.runs.study import Study

__all__ = ["patched_condition", "with_counterfactuals"]

Say = Callable[[str], Any]


def patched_condition(study: Study) -> Patched:
    """The settings of a study as a condition; draws and their seed are those of other controls unless given."""
    given = study.patching
    draws = study.control_draws if given.draws is None else given.draws
    return Patched(what=given.what, k=given.k, rows=given.rows, draws=draws, seed=study.seeds.controls)


def with_counterfactuals(
    data: Sequence[PlannedData], models: Sequence[PlannedModel], say: Say
) -> tuple[PlannedData, ...]:
    """The data sets with a counterfactual answer for each question to patch; `say` is told how many have none."""
    if not any(part.patched for part in data):
        return tuple(data)
    tokenizers = {one.ref: tokenizer_of(one.config.ref, one.config.family, one.config.revision) for one in models}
    return tuple(
        replace(part, counterfactuals=_chosen(part, models, tokenizers, say)) if part.patched else part for part in data
    )


def _chosen(
    part: PlannedData, models: Sequence[PlannedModel], tokenizers: Mapping[str, Any], say: Say
) -> dict[str, dict[str, str]]:
    """For each model, the answer that takes the place of the own one, by question."""
    assert part.patch is not None
    answers = list(dict.fromkeys(answer for example in part.data.examples() for answer in example.answers))
    asked = [part.patch.make(example) for example in islice(part.data.examples(), part.patched)]
    found: dict[str, dict[str, str]] = {}
    notes: dict[str, list[str]] = {}
    for model in models:
        reasons: dict[str, str] = {}
        found[model.ref] = _of_model(model, tokenizers[model.ref], asked, answers, reasons)
        if reasons:
            id, reason = next(iter(reasons.items()))
            text = f"{len(reasons)} of {len(asked)} questions of {part.data.name} skipped: no counterfactual prompt "
            text += f"of the same length (question {id}: {reason})"
            notes.setdefault(text, []).append(model.ref)
    for text, refs in notes.items():
        say(f"patching: {text}" if len(refs) == len(models) else f"patching, {', '.join(refs)}: {text}")
    return found


def _of_model(
    model: PlannedModel, tokenizer: Any, asked: Sequence[Example], answers: Sequence[str], reasons: dict[str, str]
) -> dict[str, str]:
    """`reasons` gets the questions that have none."""
    context, written = model.facts.context, int(model.ask.decoding.settings["gen_length"])
    fitting = None if context is None else context - written
    found: dict[str, str] = {}
    for example in asked:
        try:
            found[example.id] = find_counterfactual(tokenizer, example, answers, model.ask.prompt, fitting)
        except NoCounterfactualError as error:
            reasons[example.id] = str(error)
    return found
