"""Parts of docs/findings.py on what practitioners do with attention: caches, steering, over-smoothing (issue 26).

Designs were fixed before any result, by what trial runs of a few questions cost. Costs are estimates in core-minutes:
CPU time of one thread, measured on a machine with other load, so rather too high than too low.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from findings_runs import ALONE, MODELS, NQ, RAMDOCS, RGB, RUNS, at_hand, few, keep, run

from floatlens.data import Example, open_data
from floatlens.data.stress import Pool, StressSettings
from floatlens.models.names import registered_names

__all__ = ["PARTS", "at_points", "short_passages"]

GAINS = "1,4,16,64"
"""ln(1 + gain) is 0.7, 1.6, 2.8 and 4.2 logits: from a mild to an overwhelming dose."""
DIFFUSION, BLOCK = "natural:smollm2-diffusion", "natural:smollm2-block"
BF16 = ("--dtype", "bfloat16")
"""A quarter of the time of float32 on this CPU; the weights come from 4 bits."""
WORDS = 50
"""Of a passage at most, title included: 273 of the 1,655 passages of NQ. Longer ones would take most of the time."""


def cache() -> None:
    """Refresh schedules on scale:llada and scale:dream: derived from the traces of 8 questions, chosen on 200, reported
    on 200 others; one token per pass, one draw of each control: 15,200 answers, about 65 core-minutes. Doses of `least`
    follow from a trace of two questions, in which no layer's keys turned by more than 0.3 degrees per step. Beside
    them: half of the layers at a time, and masks kept as well."""
    schedules = ("--least", "0.99999,0.9999,0.999,0.99", "--also", "stale:rule=elastic:threshold=0.9,0.99")
    halves = ("--also", "stale:refresh=8:on=0-3,4-7", "--also", "stale:refresh=2,8:tokens=all")
    data = ("--data", "scale:rag:seed=7", *_halves(200, 200), "--traces", "8")
    out = RUNS / "cache"
    run(
        "cache", "scale:llada", "scale:dream", *data, *schedules, *halves, "--set", "gen_length=8", *ALONE, "--out", out
    )
    keep(out, "cache")


def cache_natural() -> None:
    """The same on the diffusion twins of SmolLM2: NQ with short gold passages, chosen on 70 questions, reported on 200
    others, one token per pass: 3,780 answers, about 85 core-minutes. Two doses of `least`."""
    if not at_hand("cache-natural"):
        return
    file = RUNS / "nq-short.jsonl"
    _write(file, short_passages())
    schedules = ("--least", "0.99,0.9", "--also", "stale:rule=elastic:threshold=0.9")
    out = RUNS / "cache-natural"
    given = ("--data", file, *_halves(70, 200), "--traces", "8", *schedules)
    run("cache", DIFFUSION, BLOCK, *given, *BF16, "--set", "gen_length=8", *ALONE, "--out", out)
    keep(out, "cache-natural")


def steering() -> None:
    """Attention raised on the gold document: four doses, and as much attention on random tokens (two draws). 200
    questions of the scale world in five contexts: the gold document alone, among four random ones, among four on the
    same topic, first and last of ten. The question and what rises over depth: the same doses among documents on the
    same topic. 72,000 answers, about 130 core-minutes; two of eight tokens per pass."""
    wanted: dict[str, tuple[str, dict[str, Any], float]] = {
        "alone": ("noise", {"noise": {"ratios": [0]}}, 0),
        "noise": ("noise", {"noise": {"ratios": [0.8]}}, 0.8),
        "topic": ("distractor", {"distractor": {"kinds": ["topic"], "counts": [4]}}, 4),
        "first": ("position", {"position": {"places": [0]}}, 0),
        "last": ("position", {"position": {"places": [9]}}, 9),
    }
    sets = at_points(list(open_data("scale:rag:seed=7", limit=230).examples()), wanted, few(200))
    gold, *others = (["--edit", f"boost:span={span}:gain={GAINS}"] for span in ("gold", "question", "dynamics"))
    settings = ("--set", "gen_length=8", "--set", "steps=4", *ALONE)
    _boost("steering", MODELS, sets, gold, settings)
    _boost("steering-others", MODELS, {"topic": sets["topic"]}, [part for one in others for part in one], settings)


def steering_natural() -> None:
    """The same on SmolLM2's diffusion twin, where an answer under an edit takes 0.6 s and under its control 0.9 s:
    7,400 answers, about 85 core-minutes. What the design leaves out for that: three doses on the gold document; the
    question and what rises over depth at the middle dose, in one context; NQ with short passages; two passes of four
    tokens each, in bfloat16.

    Contexts of 200 questions: NQ with a random document before or after the gold one (position and noise), and one gold
    document with one that states a wrong answer, in random order: all 100 questions of RGB and the first 100 of RAMDocs
    that have both, as one set."""
    _steered("steering-natural", DIFFUSION)


def steering_block() -> None:
    """The same on the block twin, about 85 core-minutes."""
    _steered("steering-block", BLOCK)


def _steered(part: str, model: str) -> None:
    if not at_hand(part, NQ, RGB, RAMDOCS):
        return
    places: dict[str, tuple[str, dict[str, Any], float]] = {
        name: ("position", {"documents": 2, "position": {"places": [place]}}, place)
        for name, place in (("first", 0), ("last", 1))
    }
    sets = at_points(short_passages(), places, few(200))
    both: dict[str, tuple[str, dict[str, Any], float]] = {"wrong": ("wrong", {}, 0.5)}
    sets["wrong"] = [
        one
        for file in (RGB, RAMDOCS)
        for one in at_points(list(open_data(str(file)).examples()), both, few(100))["wrong"]
    ]
    sets = {name: sorted(found, key=_words) for name, found in sets.items()}  # batches of one length have no padding
    settings = ("--set", "gen_length=8", "--set", "steps=2", "--batch", "8", *BF16, *ALONE)
    _boost(part, [model], sets, ["--edit", "boost:span=gold:gain=1,8,64"], settings)
    others = ["--edit", "boost:span=question:gain=8", "--edit", "boost:span=dynamics:gain=8"]
    _boost(f"{part}-others", [model], {"last": sets["last"]}, others, settings)


def _words(one: Example) -> int:
    return sum(len(document.text.split()) for document in one.documents)


def _boost(
    part: str,
    models: Sequence[str],
    sets: Mapping[str, Iterable[Example]],
    edits: Sequence[str],
    settings: Sequence[str],
) -> None:
    """One run of edits with controls by mass."""
    common = ("--controls", "mass", "--control-draws", "2", "--traces", "0", *settings)
    run("intervene", *models, *_files(RUNS / part, sets), *edits, *common, "--out", RUNS / part / "run")
    keep(RUNS / part / "run", part)


def smoothing() -> None:
    """How alike tokens are by depth, in all models: 32 questions of the scale world with ten documents, 20 of NQ with
    short gold passages for SmolLM2 and its diffusion twins; about 10 core-minutes."""
    out = RUNS / "smoothing"
    models = (*MODELS, *(["scale:mamba"] if "scale:mamba" in registered_names() else []))
    probes = ("--probes", "smoothing", "--set", "gen_length=8")
    world = ("--data", "scale:rag:seed=8", "--limit", str(few(32)))
    runs = [out / "scale"]
    run("trace", *models, *world, *probes, *ALONE, "--out", runs[0])
    if at_hand("smoothing of SmolLM2"):
        _write(RUNS / "nq-short.jsonl", short_passages())
        real = ("--data", RUNS / "nq-short.jsonl", "--limit", str(few(20)))
        runs.append(out / "natural")
        models = ("natural:smollm2", DIFFUSION, BLOCK)
        run("trace", *models, *real, *probes, "--set", "steps=4", *ALONE, "--out", runs[-1])
    run("figures", *runs, "--only", "smoothing", "--format", "png", "--out", out)
    keep(out, "smoothing")


def _halves(choose: int, report: int) -> tuple[str, ...]:
    """How many questions a schedule is chosen and reported on."""
    return ("--choose", str(few(choose)), "--limit", str(few(choose) + few(report)))


def short_passages(words: int = WORDS) -> list[Example]:
    """The questions of NQ whose passage has at most so many words, title included."""
    return [
        one
        for one in open_data(str(NQ)).examples()
        if all(len(f"{document.title or ''} {document.text}".split()) <= words for document in one.documents)
    ]


def at_points(
    examples: Sequence[Example], wanted: Mapping[str, tuple[str, dict[str, Any], float]], count: int
) -> dict[str, list[Example]]:
    """The first `count` questions that fit all stress tests, at a point of each: a test with settings, and its x."""
    pool = Pool.of(examples)
    tests = {name: StressSettings.model_validate(settings).of(test) for name, (test, settings, _) in wanted.items()}
    fitting = [one for one in examples if all(test.unfit(one, pool) is None for test in tests.values())][:count]
    points = {
        name: next(point for point in test.points() if abs(point.x - wanted[name][2]) < 1e-9)
        for name, test in tests.items()
    }
    return {name: [test.apply(one, points[name], pool) for one in fitting] for name, test in tests.items()}


def _files(folder: Path, sets: Mapping[str, Iterable[Example]]) -> list[str | Path]:
    """`--data FILE` for each set, written into the folder."""
    for name, examples in sets.items():
        _write(folder / f"{name}.jsonl", examples)
    return [part for name in sets for part in ("--data", folder / f"{name}.jsonl")]


def _write(file: Path, examples: Iterable[Example]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(one.model_dump_json() + "\n" for one in examples), encoding="utf-8")


PARTS = {
    "cache": cache,
    "cache-natural": cache_natural,
    "steering": steering,
    "steering-natural": steering_natural,
    "steering-block": steering_block,
    "smoothing": smoothing,
}
