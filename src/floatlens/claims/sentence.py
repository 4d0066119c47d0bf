"""The answer to "Does attention float?" in one sentence, from the verdicts on moving and on fixed anchors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from floatlens.claims.claim import Claim
from floatlens.claims.verdict import Verdict

__all__ = ["floating_sentence"]

NOTHING = "Not known: drift and absorption of traces were not analysed in these runs."
FIXED = "arm-fixed"
MOVES = {"mdm-moves": "", "mdm-moves (answer rows)": "on answer rows ", "mdm-moves (all rows)": "on all rows "}
"""The claims about moving anchors, and how the sentence names their rows where these differ."""
_Outcome = tuple[Verdict, str]


def floating_sentence(found: Iterable[Claim], labels: Mapping[str, str] | None = None) -> str:
    """One sentence; `labels` are short names of models.
    Example: `floating_sentence(fl.claims("runs/demo"))`"""
    moves: dict[str, dict[str, _Outcome]] = {}
    fixed: dict[Verdict, list[str]] = {}
    for one in found:
        name = (labels or {}).get(one.model or "", one.model or "")
        if one.id in MOVES and one.model is not None:
            moves.setdefault(name, {})[one.id] = _outcome(one)
        elif one.id == FIXED and one.model is not None:
            fixed.setdefault(one.verdict, []).append(name)
    said = _moving(moves)
    said += [words.format(_names(fixed[verdict])) for verdict, words in _FIXED.items() if verdict in fixed]
    sentence = "; ".join(said)
    return f"{sentence[:1].upper()}{sentence[1:]}." if said else NOTHING


def _outcome(one: Claim) -> _Outcome:
    """The verdict, and what holds instead where the claim is contradicted."""
    part = one.deciding
    return one.verdict, part.otherwise if part is not None and one.verdict == "contradicted" else ""


def _moving(moves: Mapping[str, Mapping[str, _Outcome]]) -> list[str]:
    """A clause for each outcome. Rows are named only for models whose outcome depends on them."""
    clauses: dict[tuple[str, _Outcome], list[str]] = {}
    for name, outcomes in moves.items():
        for id, outcome in outcomes.items():
            rows = "" if len(outcomes) == len(MOVES) - 1 and len(set(outcomes.values())) == 1 else MOVES[id]
            models = clauses.setdefault((rows, outcome), [])
            models += [name] if name not in models else []
    order = list(_MOVES)
    ordered = sorted(clauses, key=lambda key: ([*MOVES.values()].index(key[0]), order.index(key[1][0])))
    return [_clause(rows, outcome, clauses[rows, outcome]) for rows, outcome in ordered]


def _clause(rows: str, outcome: _Outcome, models: Sequence[str]) -> str:
    verdict, otherwise = outcome
    return f"{rows}{_MOVES[verdict].format(_names(models))}{f', where {otherwise}' if otherwise else ''}"


def _names(models: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(models[:-1]), models[-1]]))


_MOVES: dict[Verdict, str] = {
    "supported": "yes in {}, whose anchors move",
    "contradicted": "no in {}",
    "too small": "less than claimed in {}",
    "undecided": "undecided in {}",
}
_FIXED: dict[Verdict, str] = {
    "supported": "{} (autoregressive): a fixed anchor on the first position",
    "contradicted": "{} (autoregressive): no fixed anchor on the first position",
    "too small": "{} (autoregressive): an anchor on the first position that is weaker or less fixed than claimed",
    "undecided": "{} (autoregressive): undecided whether the anchor is fixed",
}
