"""`floatlens bench`: costs of capture, edits, digests and index updates, speed-up with two workers. For the lab."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from floatlens.cli.commands import option, require_lab
from floatlens.cli.parsing import parse_names, parse_numbers
from floatlens.cli.terminal import say

__all__ = ["bench"]


def bench(
    part: Annotated[
        Literal[
            "all", "capture", "edits", "digests", "contribution", "throughput", "index", "load", "stream", "others"
        ],
        option(
            "Cost of capture, edits, digests or contributions, speed-up with two workers, update of an index, or all "
            "of these; and by name alone: load, stream, others."
        ),
    ] = "all",
    subject: Annotated[
        str | None,
        option(
            "Published width of capture, load or stream: llada-8b, dream-7b, llama-8b, nemotron-3b.", metavar="NAME"
        ),
    ] = None,
    layers: Annotated[int | None, option("Layers of --subject that are built.", min=1, default="2; load: 4")] = None,
    device: Annotated[str, option("Device of --subject.", metavar="NAME")] = "cpu",
    kernel: Annotated[
        str | None,
        option(
            "Fused kernels of --subject, side by side: triton,flex on a GPU, flash on a CPU.",
            metavar="NAME,NAME",
            default="the one that traces use",
        ),
    ] = None,
    lengths: Annotated[
        str | None,
        option("Comma-separated sequence lengths.", metavar="N,N", default="512 to 8192, or to 2048"),
    ] = None,
    rounds: Annotated[int | None, option("Repetitions of each variant.", min=1, default="3; edits: 2")] = None,
    threads: Annotated[int | None, option("Torch threads.", default="all cores")] = None,
    memory: Annotated[
        bool, option("Measure the peak memory of capture (Linux).", metavar="", default="on Linux")
    ] = sys.platform == "linux",
    python: Annotated[
        Path | None,
        option("Python that has TransformerLens and nnsight, for others.", metavar="FILE", default="this one"),
    ] = None,
    out: Annotated[Path, option("Folder for tables and numbers.", metavar="FOLDER")] = Path("benchmarks"),
) -> None:
    """Measure the cost of capture, edits and digests.

    Decoding with capture is compared with decoding without it and with eager attention; all variants take turns in one
    run. The throughput part measures the speed-up with two workers, the index part the update of an index of documents
    that change; they use only --rounds and --out. Parts that are run only when they are named: load and stream, the
    memory of loading a model and of 128 steps at a published width, and others, received attention beside
    TransformerLens and nnsight.
    """
    require_lab("floatlens bench")
    from floatlens_lab import bench as benches

    given = parse_numbers(lengths, "--lengths", "512,2048")
    chosen: dict[str, Any] = {"threads": threads} | ({} if given is None else {"lengths": given})
    if part in ("load", "stream", "others"):
        _bench_apart(part, subject or "llada-8b", layers, rounds or 3, python, chosen, out)
        return
    if subject is not None:
        names = parse_names(kernel, "--kernel") or ()
        _bench_width(subject, given or (256, 1024), rounds or 3, layers or 2, device, names, threads, out)
        return
    if part in ("all", "capture"):
        results = benches.run(benches.Plan(rounds=rounds or 3, memory=memory, **chosen), say=say)
        sys.stdout.write(benches.as_markdown(results))
        say("saved {} and {}".format(*benches.save(results, out)))
    if part in ("all", "edits"):
        edited = benches.run_edits(benches.EditPlan(rounds=rounds or 2, **chosen), say=say)
        sys.stdout.write(benches.edits_as_markdown(edited))
        say("saved {} and {}".format(*benches.save_edits(edited, out)))
    if part in ("all", "digests"):
        sealed = benches.run_digests(benches.DigestPlan(rounds=rounds or 3, **chosen), say=say)
        sys.stdout.write(benches.digests_as_markdown(sealed))
        say("saved {} and {}".format(*benches.save_digests(sealed, out)))
    if part in ("all", "contribution"):
        weighed = benches.run_contribution(
            benches.ContributionPlan(rounds=rounds or 3, memory=memory, **chosen), say=say
        )
        sys.stdout.write(benches.contribution_as_markdown(weighed))
        say("saved {} and {}".format(*benches.save_contribution(weighed, out)))
    if part in ("all", "throughput"):
        from floatlens_lab.bench.throughput import as_markdown, measure, save

        found = measure(rounds=rounds or 3, say=say)
        sys.stdout.write(as_markdown(found))
        say("saved {} and {}".format(*save(found, out)))
    if part in ("all", "index"):
        from floatlens_lab.bench import index

        cost = index.measure(rounds=rounds or 3, say=say)
        sys.stdout.write(index.as_markdown(cost))
        say("saved {} and {}".format(*index.save(cost, out)))


def _bench_apart(
    part: str,
    subject: str,
    layers: int | None,
    rounds: int,
    python: Path | None,
    chosen: dict[str, Any],
    out: Path,
) -> None:
    """Parts that are run only when they are named: gigabytes of memory and disk, or other people's tools."""
    from floatlens_lab.bench import apart_report as report
    from floatlens_lab.bench.load import LoadPlan, run_load
    from floatlens_lab.bench.others import OthersPlan, run_others
    from floatlens_lab.bench.stream import StreamPlan, run_stream

    if part == "load":
        loaded = run_load(LoadPlan(subject, layers or 4, rounds=rounds), say=say)
        text, files = report.load_as_markdown(loaded), report.save_load(loaded, out)
    elif part == "stream":
        streamed = run_stream(StreamPlan(subject, layers or 2, **chosen), say=say)
        text, files = report.stream_as_markdown(streamed), report.save_stream(streamed, out)
    else:
        settings = chosen if python is None else chosen | {"python": str(python)}
        beside = run_others(OthersPlan(rounds=rounds, **settings), say=say)
        text, files = report.others_as_markdown(beside), report.save_others(beside, out)
    sys.stdout.write(text)
    say("saved {} and {}".format(*files))


def _bench_width(
    subject: str,
    lengths: Sequence[int],
    rounds: int,
    layers: int,
    device: str,
    kernels: Sequence[str],
    threads: int | None,
    out: Path,
) -> None:
    import torch

    from floatlens_lab.bench import width

    if device.startswith("cuda") and not torch.cuda.is_available():
        say(f"skipped: --device {device}, and torch {torch.__version__} finds no GPU here")
        return
    if threads is not None:
        torch.set_num_threads(threads)
    results = width.rehearse(subject, lengths, rounds, layers, device, kernels, say=say)
    sys.stdout.write(width.as_markdown(subject, results))
    command = f"floatlens bench --subject {subject} --layers {layers} --lengths {','.join(map(str, lengths))}"
    command += "" if device == "cpu" else f" --device {device}"
    say("saved {} and {}".format(*width.save(subject, results, out, command)))
