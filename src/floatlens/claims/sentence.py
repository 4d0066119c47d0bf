"""The answer to "Does attention float?" in one sentence, from the verdicts on moving and on fixed anchors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from floatlens.claims.claim import STRONGEST, Claim

__all__ = ["floating_sentence"]

NOTHING = "Not known: drift and absorption of traces were not analysed in these runs."


def floating_sentence(found: Iterable[Claim], labels: Mapping[str, str] | None = None) -> str:
    """One sentence; `labels` are short names of models.
    Example: `floating_sentence(fl.claims("runs/demo"))`"""
    groups: dict[tuple[str, str], list[str]] = {}
    for one in found:
        if one.id in ("mdm-moves", "arm-fixed") and one.model is not None:
            weak = one.verdict == "not supported" and one.statistic == STRONGEST.name
            name = (labels or {}).get(one.model, one.model)
            groups.setdefault((one.id, "weak" if weak else one.verdict), []).append(name)
    said = [words.format(_names(groups[key])) for key, words in _WORDS.items() if key in groups]
    sentence = "; ".join(said)
    return f"{sentence[:1].upper()}{sentence[1:]}." if said else NOTHING


def _names(models: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(models[:-1]), models[-1]]))


_WORDS = {
    ("mdm-moves", "supported"): "yes in {}, whose anchors move from step to step",
    ("mdm-moves", "not supported"): "no in {}, whose anchors stay in place",
    ("mdm-moves", "weak"): "no in {}, where no key is an anchor",
    ("mdm-moves", "undecided"): "undecided in {}",
    ("arm-fixed", "supported"): "{} (autoregressive): a fixed anchor on the first position",
    ("arm-fixed", "not supported"): "{} (autoregressive): no fixed anchor on the first position",
    ("arm-fixed", "undecided"): "{} (autoregressive): undecided whether the anchor is fixed",
}
