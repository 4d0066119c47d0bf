"""Error rates of the claims: runs with a known truth (`worlds`), judged by the rules as they are (`rates`)."""
