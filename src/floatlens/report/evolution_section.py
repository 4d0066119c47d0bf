"""The section on training: what becomes of attention over the snapshots of a course. Other runs have none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from floatlens.analysis import Result
from floatlens.analysis.evolution import course_steps, evolution_frame
from floatlens.report.sections import figures_of, table

__all__ = ["evolution_sections"]

_READING = (
    "Each column of a map is one snapshot of the model in training, each row a layer; colour is the percentage of all "
    "attention that lands on the first position (left) and on the strongest key of each step (right). Below, the same "
    "as lines: the mean over layers and four layers from the first to the last. The model that the course started "
    "from is set apart on the left; where it is causal and the snapshots are bidirectional, step 0 is the same "
    "weights under the new mask, so what differs between these two is due to the mask alone, and what differs from "
    "step 0 onwards is due to training. Compare a line with its dotted line, what uniform attention would give: under "
    "a causal mask the first position gets more of that too. A sink that is lost in training falls towards the dotted "
    "line on the left; attention that floats instead stays high on the right."
)
_METHOD = (
    "Snapshots are analysed one by one, on the same questions, with the definitions of each analysis. Verdicts, "
    "headline numbers and the other figures take the last snapshot of a course as the model; all snapshots are in the "
    "tables."
)


def evolution_sections(results: Mapping[str, Result]) -> list[dict[str, Any]]:
    """The section, if some course has at least two steps."""
    frame = evolution_frame(results)
    if frame is None:
        return []
    used = []
    for result in results.values():
        steps = course_steps(result)
        used += [(f"course {name}", f"{count} snapshots") for name, count in steps.items()]
    return [
        {
            "id": "evolution",
            "title": "Evolution: what becomes of the sink in training?",
            "short": "Evolution",
            "reading": _READING,
            "figures": figures_of("evolution", results),
            "tables": [{"id": "evolution", "title": "The numbers", "open": False, "table": table(frame)}],
            "definition": {
                "summary": _METHOD,
                "terms": [
                    ("course", "Snapshots of one model at several training steps."),
                    ("training_step", "Steps trained so far; empty for the model that the course started from."),
                    ("tokens", "Tokens trained on so far, where that is known."),
                    ("layer", "Empty for the mean over layers, taken within each trace."),
                ],
                "used": list(dict.fromkeys(used)),
            },
        }
    ]
