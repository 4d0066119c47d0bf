"""Error rates of the claims: judges runs with a known truth by the rules as they are, and writes docs/claims.

    .venv/bin/python docs/claims.py                 # every claim, 8, 32 and 128 steps, 20, 50 and 100 questions
    .venv/bin/python docs/claims.py --studies 100   # quicker, and coarser

`docs/claims/error-rates.md` has one row for each claim: the largest rate of false verdicts of both sorts, and how often
a true claim is found. `docs/claims/error-rates.csv` has every world, number of steps and number of questions. About ten
minutes on a quiet core; seeded.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from floatlens.cli.terminal import say
from floatlens_lab.claims.rates import LIMIT, all_rates, summary

HERE = Path(__file__).parent
STEPS, COUNTS = (8, 32, 128), (20, 50, 100)


def main() -> None:
    parser = argparse.ArgumentParser(description="Error rates of the claims, by simulation.")
    parser.add_argument(
        "--studies",
        type=int,
        default=400,
        help="studies for each world, steps and questions; fewer where a study takes long",
    )
    parser.add_argument("--pool", type=int, default=40, help="traces of each world that studies draw from")
    parser.add_argument("--out", type=Path, default=HERE / "claims", help="folder of the tables")
    given = parser.parse_args()
    began = time.monotonic()
    found = all_rates(STEPS, COUNTS, given.studies, given.pool, say)
    given.out.mkdir(parents=True, exist_ok=True)
    found.to_csv(given.out / "error-rates.csv", index=False, float_format="%.4g")
    text = summary(found)
    about = (
        "# Error rates of the claims\n\nWritten by "
        f"`python docs/claims.py --studies {given.studies} --pool {given.pool}` (seeded). "
        f"Limit for false verdicts of each sort: {100 * LIMIT:g} %.\n\n"
    )
    (given.out / "error-rates.md").write_text(about + text + "\n", encoding="utf-8")
    say(text)
    say(f"{time.monotonic() - began:.0f} s; {given.out / 'error-rates.md'}")


if __name__ == "__main__":
    main()
