"""Claims of the attention-floating paper as rules on a run (methods §12): effect, interval, n and a verdict.

    from floatlens.claims import claims
    for claim in claims("runs/a"): print(claim.subject, claim.verdict, claim.statement)

The rules, and the history of their changes, are in docs/claims.md. No torch, no figures.
"""

from floatlens.claims.claim import Claim, ClaimRule, Finding, Limit, Part, Verdict, claim, claims_frame
from floatlens.claims.registry import CLAIMS, answer_claims, claims
from floatlens.claims.sentence import floating_sentence

__all__ = [
    "CLAIMS",
    "Claim",
    "ClaimRule",
    "Finding",
    "Limit",
    "Part",
    "Verdict",
    "answer_claims",
    "claim",
    "claims",
    "claims_frame",
    "floating_sentence",
]
