"""Claims of the attention-floating paper as rules on a run (methods §12): effect, interval, n and a verdict.

    from floatlens.claims import claims
    for claim in claims("runs/a"): print(claim.subject, claim.verdict, claim.statement)

The rules, and the history of their changes, are in docs/claims.md. No torch, no figures.
"""

from floatlens.claims.claim import Claim, ClaimRule, Finding, claim, claims_frame, with_holm
from floatlens.claims.registry import CLAIMS, answer_claims, claims
from floatlens.claims.sentence import floating_sentence
from floatlens.claims.verdict import VERDICTS, Limit, Part, Verdict

__all__ = [
    "CLAIMS",
    "VERDICTS",
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
    "with_holm",
]
