"""Words of the report: the title of each section, how its figure is read, and what rules mean. Nothing is measured."""

from __future__ import annotations

from floatlens.analysis.rules import as_rule

__all__ = ["ANSWERS", "READING", "rule_words"]

READING: dict[str, tuple[str, str]] = {
    "drift": (
        "Drift: do anchors stay where they are?",
        "Anchors are the tokens that receive far more attention than the rest. A line near 1 in the first panel "
        "means that one step has the same anchors as the step before; lower means that they come and go. The "
        "slope says where the strongest token goes: above 0 it moves to the right, towards what is being written. "
        "A short lifetime with an entropy near 1 means that nothing stands out enough to be called an anchor.",
    ),
    "absorption": (
        "Absorption: how much attention do anchors take?",
        "The percentage of all attention that lands on the first position (left) and on the anchors of each step "
        "(right), layer by layer. Thin dotted lines are what the same positions would get if attention were "
        "spread evenly: under a causal mask early tokens get more for nothing, so compare a line with its own "
        "dotted one before you compare two models.",
    ),
    "qk": (
        "Queries and keys: why do anchors win?",
        "Attention follows from q·k, and q·k from the length of a key and from its direction. Each line is the "
        "advantage of anchors over other tokens, split exactly into these two parts: above 0 the part helps. Long "
        "keys win over every query alike; direction wins where query and key fit.",
    ),
    "token_classes": (
        "Token classes: structure or content?",
        "Bars show what kinds of tokens the anchors are and where attention goes, beside what the text is made of "
        "(the last bar). A class that fills more of a layer's bar than of the last one is preferred there. The "
        "lines say the same as a ratio for structure (special tokens, punctuation, function words) and content "
        "(names, numbers, other words): above 1 is more than by chance.",
    ),
    "retrieval_heads": (
        "Retrieval heads: who copies the answer?",
        "Each cell is a head: how much of the evidence it copied, that is, how often its largest weight lay on "
        "the very token being written. Strong colours are retrieval heads. The line sums them up by depth: a rise "
        "to the right means that copying happens late in the network.",
    ),
    "flow": (
        "Region flow: where does the answer come from?",
        "Each row says where a region's information comes from after all layers, summed over paths (rollout); "
        "rows sum to 1, and colours end at the largest share of a document. Regions are the first token (bos), the "
        "question (query), the documents, the answer, and the text of the template around them (other). The framed "
        "column is the gold document. Below, the answer's row as one number: how much more comes from the gold "
        "document than from the others, divided by what even attention would give. Above 1 the model "
        "prefers gold; flat lines mean that it does so wherever gold stands.",
    ),
    "extremes": (
        "Extreme tokens: are anchors drains?",
        "In autoregressive models a sink often has a tiny value (below 1 in the first panel), so that attention "
        "on it does nothing, and a huge residual state (far above 1 in the second). Dormant heads give most of "
        "their attention to anchors and so do little else.",
    ),
    "qa": (
        "Answers: what do documents gain?",
        "Each line goes from a model's accuracy without documents (closed book) to its accuracy with them (RAG, "
        "retrieval-augmented generation), on the same questions. The steeper it is, the more the model makes of "
        "what it is given; bars are intervals over questions.",
    ),
    "stress": (
        "Stress tests: what do models bear?",
        "Each line is a model's accuracy as one thing gets worse: noise among the documents, the place of the gold "
        "document, documents that mislead, their order. A flat line bears it; a line that falls does not. The height "
        "at which a line starts says how good the model is, its slope how robust.",
    ),
    "intervene": (
        "Interventions: does attention matter?",
        "Attention is changed while the model writes, and its answers are compared with its own unchanged ones: "
        "below 0 the edit costs answers. Crosses are the same edit at random places, so only what lies below its "
        "cross is due to the anchors. The second figure shows how far the first written token is moved, answers "
        "aside: 0 is not at all.",
    ),
}
"""By analysis or kind of run, in the order of the report. Others are shown after these, under their name."""

ANSWERS: dict[str, str] = {
    "qa": "Accuracy: an accepted answer is part of what the model said, both normalised. F1: over bags of words. A "
    "gain is the score with documents less the score closed book, on the questions that were answered in both.",
    "stress": "Every point is the accuracy on the same questions after one seeded transformation. Robustness is the "
    "area under a curve over the width of its axis (the plain mean where the axis has no scale), divided by the "
    "accuracy with the gold documents alone (masks: by that at the fewest masks).",
    "intervene": "Every question is answered plain, under each edit, and under the edit's matched random control. "
    "Differences are from plain, on the same questions. The divergence is that (Kullback-Leibler) of the first "
    "distribution which the edit can reach.",
}
"""By kind of run: what is measured."""

_RULES = {
    "zscore": "tokens that receive more than the mean + {} standard deviations, over all tokens there are",
    "rulli": "tokens whose attention, summed over queries, is more than the mean of the others + {}",
    "gu": "tokens that receive more than {} on average from the queries that see them, in some head",
    "topk": "the {} tokens that receive most",
    "top1": "the one token that receives most",
}


def rule_words(rule: str) -> str:
    """What an anchor rule says, in a sentence: `rule_words("zscore")`."""
    found = as_rule(rule)
    return _RULES[found.name].format(f"{found.value:g}") + (", or else the one that receives most" * found.or_top1)
