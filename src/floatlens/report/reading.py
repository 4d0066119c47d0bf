"""Words of the report: the title of each section, and how its figure is read. Nothing here is measured."""

from __future__ import annotations

__all__ = ["READING"]

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
        "rows sum to 1, and colours end at the largest share of a document. The framed column is the gold "
        "document. Below, the answer's row as one number: how much more comes from the gold document than from "
        "the others, divided by what even attention would give. Above 1 the model prefers gold; flat lines mean "
        "that it does so wherever gold stands.",
    ),
    "extremes": (
        "Extreme tokens: are anchors drains?",
        "In autoregressive models a sink often has a tiny value (below 1 in the first panel), so that attention "
        "on it does nothing, and a huge residual state (far above 1 in the second). Dormant heads give most of "
        "their attention to anchors and so do little else.",
    ),
}
"""By analysis, in the order of the report. Others are shown after these, under their name."""
