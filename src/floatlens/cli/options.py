"""The options that several commands share, each declared once: single ones as types, related ones as dataclasses."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
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
    "StudyOptions",
]

_data, _prompt, _decoding, _model, _machine = (
    partial(option, panel=panel) for panel in ("Data", "Prompt", "Decoding", "Model", "Machine")
)

Models = Annotated[
    list[str],
    typer.Argument(metavar="MODEL…", help="Hub ids, folders, .gguf files or registered names.", show_default=False),
]
DataRefs = Annotated[
    list[str],
    option(
        "Questions: a file, a set of the paper (nq=FILE) or the hub (hub:OWNER/NAME:SPLIT), or scale:rag. Repeatable.",
        metavar="REF",
    ),
]
Out = Annotated[Path, option("Run folder.", metavar="FOLDER")]
FirstLine = Annotated[bool, flag("Score an answer up to its first line break.", "--first-line", panel="Decoding")]
Gold = Annotated[
    Literal["answer"] | None,
    _data("Which documents are gold; answer: those that contain an accepted answer.", default="as marked in the data"),
]
Runs = Annotated[
    list[Path],
    typer.Argument(metavar="RUN…", help="Run folders, folders of traces or trace files.", show_default=False),
]
Rule = Annotated[
    str | None,
    option(
        "Anchor rule of every analysis: robust(3.5), zscore(3), rulli(3), gu(0.3), topk(5) or top1.",
        metavar="RULE",
        default="robust(3.5); top1 for absorption",
    ),
]

Measured = Annotated[
    Literal["attention", "contribution"] | None,
    option(
        "What analyses count; contribution covers layers without attention as well.",
        "--measure",
        metavar="NAME",
        default="attention",
    ),
]


class Options:
    """A group of options; the fields are spread over the command line by `add_command`."""

    def values(self) -> dict[str, Any]:
        """As options of a preset."""
        return dict(vars(self))


@dataclass(frozen=True)
class DataOptions(Options):
    """How data files are read."""

    limit: Annotated[int | None, _data("Use only the first N questions of each data set.", min=1)] = None
    skip_bad: Annotated[bool, flag("Skip bad records of data files, with a warning.", "--skip-bad", panel="Data")] = (
        False
    )
    format: Annotated[
        str | None, _data("Format of the data files.", metavar="NAME", default="detected from the first record")
    ] = None


@dataclass(frozen=True)
class PromptOptions(Options):
    """How a question becomes a prompt."""

    template: Annotated[str, _prompt("Prompt template: a name or a .yaml file.", metavar="NAME")] = "default"
    chat: Annotated[
        bool | None,
        _prompt("Send the prompt as a chat message.", metavar="", default="if the tokenizer has a chat template"),
    ] = None


@dataclass(frozen=True)
class DecodingOptions:
    """The sampler and its settings."""

    sampler: Annotated[
        str | None,
        _decoding(
            "llada, dream, threshold, ar, bd3lm, …; applies to models of its kind.",
            metavar="NAME",
            default="the family's own",
        ),
    ] = None
    settings: Annotated[
        list[str] | None,
        _decoding(
            "Sampler setting, such as gen_length=16; applies to samplers that have it. Repeatable.",
            "--set",
            metavar="KEY=VALUE",
        ),
    ] = None
    seed: Annotated[int | None, _decoding("Sampler seed.", min=0, default="0")] = None

    def values(self) -> dict[str, Any]:
        """As options of a preset; the seed is one of the settings."""
        return {"sampler": self.sampler, "settings": parse_settings(self.settings or (), self.seed)}


@dataclass(frozen=True)
class ModelOptions(Options):
    """How models are loaded; the same for all models of a command."""

    family: Annotated[
        str | None,
        _model("Model family (floatlens models lists them).", metavar="NAME", default="from the configuration"),
    ] = None
    revision: Annotated[str | None, _model("Revision of a hub repository.", metavar="NAME")] = None
    dtype: Annotated[
        str | None,
        _model(
            "float32, bfloat16, float16 or auto.", metavar="NAME", default="float32 on a CPU, else the checkpoint's"
        ),
    ] = None
    device: Annotated[
        str | None, _model("cpu, cuda, cuda:1 or mps.", metavar="NAME", default="cuda if available, else cpu")
    ] = None
    device_map: Annotated[
        str | None, _model("Instead of --device: auto spreads a model over all GPUs.", metavar="MAP")
    ] = None
    attention: Annotated[
        str | None,
        _model("Attention mask, full or block_causal.", metavar="RULE", default="what the checkpoint says"),
    ] = None
    block_size: Annotated[
        int | None,
        _model("Positions per block of block-causal attention.", min=1, default="what the checkpoint says"),
    ] = None
    mask_id: Annotated[int | None, _model("Id of the mask token.", min=0, default="what the checkpoint says")] = None
    model_mode: Annotated[
        str | None, _model("ar or diffusion, for weights that run in both ways.", metavar="NAME", default="diffusion")
    ] = None

    def values(self) -> dict[str, Any]:
        """As options of a preset, and of `floatlens.load`."""
        if self.device is not None and self.device_map is not None:
            raise FloatlensError("give --device or --device-map, not both")
        found = super().values()
        return found | {"mode": found.pop("model_mode")}


@dataclass(frozen=True)
class MachineOptions:
    """Where the work is done. None of these changes a result."""

    workers: Annotated[int | None, _machine("Worker processes.", min=1, default="from the study, else automatic")] = (
        None
    )
    threads: Annotated[
        int | None, _machine("Threads of each worker.", min=1, default="from the study, else automatic")
    ] = None
    batch: Annotated[int | None, _machine("Questions decoded together.", min=1, default="from the study, else 16")] = (
        None
    )
    executor: Annotated[
        Literal["local", "ray"] | None,
        _machine("This machine, or Ray (docs/cluster.md).", default="from the study, else local"),
    ] = None
    address: Annotated[
        str | None,
        _machine(
            "Address of the Ray cluster, such as auto or ray://host:10001.",
            metavar="URL",
            default="a new one on this machine",
        ),
    ] = None
    gpus: Annotated[
        float | None,
        _machine("GPUs that Ray reserves for each worker.", metavar="N", min=0, default="from the study, else 0"),
    ] = None

    def values(self) -> dict[str, Any]:
        """What was given, as keys of the `machine` of a study."""
        return {key: value for key, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class OutputOptions:
    """What is written besides records and traces."""

    dry_run: Annotated[bool, flag("Show the plan and stop; nothing is written.", "--dry-run")] = False
    no_report: Annotated[bool, flag("Do not write report.html.", "--no-report")] = False


@dataclass(frozen=True)
class StudyOptions:
    """All that the presets share."""

    output: OutputOptions
    reading: DataOptions
    prompt: PromptOptions
    decoding: DecodingOptions
    loading: ModelOptions
    machine: MachineOptions

    def values(self) -> dict[str, Any]:
        """As options of a preset."""
        return self.reading.values() | self.prompt.values() | self.decoding.values() | self.loading.values()
