"""Claims of the attention-floating paper as tests on a run (methods §12): effect, interval, n and an honest verdict.

    from floatlens.claims import claims
    for claim in claims("runs/a"): print(claim.subject, claim.verdict, claim.statement)

The rules, and the history of their changes, stand in docs/claims.md. No torch, no figures.
"""

from floatlens.claims.answers import answer_claims
from floatlens.claims.claim import CLAIMS, Claim, Part, Verdict, claims_frame
from floatlens.claims.edits import edit_claims
from floatlens.claims.rules import MARGINS
from floatlens.claims.runs import claims

__all__ = ["CLAIMS", "MARGINS", "Claim", "Part", "Verdict", "answer_claims", "claims", "claims_frame", "edit_claims"]
