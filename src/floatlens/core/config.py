"""What can be chosen about a run, as pydantic models that the command line and the run manifest share.

They check form, not meaning: whether a model has that many layers or a sampler that setting is checked by those who
know, before any weights are read. Importing this stays quick: no torch, no numpy.
"""

from __future__ import annotations

from typing import Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from floatlens.core.errors import FloatlensError

__all__ = [
    "AskConfig",
    "CaptureConfig",
    "DataConfig",
    "DecodingConfig",
    "ModelConfig",
    "PromptConfig",
    "TraceConfig",
    "TraceRunConfig",
    "read_config",
]


class _Config(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ModelConfig(_Config):
    """Arguments of `floatlens.load`."""

    ref: str = Field(min_length=1, description="hub id, local folder, .gguf file or registered name")
    family: str | None = None
    revision: str | None = None
    dtype: str | None = None
    device: str | None = None
    device_map: str | dict[str, int | str] | None = Field(
        None, description="instead of device, as transformers takes it: auto spreads a model over all GPUs"
    )

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if self.device is not None and self.device_map is not None:
            raise ValueError("give device or device_map, not both")
        return self


class PromptConfig(_Config):
    """How a question and its documents become a prompt."""

    template: str = Field("default", description="a template's name, or the path of a .yaml file")
    chat: bool | None = Field(None, description="None: as a chat message wherever the tokenizer has a chat template")


class DecodingConfig(_Config):
    """The sampler (None: the one the family was published with) and its settings."""

    sampler: str | None = None
    settings: dict[str, Any] = Field(default_factory=dict)


class CaptureConfig(_Config):
    """What is recorded. None means the default probes, and all layers."""

    probes: tuple[str, ...] | None = None
    heads: Literal["all", "mean"] = "all"
    layers: tuple[int, ...] | None = None


class TraceConfig(_Config):
    """Everything about how one prompt is traced."""

    model: ModelConfig
    prompt: PromptConfig = PromptConfig()
    decoding: DecodingConfig = DecodingConfig()
    capture: CaptureConfig = CaptureConfig()


class DataConfig(_Config):
    """Which questions."""

    path: str
    limit: int | None = Field(None, ge=1, description="only the first so many")
    skip_bad: bool = False
    target: Literal["field", "answer"] | None = Field(
        None, description="force the record's own `target`, or its first accepted answer; None: nothing"
    )


class TraceRunConfig(TraceConfig):
    """A whole run of traces over a file of questions."""

    data: DataConfig


class AskConfig(_Config):
    """How questions are put to a model and its answers scored; the same for every model of a run.

    A setting of a sampler counts for every model whose sampler has it, a sampler for every model of its kind.
    """

    prompt: PromptConfig = PromptConfig()
    decoding: DecodingConfig = DecodingConfig()
    first_line: bool = Field(False, description="score an answer up to its first line break only")


_Any = TypeVar("_Any", bound=BaseModel)


def read_config(kind: type[_Any], values: dict[str, Any]) -> _Any:
    """A validated configuration; the first thing wrong with it is said in one line."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise FloatlensError(f"{where}={first['input']!r}: {first['msg']}") from None
