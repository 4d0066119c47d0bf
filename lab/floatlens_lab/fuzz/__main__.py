"""`python -m floatlens_lab.fuzz`: every subject, or those with a count; exit code 1 where anything failed."""

from __future__ import annotations

import argparse
import sys

from floatlens_lab.fuzz.runner import FAILURES, Findings, fuzz
from floatlens_lab.fuzz.subject import SUBJECTS

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Run the fuzzer; returns the exit code."""
    parser = argparse.ArgumentParser(prog="make fuzz", description="Read damaged inputs, count outcomes.")
    parser.add_argument("--seed", type=int, default=0, help="another seed makes other cases")
    parser.add_argument("--first", type=int, default=0, help="the first case (to bring back a failure)")
    parser.add_argument("--only", action="store_true", help="leave out subjects without a count")
    for name in SUBJECTS:
        parser.add_argument(f"--{name}", type=int, metavar="N", help=f"number of cases of {name}")
    given = vars(parser.parse_args(arguments))
    results = []
    for name in SUBJECTS:
        cases = given[name]
        if cases == 0 or (cases is None and given["only"]):
            continue
        results.append(fuzz(name, cases, given["seed"], given["first"], say=_say))
        _tell(results[-1])
    return int(any(found.failures for found in results))


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


def _tell(found: Findings) -> None:
    for one in found.failures:
        sys.stdout.write(one.report())
    sys.stdout.write(found.line() + "\n")
    failed = sum(found.outcomes[name] for name in FAILURES)
    sys.stdout.write(f"{found.subject}: {failed} failures\n")


if __name__ == "__main__":
    sys.exit(main())
