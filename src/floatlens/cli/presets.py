"""`floatlens run` and `demo` take a study from a file; `qa`, `stress`, `intervene` and `cache` make one of options."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from floatlens.attention.setting import ControlKind
from floatlens.cli.commands import flag, option
from floatlens.cli.options import DataRefs, FirstLine, Gold, MachineOptions, Models, Out, OutputOptions, StudyOptions
from floatlens.cli.parsing import parse_names
from floatlens.cli.studies import run_study
from floatlens.core.errors import FloatlensError, did_you_mean

__all__ = ["cache", "demo", "intervene", "more_edits", "qa", "run", "stress"]

_data = partial(option, panel="Data")
_test = partial(option, panel="Stress tests")


def run(
    context: typer.Context,
    study: Annotated[Path | None, typer.Argument(metavar="STUDY", help="A YAML file.", show_default=False)] = None,
    out: Annotated[
        Path | None, option("Run folder.", metavar="FOLDER", default="from the study, else runs/NAME")
    ] = None,
    schema: Annotated[bool, flag("Print the JSON schema of a study, for editors, and stop.", "--schema")] = False,
    *,
    output: OutputOptions,
    machine: MachineOptions,
) -> None:
    """Run a study from a YAML file.

    Models, data, conditions and traces are set in the file (docs/studies.md). The run folder gets records, traces,
    tables, figures, claims and report.html. Running the same command again continues where it stopped.
    """
    if schema:
        from floatlens.runs.study_file import schema as json_schema

        sys.stdout.write(json_schema() + "\n")
        return
    if study is None:
        raise FloatlensError("give a study, such as: floatlens run study.yaml (docs/studies.md shows one)")
    raise typer.Exit(run_study(study, out, context, output, machine))


def demo(
    context: typer.Context,
    out: Annotated[Path, option("Run folder.", metavar="FOLDER")] = Path("runs/demo"),
    show: Annotated[bool, flag("Print the study, as a start for your own, and stop.", "--show")] = False,
    *,
    output: OutputOptions,
    machine: MachineOptions,
) -> None:
    """Run the bundled study on the four small bundled models.

    It takes minutes on two cores and downloads nothing: questions with and without documents, noise and position of
    the gold document, anchors removed, and traces for drift, absorption, q·k, retrieval heads and region flow. The
    numbers are printed, and the report is OUT/report.html.
    """
    from importlib import resources

    file = resources.files("floatlens.runs") / "demo.yaml"
    if show:
        sys.stdout.write(file.read_text(encoding="utf-8"))
        return
    with resources.as_file(file) as path:
        raise typer.Exit(run_study(path, out, context, output, machine))


def qa(
    context: typer.Context,
    models: Models,
    data: DataRefs,
    out: Out,
    mode: Annotated[
        str, option("closed (no documents), rag (with documents), or both.", metavar="NAMES")
    ] = "closed,rag",
    first_line: FirstLine = False,
    documents: Annotated[int | None, _data("Show only the first N documents.", min=1)] = None,
    corpus: Annotated[
        Path | None, _data("Retrieve documents from this file (BM25).", metavar="FILE", default="those in the data")
    ] = None,
    top: Annotated[int | None, _data("Passages to retrieve from --corpus.", min=1, default="5")] = None,
    paper: Annotated[bool, flag("Add the paper's rows to the table.", "--paper")] = False,
    *,
    common: StudyOptions,
) -> None:
    """Score answers closed book and with documents.

    Writes one record per answer and Table 1 of the paper (Markdown, CSV, LaTeX), with gains and their intervals.
    Running the same command again continues where it stopped; other models and data can be added to the run.
    """
    from floatlens.runs.presets import qa_study

    study = qa_study(
        models,
        data,
        modes=parse_names(mode, "--mode") or (),
        documents=documents,
        corpus=corpus,
        top=top,
        paper=paper,
        first_line=first_line,
        **common.values(),
    )
    raise typer.Exit(run_study(study, out, context, common.output, common.machine))


def stress(
    context: typer.Context,
    models: Models,
    data: DataRefs,
    out: Out,
    test: Annotated[
        list[str] | None,
        _test(
            "Comma-separated stress tests, or one with settings, such as order:shuffles=8. Repeatable.",
            metavar="TEST",
            default="noise, position, distractor, layout, order, masks",
        ),
    ] = None,
    documents: Annotated[
        int | None, _test("Documents shown by position, layout and order.", min=2, default="10")
    ] = None,
    places: Annotated[
        str | None, _test("Places of the gold document, such as 0,4,9.", metavar="NUMBERS", default="all")
    ] = None,
    stress_seed: Annotated[int, _test("Seed of the stress tests.", min=0)] = 0,
    collection: Annotated[
        Path | None,
        _test("Dated documents for the test collection.", metavar="FILE", default="made from those in the data"),
    ] = None,
    gold: Gold = None,
    first_line: FirstLine = False,
    *,
    common: StudyOptions,
) -> None:
    """Measure robustness to noise, position, distractors and order.

    The same questions are asked with other documents around the gold one (docs/stress.md). Writes robustness and one
    accuracy curve per test, and the misled rate where the data names wrong answers. By name only: wrong and misleading
    (data with wrong documents), collection (documents that change). Running the same command again continues where it
    stopped.
    """
    from floatlens.runs.presets import stress_study

    tests, settings = _tests(test or (), documents, places)
    study = stress_study(
        models,
        data,
        tests=tests,
        gold=gold,
        stress=settings,
        stress_seed=stress_seed,
        collection=collection,
        first_line=first_line,
        **common.values(),
    )
    raise typer.Exit(run_study(study, out, context, common.output, common.machine))


def intervene(
    context: typer.Context,
    models: Models,
    data: DataRefs,
    out: Out,
    edit: Annotated[
        list[str] | None, option("Such as drop_anchors:k=1,5; see above. Repeatable.", metavar="EDIT")
    ] = None,
    patch: Annotated[
        str | None,
        option("Patch the first N questions, or all; with settings 20:k=2:what=kv.", metavar="N", default="none"),
    ] = None,
    traces: Annotated[
        int | None, option("Trace the first N questions under each edit (drift, absorption).", min=0, default="8")
    ] = None,
    heads_from: Annotated[
        list[Path] | None, option("Run whose traces tell which heads retrieve. Repeatable.", metavar="RUN")
    ] = None,
    control_seed: Annotated[int, option("Seed of the random controls: of their first draw.", min=0)] = 0,
    control_draws: Annotated[int, option("Draws of each random control; effects average over them.", min=1)] = 1,
    controls: Annotated[
        str | None, option("Random controls by count, by mass, or both.", metavar="KINDS", default="what edits have")
    ] = None,
    gold: Gold = None,
    first_line: FirstLine = False,
    *,
    common: StudyOptions,
) -> None:
    """Edit attention and measure the effect on answers.

    Edits: drop_anchors:k=1,5,10 · pin_anchors:to=step0 · swap_anchors · sink_token:logit=2 ·
    ablate_heads:top=4,8:mode=zero (or heads=5.3+7.0) · freeze_layers:layers=0-1. Each also takes strength=0.5, on=0-3
    (layers) and steps=1-2. Comma-separated values are doses (docs/edits.md).

    Layers without attention: drop_inputs:k=1,5 (or positions=0) · pin_inputs:k=5 · zero_mixers:layers=0-1.

    --patch replaces the states at the strongest keys, layer by layer, by those of a prompt that states another answer,
    and measures how far the first token follows. Settings: k, what (kv, residual), rows, draws.

    The same questions are asked unedited, with each edit, and with its random controls. Writes accuracy, F1, their
    changes, and the KL divergence of the first token. Running the same command again continues where it stopped.
    """
    from floatlens.runs.presets import intervene_study

    if not edit and patch is None:
        raise FloatlensError("nothing to do: give --edit, such as --edit drop_anchors:k=1, or --patch 20")
    study = intervene_study(
        models,
        data,
        edits=edit or (),
        patching=None if patch is None else _patching(patch),
        edited=traces,
        heads_from=heads_from or (),
        control_seed=control_seed,
        control_draws=control_draws,
        control_kinds=_kinds(controls),
        gold=gold,
        first_line=first_line,
        **common.values(),
    )
    raise typer.Exit(run_study(study, out, context, common.output, common.machine))


def _kinds(text: str | None) -> Any:
    """The kinds of --controls."""
    kinds = parse_names(text, "--controls")
    for kind in kinds or ():
        if kind not in get_args(ControlKind):
            raise FloatlensError(f'--controls {text}: no kind "{kind}"{did_you_mean(kind, get_args(ControlKind))}')
    return kinds


def cache(
    context: typer.Context,
    models: Models,
    data: DataRefs,
    out: Out,
    within: Annotated[
        float, option("Points of accuracy that the recommended schedule may cost.", metavar="POINTS", min=0, max=100)
    ] = 1.0,
    choose: Annotated[
        str,
        option("Choose it on the first N questions, report on the others; half; or all: on the same.", metavar="N"),
    ] = "half",
    least: Annotated[
        str, option("Cosines that keys should keep at least: a schedule for each.", metavar="NUMBERS")
    ] = "0.999,0.99,0.95,0.9",
    also: Annotated[
        list[str] | None,
        option(
            "Also try this, such as stale:refresh=2,4; none: nothing. Repeatable.",
            metavar="EDIT",
            default="stale:rule=elastic",
        ),
    ] = None,
    traces: Annotated[str, option("Trace the first N questions, or all, to derive the schedules.", metavar="N")] = "8",
    control_seed: Annotated[int, option("Seed of the random controls: of their first draw.", min=0)] = 0,
    control_draws: Annotated[int, option("Draws of each random control; effects average over them.", min=1)] = 1,
    gold: Gold = None,
    first_line: FirstLine = False,
    *,
    common: StudyOptions,
) -> None:
    """Find out what a cache may keep, and for how long.

    For diffusion models; autoregressive ones are refused: their cache is exact. Traces some questions, derives for
    each layer how often its keys and values have to be refreshed and how many keys hold 90, 95 and 99 % of the
    attention, and answers all questions with caches refreshed like that, beside full recomputation and random
    controls. The recommended schedule is the largest saving that costs at most --within points of accuracy on half of
    the questions; the tables are about the other half (docs/serving.md). Running the same command again continues
    where it stopped.
    """
    from floatlens.runs.presets import CACHE_RULES, cache_study

    options = common.values()
    study = cache_study(
        models,
        data,
        least=_cosines(least),
        also=CACHE_RULES if also is None else [one for one in also if one != "none"],
        traces=_count(traces),
        within=within,
        choose=_chosen_on(choose, options["limit"]),
        control_seed=control_seed,
        control_draws=control_draws,
        gold=gold,
        first_line=first_line,
        **options,
    )
    raise typer.Exit(run_study(study, out, context, common.output, common.machine))


def _cosines(text: str) -> list[float]:
    """The numbers of --least; the edit checks their range."""
    try:
        return [float(one) for one in text.split(",")]
    except ValueError:
        raise FloatlensError(f'--least {text}: wants numbers, such as 0.99,0.95, got "{text}"') from None


def _chosen_on(text: str, limit: int | None) -> Any:
    """The questions of --choose; some of --limit have to be left."""
    found = _count(text)
    if found not in ("half", "all") and (not isinstance(found, int) or found < 1):
        raise FloatlensError(f"--choose {text}: wants a whole number, at least 1, half or all")
    if isinstance(found, int) and limit is not None and found >= limit:
        raise FloatlensError(
            f"--choose {text}: leaves none of {limit} questions to report on; raise --limit, or give --choose all"
        )
    return found


def _count(text: str) -> Any:
    """A number of questions, or a word for it, which the study checks."""
    return int(text) if text.isascii() and text.isdecimal() else text


def more_edits() -> str:
    """For the help of `intervene`: the registered edits that it does not describe, such as those of other packages."""
    from floatlens.edits.spec import EDITS

    names = [name for name in EDITS if name not in (intervene.__doc__ or "")]
    return f"More edits, see docs/edits.md or the package that adds them: {', '.join(names)}." if names else ""


def _patching(text: str) -> dict[str, Any]:
    """`20:k=2:what=kv` as keys of a study, which reads the values."""
    count, *pairs = text.split(":")
    found: dict[str, Any] = {"questions": _count(count)}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise FloatlensError(f"--patch {text!r}: expected N:KEY=VALUE, such as 20:k=2:what=kv")
        found[key.strip()] = value
    return found


def _tests(
    given: Sequence[str], documents: int | None, places: str | None
) -> tuple[tuple[str, ...] | None, dict[str, Any]]:
    """Names of stress tests, None for all, and their settings; the tests themselves read the values."""
    names: dict[str, None] = {}
    settings: dict[str, Any] = {} if documents is None else {"documents": documents}
    for text in given:
        first, *pairs = text.split(":")
        if not pairs:
            names |= dict.fromkeys(parse_names(text, "--test") or ())
            continue
        names[first.strip()] = None
        for pair in pairs:
            key, equals, value = pair.partition("=")
            if not equals:
                raise FloatlensError(f"--test {text!r}: expected NAME:KEY=VALUES, such as order:shuffles=8")
            settings.setdefault(first.strip(), {})[key.strip().replace("-", "_")] = value
    if places is not None:
        settings.setdefault("position", {})["places"] = places
    return tuple(names) or None, settings
