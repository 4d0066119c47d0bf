"""The options that several commands share, each declared once: single ones as types, related ones as dataclasses."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from floatlens.cli.commands import flag, option
from floatlens.cli.parsing import parse_settings
from floatlens.core.errors import FloatlensError

__all__ = [
    "DataOptions",
    "DataRefs",
    "DecodingOptions",
    "FirstLine",
    "Gold",
    "MachineOptions",
    "ModelOptions",
    "Models",
    "Out",
    "OutputOptions",
    "PromptOptions",
    "Rule",
    "Runs",
]

_DATA, _PROMPT, _DECODING, _MODEL, _MACHINE = "Data", "Prompt", "Decoding", "Model", "Machine"

Models = Annotated[
    list[str],
    typer.Argument(metavar="MODEL…", help="Hub ids, folders, .gguf files or registered names.", show_default=False),
]
DataRefs = Annotated[
    list[str],
    option(
        "Questions: a file, a data set of the paper (nq=FILE) or scale questions (scale:rag:documents=5). Repeatable.",
        metavar="REF",
    ),
]
Out = Annotated[Path, option("Run folder.", metavar="FOLDER")]
FirstLine = Annotated[bool, flag("Score an answer up to its first line break.", "--first-line", panel=_DECODING)]
Gold = Annotated[
    Literal["answer"] | None,
    option(
        "Which documents are gold; answer: those that contain an accepted answer.",
        panel=_DATA,
        default="as marked in the data",
    ),
]
Runs = Annotated[
    list[Path],
    typer.Argument(metavar="RUN…", help="Run folders, folders of traces or trace files.", show_default=False),
]
Rule = Annotated[
    str | None,
    option(
        "Anchor rule of every analysis: zscore(3), rulli(3), gu(0.3), topk(5) or top1.",
        metavar="RULE",
        default="zscore(3); top1 for absorption",
    ),
]


@dataclass(frozen=True)
class DataOptions:
    """How data files are read."""

    limit: Annotated[
        int | None, option("Use only the first N questions of each data set.", metavar="N", min=1, panel=_DATA)
    ] = None
    skip_bad: Annotated[bool, flag("Skip bad records of data files, with a warning.", "--skip-bad", panel=_DATA)] = (
        False
    )
    format: Annotated[
        str | None,
        option("Format of the data files.", metavar="NAME", panel=_DATA, default="detected from the first record"),
    ] = None

    def values(self) -> dict[str, Any]:
        """As options of a preset."""
        return asdict(self)


@dataclass(frozen=True)
class PromptOptions:
    """How a question becomes a prompt."""

    template: Annotated[str, option("Prompt template: a name or a .yaml file.", metavar="NAME", panel=_PROMPT)] = (
        "default"
    )
    chat: Annotated[
        bool | None,
        option(
            "Send the prompt as a chat message.",
            metavar="",
            panel=_PROMPT,
            default="if the tokenizer has a chat template",
        ),
    ] = None

    def values(self) -> dict[str, Any]:
        """As options of a preset."""
        return asdict(self)


@dataclass(frozen=True)
class DecodingOptions:
    """The sampler and its settings."""

    sampler: Annotated[
        str | None,
        option(
            "llada, dream, threshold or ar; applies to models of its kind.",
            metavar="NAME",
            panel=_DECODING,
            default="the family's own",
        ),
    ] = None
    settings: Annotated[
        list[str] | None,
        option(
            "Sampler setting, such as gen_length=16; applies to samplers that have it. Repeatable.",
            "--set",
            metavar="KEY=VALUE",
            panel=_DECODING,
        ),
    ] = None
    seed: Annotated[int | None, option("Sampler seed.", metavar="N", min=0, panel=_DECODING, default="0")] = None

    def values(self) -> dict[str, Any]:
        """As options of a preset; the seed is one of the settings."""
        return {"sampler": self.sampler, "settings": parse_settings(self.settings or (), self.seed)}


@dataclass(frozen=True)
class ModelOptions:
    """How models are loaded; the same for all models of a command."""

    family: Annotated[
        str | None,
        option(
            "Model family (floatlens models lists them).",
            metavar="NAME",
            panel=_MODEL,
            default="from the configuration",
        ),
    ] = None
    revision: Annotated[str | None, option("Revision of a hub repository.", metavar="NAME", panel=_MODEL)] = None
    dtype: Annotated[
        str | None,
        option(
            "float32, bfloat16, float16 or auto.",
            metavar="NAME",
            panel=_MODEL,
            default="float32 on a CPU, else the checkpoint's",
        ),
    ] = None
    device: Annotated[
        str | None,
        option("cpu, cuda, cuda:1 or mps.", metavar="NAME", panel=_MODEL, default="cuda if available, else cpu"),
    ] = None
    device_map: Annotated[
        str | None,
        option("Instead of --device: auto spreads a model over all GPUs.", metavar="MAP", panel=_MODEL),
    ] = None

    def values(self) -> dict[str, Any]:
        """As options of a preset, and of `floatlens.load`."""
        if self.device is not None and self.device_map is not None:
            raise FloatlensError("give --device or --device-map, not both")
        return asdict(self)


@dataclass(frozen=True)
class MachineOptions:
    """Where the work is done. None of these changes a result."""

    workers: Annotated[
        int | None,
        option("Worker processes.", metavar="N", min=1, panel=_MACHINE, default="from the study, else automatic"),
    ] = None
    threads: Annotated[
        int | None,
        option("Threads of each worker.", metavar="N", min=1, panel=_MACHINE, default="from the study, else automatic"),
    ] = None
    batch: Annotated[
        int | None,
        option("Questions decoded together.", metavar="N", min=1, panel=_MACHINE, default="from the study, else 16"),
    ] = None
    executor: Annotated[
        Literal["local", "ray"] | None,
        option("This machine, or Ray (docs/cluster.md).", panel=_MACHINE, default="from the study, else local"),
    ] = None
    address: Annotated[
        str | None,
        option(
            "Address of the Ray cluster, such as auto or ray://host:10001.",
            metavar="URL",
            panel=_MACHINE,
            default="a new one on this machine",
        ),
    ] = None
    gpus: Annotated[
        float | None,
        option(
            "GPUs that Ray reserves for each worker.",
            metavar="N",
            min=0,
            panel=_MACHINE,
            default="from the study, else 0",
        ),
    ] = None

    def values(self) -> dict[str, Any]:
        """What was given, as keys of the `machine` of a study."""
        return {key: value for key, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class OutputOptions:
    """What is written besides records and traces."""

    dry_run: Annotated[bool, flag("Show the plan and stop; nothing is written.", "--dry-run")] = False
    no_report: Annotated[bool, flag("Do not write report.html.", "--no-report")] = False
